//! The arguments and the answer of the script, which `head.lua` describes.

use std::iter::zip;

use smallvec::SmallVec;

use super::{error::Failure, keys::KeyForm, resp::RedisValue as Value};
use crate::{
    algorithm::{
        Algorithm, Arithmetic, Charge, Verb, Wait, block::Block, gcra::Ticks, window::WindowSummary,
    },
    batch::{Batch, Member},
    clock::Timestamp,
    decision::Answer,
    limit::{Limit, Limits},
    transaction::{Mode, Operation},
};

/// A batch in the form that the script decides. On a cluster, its keys are in one slot.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// The key and the question of each member.
    members: SmallVec<[(Value, Value); 1]>,
    /// The client's time, if the batch is decided by it.
    pub(super) now: Option<Timestamp>,
    /// The bucket, if there is only one.
    pub(super) bucket: Option<u64>,
    /// The part of a shared command that the call takes. A usual bucket counts one.
    pub(super) weight: usize,
}

impl Call {
    /// Writes a batch. `around` returns the approximate time of the decision, which only calendars need.
    pub(super) fn new(batch: &Batch<'_>, form: &KeyForm, around: impl Fn() -> u64) -> Self {
        let members = zip(1.., batch.members).map(|(nth, member)| {
            let is_last = nth == batch.members.len();
            let question = question(batch, member, is_last, &around);
            (form.key(member).into(), question)
        });
        // The answer for tiers can have as many instants as the smallest acceptable grant has units.
        let weight = |member: &Member<'_>| 1 + member.ask.min_cost as usize / 128;
        Self {
            members: members.collect(),
            now: batch.now,
            bucket: match batch.members {
                [member] => Some(member.print.bucket),
                _ => None,
            },
            weight: batch.members.iter().map(weight).sum(),
        }
    }

    /// A call that empties a bucket that no client has, at a time that needs no clock.
    pub(super) fn probe(form: &KeyForm) -> Self {
        const NAME: &str = "tollgate-probe";
        let limits = Limits::builder().limit(NAME, Limit::per_second(1));
        let limits = limits.build().expect("it is one valid limit");
        let members = limits
            .iter()
            .map(|limit| Member::new(limit, NAME, 1, Mode::CheckAndSpend));
        let members: Vec<_> = members.collect();
        let batch = Batch::new(Operation::Reset, &members).at(Some(Timestamp::from_micros(0)));
        Self::new(&batch, form, || 0)
    }

    /// Returns the first key.
    pub(super) fn key(&self) -> &[u8] {
        let first = self.members.first();
        first
            .and_then(|(key, _)| key.as_bytes())
            .unwrap_or_default()
    }
}

/// Writes the question of a member. All numbers are below 2⁵³. The largest `u64` is written as -1.
#[expect(clippy::cast_precision_loss, reason = "doubles hold them exactly")]
fn question(
    batch: &Batch<'_>,
    member: &Member<'_>,
    is_last: bool,
    around: impl Fn() -> u64,
) -> Value {
    let ask = &member.ask;
    let (letter, mut numbers): (_, SmallVec<[u64; 8]>) = match member.algorithm() {
        Algorithm::Gcra(gcra) => ("G", gcra.question(ask).into_iter().collect()),
        Algorithm::Window(window) => ("W", window.question(ask).into_iter().collect()),
        Algorithm::Concurrency(limit) => ("C", limit.question(ask).into_iter().collect()),
        Algorithm::Quota(quota) => ("Q", quota.question(ask, around()).into_iter().collect()),
        Algorithm::Tiers(tiers) => ("T", tiers.question(ask).collect()),
        Algorithm::Block(_) => ("B", [Block::time(ask)].into_iter().collect()),
    };
    let verb = match ask.verb {
        _ if batch.operation == Operation::Reset => "reset",
        Verb::Refund | Verb::Renew if ask.cost == 0 => "look",
        Verb::Spend => "spend",
        Verb::Debit => "debit",
        Verb::Refund => "refund",
        Verb::Renew => "renew",
        Verb::Peek => "look",
    };
    if ask.charge.is_some() || matches!(ask.verb, Verb::Refund | Verb::Renew) {
        let charge = ask.charge.map(|charge| [charge.at, charge.frac.into()]);
        numbers.extend(charge.unwrap_or([u64::MAX, 0]));
    }
    // A debit votes, so that a debit without room denies its batch.
    let is_debit = ask.verb == Verb::Debit && batch.operation != Operation::Reset;
    let votes = batch.votes(member) || is_debit;
    let mode = u8::from(votes) + 2 * u8::from(batch.writes(member)) + 4 * u8::from(is_last);
    let mut text = Vec::with_capacity(9 + 8 * numbers.len());
    for part in [letter, verb, "\0"] {
        text.extend_from_slice(part.as_bytes());
    }
    text.push(mode);
    for number in numbers {
        text.extend_from_slice(&(number.cast_signed() as f64).to_le_bytes());
    }
    Value::Bytes(text.into())
}

/// Returns the arguments of `EVALSHA` or `EVAL` for calls with the same time.
pub(super) fn encode<'a>(
    script: &'static str,
    calls: impl Iterator<Item = &'a Call>,
) -> Vec<Value> {
    let mut members = Vec::<&(Value, Value)>::new();
    let mut counts = Vec::<u8>::new();
    let mut was_single = false;
    let mut now = None;
    for call in calls {
        let is_single = call.bucket.is_some();
        let repeats = is_single && was_single && members.last().copied() == call.members.first();
        match counts
            .last_mut()
            .filter(|count| repeats && **count < u8::MAX)
        {
            Some(count) => *count += 1,
            None => members.extend(&call.members),
        }
        counts.resize(members.len(), 1);
        was_single = is_single;
        now = call.now;
    }
    let mut arguments = Vec::with_capacity(4 + 2 * members.len());
    let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
    arguments.extend([Value::from_static_str(script), Value::Integer(count)]);
    arguments.extend(members.iter().map(|(key, _)| key.clone()));
    let now = now.map_or(-1, |now| now.as_micros().cast_signed());
    arguments.push(Value::Integer(now));
    arguments.extend(members.iter().map(|(_, question)| question.clone()));
    if counts.iter().any(|count| *count > 1) {
        arguments.push(Value::Bytes(counts.into()));
    }
    arguments
}

/// The script's answer to a call.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// The time of the decision, by the server's clock or, if one was sent, the client's.
    now: u64,
    /// For each member its units, or -1, and the numbers that its algorithm shows.
    numbers: SmallVec<[i64; 4]>,
}

/// Splits the script's answer into the answers to each call.
#[expect(clippy::cast_possible_truncation, reason = "they are whole")]
pub(super) fn decode(answer: &Value, calls: usize) -> Option<Vec<Result<Reply, Failure>>> {
    let (text, reasons) = match answer {
        Value::Array(all) => all.split_first()?,
        text => (text, &[][..]),
    };
    let doubles = text.as_bytes()?.chunks_exact(8);
    let mut numbers =
        doubles.map(|bytes| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes) as i64);
    let now = numbers.next()?.try_into().ok()?;
    let mut reasons = reasons.iter();
    let mut next = || match usize::try_from(numbers.next()?) {
        Ok(length) => Some(Ok(Reply {
            now,
            numbers: numbers.by_ref().take(length).collect(),
        })),
        Err(_) => Some(Err(Failure::of_script(reasons.next()?.as_str()?)?)),
    };
    (0..calls).map(|_| next()).collect()
}

impl Reply {
    /// Returns the answers to the batch of the call.
    pub(super) fn answers(&self, batch: &Batch<'_>) -> Result<Vec<Answer>, Failure> {
        let members = batch.members;
        if batch.operation == Operation::Reset {
            return Ok(vec![Answer::default(); members.len()]);
        }
        let mut numbers = self.numbers.iter().copied();
        let answers = members
            .iter()
            .map(|member| self.answer(member, &mut numbers));
        let answers = answers.collect::<Option<Vec<_>>>();
        let mut answers = answers.ok_or_else(|| Failure::garbled(self))?;
        let passes =
            zip(members, &answers).all(|(member, answer)| answer.passed || !batch.votes(member));
        let no_room = |(member, answer): (&Member<'_>, &Answer)| {
            member.ask.verb == Verb::Debit && !answer.passed
        };
        // Missing room is no error in a batch that is denied anyway.
        if let (true, Some(index)) = (passes, zip(members, &answers).position(no_room)) {
            return Err(Failure::NoRoom(index));
        }
        for (member, answer) in zip(members, &mut answers) {
            let applies = passes && answer.passed;
            answer.passed &= passes || batch.votes(member);
            if let (Some(figures), false) = (&mut answer.figures, applies) {
                figures.delay = Wait::ZERO;
            }
            if !applies || member.ask.cost == 0 {
                answer.charge = Charge::default();
            }
        }
        Ok(answers)
    }

    /// Reads the answer for a member, as if its batch passed.
    fn answer(
        &self,
        member: &Member<'_>,
        numbers: &mut impl Iterator<Item = i64>,
    ) -> Option<Answer> {
        let now = self.now;
        let ask = &member.ask;
        let taken = numbers.next()?;
        let units = u32::try_from(taken.max(0)).ok()?;
        let (figures, charge) = match member.algorithm() {
            Algorithm::Gcra(gcra) => gcra.shown(ask, now, units, take(numbers)?)?,
            Algorithm::Quota(quota) => quota.shown(ask, now, units, take(numbers)?)?,
            Algorithm::Window(window) => {
                let (shown, charge) = WindowSummary::read(now, units, take(numbers)?)?;
                (window.figures_of(ask, &shown, now), charge)
            }
            Algorithm::Concurrency(limit) => limit.shown(ask, units, take(numbers)?)?,
            Algorithm::Tiers(tiers) => tiers.shown(ask, now, units, numbers)?,
            Algorithm::Block(block) => {
                let [us, _] = take(numbers)?;
                let end = Ticks::micros(us);
                (block.figures(ask, &end, now), Block::charge(end))
            }
        };
        Some(Answer {
            passed: taken >= 0,
            figures: Some(figures),
            charge,
        })
    }
}

/// Takes the next numbers.
fn take<const N: usize>(numbers: &mut impl Iterator<Item = i64>) -> Option<[u64; N]> {
    let mut taken = [0; N];
    for number in &mut taken {
        *number = numbers.next()?.try_into().ok()?;
    }
    Some(taken)
}
