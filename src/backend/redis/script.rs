//! The two scripts: what they are sent, and what their answers mean.
//!
//! A script does no more than compare and add: it is told for each bucket a verb, a cost and a tolerance, or tiers,
//! and answers with what was stored, the time, and whether it has stored anything. What that means is computed by
//! [`Outcome::judge`], as for every backend, and the two must agree.

use std::sync::LazyLock;

use fred::{types::Value, util::sha1_hash};
use smallvec::SmallVec;

use super::{
    error::{Failure, RedisError},
    keys::KeyForm,
};
use crate::{
    clock::{InvalidNow, Timestamp},
    decision::{self, Outcome, Seen, State},
    gcra::Tat,
    tiers::{NEVER, View, Window},
    transaction::{Algorithm, Batch, Member, Mode, Operation},
};

/// A script, and the name that Redis has for it.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) text: &'static str,
    pub(super) sha: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            sha: sha1_hash(text),
        }
    }
}

/// Spends from one bucket: by far the most frequent, and so by a shorter script than the others.
static SPEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/spend.lua")
    ))
});

/// Does whatever is asked to any number of buckets.
static BATCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(
        include_str!("script/clock.lua"),
        include_str!("script/tiers.lua"),
        include_str!("script/batch.lua")
    ))
});

/// What every server should have loaded.
pub(super) fn scripts() -> [&'static Script; 2] {
    [&SPEND, &BATCH]
}

/// The highest number that Lua keeps exactly. A cost in microseconds is cut off there: it is beyond every
/// tolerance, and deeper than any debt.
const MOST_US: u64 = (1 << 53) - 1;

/// Stands for the server's own clock.
const SERVERS_CLOCK: Value = Value::Integer(-1);

/// One call of a script. On a cluster, its keys are in one slot.
#[derive(Clone, Debug)]
pub(super) struct Call {
    script: &'static Script,
    /// What follows the script: the number of keys, the keys, and the script's own arguments.
    arguments: Vec<Value>,
}

impl Call {
    /// The call that does to buckets what `operation` and the members say.
    pub(super) fn new<'a>(
        operation: Operation,
        now: Option<Timestamp>,
        members: impl ExactSizeIterator<Item = &'a Member<'a>> + Clone,
        form: &KeyForm,
    ) -> Self {
        let mut arguments = Vec::with_capacity(2 + 7 * members.len());
        arguments.push(integer(members.len() as u64));
        arguments.extend(members.clone().map(|member| Value::from(form.key(member))));
        arguments.push(now.map_or(SERVERS_CLOCK, |now| integer(now.as_micros())));
        let mut script = &*BATCH;
        let is_spend = |member: &Member<'_>| {
            let Algorithm::Gcra(_) = member.algorithm else {
                return false;
            };
            verb(operation, member) == "spend"
        };
        if members.len() == 1 && members.clone().all(is_spend) {
            script = &*SPEND;
        }
        members.for_each(|member| push_member(operation, member, &mut arguments));
        if std::ptr::eq(script, &raw const *SPEND) {
            let needed = arguments
                .iter()
                .rposition(|argument| *argument != Value::Integer(0));
            arguments.truncate(needed.map_or(0, |last| last + 1));
        }
        Self { script, arguments }
    }

    pub(super) fn script(&self) -> &'static Script {
        self.script
    }

    /// The arguments of an `EVALSHA` or, if the script is told by its text, an `EVAL`.
    pub(super) fn arguments(&self, script: &'static str) -> Vec<Value> {
        let script = std::iter::once(Value::from_static_str(script));
        script.chain(self.arguments.iter().cloned()).collect()
    }
}

fn push_member(operation: Operation, member: &Member<'_>, arguments: &mut Vec<Value>) {
    arguments.push(Value::from_static_str(verb(operation, member)));
    match member.algorithm {
        Algorithm::Gcra(gcra) => {
            let (cost, tolerance) = (gcra.increment(member.cost), gcra.tolerance());
            arguments.extend([
                integer(gcra.count().into()),
                integer(cost.us.min(MOST_US)),
                integer(tolerance.us),
                integer(cost.frac.into()),
                integer(tolerance.frac.into()),
            ]);
        }
        Algorithm::Tiers(tiers) => {
            let spans = tiers.spans();
            arguments.extend([
                integer(0),
                integer(member.cost.into()),
                integer(member.min_cost.into()),
                integer(spans.len() as u64),
            ]);
            arguments.extend(spans.iter().flat_map(|span| {
                let kind = u64::from(span.skippable) + 2 * u64::from(span.slides);
                let [window, active, cooldown] =
                    [span.window, span.active, span.cooldown].map(ticks);
                [
                    integer(span.limit.into()),
                    window,
                    active,
                    cooldown,
                    integer(kind),
                ]
            }));
        }
    }
}

fn ticks(us: u64) -> Value {
    match us {
        NEVER => Value::Integer(-1),
        us => integer(us),
    }
}

/// What is done to a member's bucket. A check asks nothing of the script but what is stored, and tiers give nothing back.
fn verb(operation: Operation, member: &Member<'_>) -> &'static str {
    match (operation, member.mode) {
        (Operation::Reset, _) => "reset",
        (Operation::Check, _) | (Operation::Refund, Mode::CheckOnly) => "look",
        (Operation::Spend, Mode::CheckOnly) => "vote",
        (Operation::Spend, Mode::CheckAndSpend) if member.cost == 0 => "vote",
        _ if member.cost == 0 => "look",
        (Operation::Refund, _) => match member.algorithm {
            Algorithm::Gcra(_) => "refund",
            Algorithm::Tiers(_) => "look",
        },
        (Operation::Spend, Mode::CheckAndSpend) => "spend",
        (Operation::Spend, Mode::SpendOnly) => "offer",
        (Operation::Spend, Mode::Debit) => "debit",
    }
}

/// What was stored for a member.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Gcra(Tat),
    Tiers(FoundTiers),
}

/// What was stored of a bucket with tiers, as far as one request has to know it.
#[derive(Clone, Debug)]
pub(super) struct FoundTiers {
    /// When it was, by the server's clock or the client's.
    asked: u64,
    /// The time by which it was judged: not before the last grant.
    now: u64,
    tiers: SmallVec<[FoundTier; 2]>,
    /// How much the script has granted.
    granted: u32,
}

#[derive(Clone, Debug)]
struct FoundTier {
    entry: Option<u64>,
    used: u32,
    newest: u64,
    oldest: SmallVec<[u64; 2]>,
}

impl Found {
    pub(super) const NOTHING: Self = Self::Gcra(Tat { us: 0, frac: 0 });

    fn parse(first: &Value, second: &Value, asked: u64) -> Option<Self> {
        match first {
            Value::Array(figures) => {
                let mut figures = figures.iter();
                let now = figures.next()?.as_u64()?;
                let mut tiers = SmallVec::new();
                while figures.len() > 0 {
                    tiers.push(FoundTier::parse(&mut figures)?);
                }
                let granted = second.as_u64()?.try_into().ok()?;
                Some(Self::Tiers(FoundTiers {
                    asked,
                    now,
                    tiers,
                    granted,
                }))
            }
            us => Some(Self::Gcra(Tat {
                us: us.as_u64()?,
                frac: second.as_u64()?.try_into().ok()?,
            })),
        }
    }

    /// The same told by another clock. Tiers have their own.
    pub(super) fn by_clock(self, from: Timestamp, to: Timestamp) -> Self {
        match self {
            Self::Gcra(tat) => match State::Gcra(tat).by_clock(from, to) {
                State::Gcra(tat) => Self::Gcra(tat),
                State::Tiers(_) => Self::NOTHING,
            },
            tiers @ Self::Tiers(_) => tiers,
        }
    }

    fn see(&self) -> Seen<'_> {
        match self {
            Self::Gcra(tat) => Seen::Gcra(*tat),
            Self::Tiers(found) => {
                let tiers = found.tiers.iter();
                let windows = tiers
                    .map(|tier| Window::seen(tier.entry, tier.used, &tier.oldest, tier.newest));
                Seen::Tiers(View::new(found.asked, found.now, windows))
            }
        }
    }

    /// Whether what the script has granted is what `answer` says.
    fn agrees(&self, answer: &decision::Answer) -> bool {
        match (self, answer.state) {
            (Self::Tiers(found), State::Tiers(figures)) => {
                !answer.passed || found.granted == figures.grant.units()
            }
            _ => true,
        }
    }
}

impl FoundTier {
    fn parse<'a>(figures: &mut impl Iterator<Item = &'a Value>) -> Option<Self> {
        let mut next = || figures.next();
        let entry = next()?.as_i64()?;
        let used = next()?.as_u64()?.try_into().ok()?;
        let newest = next()?.as_u64()?;
        let shown = next()?.as_u64()?;
        let oldest = (0..shown).map(|_| next()?.as_u64());
        Some(Self {
            entry: entry.try_into().ok(),
            used,
            newest,
            oldest: oldest.collect::<Option<_>>()?,
        })
    }
}

/// What a script has answered: `1` or `0`, the time, and two values for each bucket.
#[derive(Debug)]
pub(super) struct Answer {
    /// Whether all that vote fit, and so whether anything is stored. A check asks for no votes.
    pub(super) passes: bool,
    /// When it was decided by the server's clock, or the client's if that was sent.
    pub(super) now: Timestamp,
    /// What was stored before, in the order of the keys.
    pub(super) stored: SmallVec<[Found; 4]>,
}

impl Answer {
    pub(super) fn read(reply: &Value) -> Result<Self, Failure> {
        let answer = Self::parse(reply).ok_or_else(|| Failure::garbled(reply))?;
        answer.now.validate()?;
        Ok(answer)
    }

    fn parse(reply: &Value) -> Option<Self> {
        let Value::Array(reply) = reply else {
            return None;
        };
        let (head, found) = reply.split_at_checked(2)?;
        let now = head[1].as_u64()?;
        let stored = found.chunks(2).map(|found| match found {
            [first, second] => Found::parse(first, second, now),
            _ => None,
        });
        Some(Self {
            passes: head[0].as_u64()? == 1,
            now: Timestamp::from_micros(now),
            stored: stored.collect::<Option<_>>()?,
        })
    }

    /// What the answer means for the batch that was asked for. The script and this crate must agree on it.
    pub(super) fn judge(&self, batch: &Batch<'_>) -> Result<Outcome, Failure> {
        let garbled = || RedisError::Garbled(format!("{self:?}"));
        if self.stored.len() != batch.members.len() {
            return Err(garbled().into());
        }
        let outcome = judge(batch, self.now, &self.stored)?;
        let agrees = batch.operation != Operation::Spend
            || self.passes == outcome.passes(batch)
                && (!self.passes
                    || self
                        .stored
                        .iter()
                        .zip(outcome.answers())
                        .all(|(found, answer)| found.agrees(answer)));
        agrees.then_some(outcome).ok_or_else(|| garbled().into())
    }
}

/// Judges a batch by what was stored.
pub(super) fn judge(
    batch: &Batch<'_>,
    now: Timestamp,
    found: &[Found],
) -> Result<Outcome, InvalidNow> {
    let seen: SmallVec<[Seen<'_>; 4]> = found.iter().map(Found::see).collect();
    Outcome::judge(batch, now, &seen)
}

/// A number that a script is sent; all are below 2⁵³.
const fn integer(number: u64) -> Value {
    Value::Integer(number.cast_signed())
}
