//! The two scripts: what they are sent, and what their answers mean.
//!
//! A script only compares and adds. For each bucket it gets a verb, a cost and a tolerance, or tiers, and returns
//! what was stored, the time, and whether it has stored anything. [`Outcome::judge`] computes what that means, as for
//! every backend, and the two must agree.

use std::sync::LazyLock;

use fred::{types::Value, util::sha1_hash};
use smallvec::SmallVec;

use super::{
    error::{Failure, RedisError},
    keys::KeyForm,
    stored_reply::StoredReply,
};
use crate::{
    clock::{InvalidNow, Timestamp},
    decision::{BucketView, Outcome},
    gcra::{Gcra, Ticks},
    tiers::NEVER,
    transaction::{Action, Algorithm, Batch, Member, Operation},
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
pub(super) struct ScriptCall {
    script: &'static Script,
    /// What follows the script: the number of keys, the keys, and the script's own arguments.
    arguments: Vec<Value>,
}

impl ScriptCall {
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

    /// The arguments of an `EVALSHA` or, with the text of the script, of an `EVAL`.
    pub(super) fn arguments(&self, script: &'static str) -> Vec<Value> {
        let script = std::iter::once(Value::from_static_str(script));
        script.chain(self.arguments.iter().cloned()).collect()
    }
}

fn push_member(operation: Operation, member: &Member<'_>, arguments: &mut Vec<Value>) {
    arguments.push(Value::from_static_str(verb(operation, member)));
    match member.algorithm {
        Algorithm::Gcra(gcra) => push_gcra(operation, member, gcra, arguments),
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
        // `RedisBackend::admits` refuses them.
        Algorithm::Window(_) | Algorithm::Quota(_) => {}
    }
}

/// The arguments of a bucket without tiers that follow its verb.
fn push_gcra(operation: Operation, member: &Member<'_>, gcra: &Gcra, arguments: &mut Vec<Value>) {
    // A refund asks whether somebody waits. A charge that may wait reaches further.
    let (cost, wait) = match operation {
        Operation::Refund => (member.refund(gcra), 0),
        _ => (gcra.increment(member.cost), member.max_wait_us(gcra)),
    };
    let tolerance = gcra.tolerance();
    arguments.extend([
        integer(gcra.count().into()),
        integer(cost.us.min(MOST_US)),
        integer(tolerance.us + wait),
        integer(cost.frac.into()),
        integer(tolerance.frac.into()),
    ]);
    if verb(operation, member) == LEAVE {
        let own = member.own_tat();
        arguments.push(own.map_or(Value::Integer(-1), |own| integer(own.us)));
        arguments.push(integer(own.map_or(0, |own| own.frac.into())));
    }
}

fn ticks(us: u64) -> Value {
    match us {
        NEVER => Value::Integer(-1),
        us => integer(us),
    }
}

/// The refund of a limit with a line, which has two arguments more than others.
const LEAVE: &str = "leave";

/// What the script does to a member's bucket. A check asks it for no more than what is stored.
fn verb(operation: Operation, member: &Member<'_>) -> &'static str {
    let batch = Batch::new(operation, &[]);
    let votes = operation == Operation::Spend && batch.votes(member);
    match (batch.action(member), member.algorithm) {
        (Action::Spend, _) if votes => "spend",
        (Action::Spend, _) => "offer",
        (Action::Debit, _) => "debit",
        (Action::Refund, Algorithm::Gcra(gcra)) if member.refund(gcra) > Ticks::default() => {
            match gcra.max_wait_us() {
                0 => "refund",
                _ => LEAVE,
            }
        }
        (Action::Reset, _) => "reset",
        (Action::Probe, _) if votes => "vote",
        _ => "look",
    }
}

/// What a script has answered: `1` or `0`, the time, and two values for each bucket.
#[derive(Debug)]
pub(super) struct ScriptAnswer {
    /// Whether all that vote fit, and so whether anything is stored. A check asks for no votes.
    pub(super) passes: bool,
    /// When it was decided by the server's clock, or the client's if that was sent.
    pub(super) now: Timestamp,
    /// What was stored before, in the order of the keys.
    pub(super) stored: SmallVec<[StoredReply; 4]>,
}

impl ScriptAnswer {
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
            [first, second] => StoredReply::parse(first, second, now),
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
        let mut found = self.stored.iter().zip(outcome.answers());
        let agrees = self.passes == outcome.passes(batch)
            && (!self.passes || found.all(|(found, answer)| found.agrees(answer)));
        // A check asks for no votes, and the others always pass.
        let agrees = agrees || batch.operation != Operation::Spend;
        agrees.then_some(outcome).ok_or_else(|| garbled().into())
    }
}

/// Judges a batch by what was stored.
pub(super) fn judge(
    batch: &Batch<'_>,
    now: Timestamp,
    found: &[StoredReply],
) -> Result<Outcome, InvalidNow> {
    let members = batch.members.iter().zip(found);
    let seen: SmallVec<[BucketView<'_>; 4]> =
        members.map(|(member, found)| found.see(member)).collect();
    now.validate()?;
    Ok(Outcome::judge(batch, now, &seen))
}

/// A number that a script is sent; all are below 2⁵³.
const fn integer(number: u64) -> Value {
    Value::Integer(number.cast_signed())
}
