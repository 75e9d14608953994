//! The arguments and the answer of the script, which `driver.lua` describes.

use std::{iter::zip, time::SystemTime};

use fred::types::Value;
use smallvec::SmallVec;

use super::{error::Failure, keys::KeyForm};
use crate::{
    algorithm::{
        Algorithm, Arithmetic, Charge, Figures, Verb, Wait, gcra::Ticks, quota::Usage,
        window::Shown,
    },
    clock::Timestamp,
    decision::Answer,
    transaction::{Batch, Member, Operation},
};

/// A batch in the form that the script decides. On a cluster, its keys are in one slot.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) keys: SmallVec<[Value; 1]>,
    /// What is asked of each bucket.
    terms: SmallVec<[Value; 1]>,
    /// The client's time, if that decides.
    pub(super) now: Option<Timestamp>,
    /// How much of a shared command it fills. A usual bucket counts one.
    pub(super) weight: usize,
}

impl Call {
    /// Writes a batch. The server's clock is `ahead` of ours, as far as it is known.
    pub(super) fn new(batch: &Batch<'_>, form: &KeyForm, ahead: i64) -> Self {
        let members = || zip(1.., batch.members);
        let weight = |member: &Member<'_>| match member.algorithm {
            // The answer has as many instants as the smallest acceptable grant.
            Algorithm::Tiers(_) => 1 + member.ask.min_cost as usize / 32,
            _ => 1,
        };
        Self {
            keys: members()
                .map(|(_, member)| form.key(member).into())
                .collect(),
            terms: members()
                .map(|(nth, member)| term(batch, member, nth == batch.members.len(), ahead))
                .collect(),
            now: batch.now,
            weight: batch.members.iter().map(weight).sum(),
        }
    }
}

/// Writes what is asked of a member. All numbers are below 2⁵³, apart from the largest, which stands for -1.
#[expect(clippy::cast_precision_loss, reason = "doubles hold them exactly")]
fn term(batch: &Batch<'_>, member: &Member<'_>, is_last: bool, ahead: i64) -> Value {
    let ask = &member.ask;
    let mut numbers = SmallVec::<[u64; 8]>::new();
    let letter = match member.algorithm {
        Algorithm::Gcra(gcra) => {
            numbers.extend(gcra.term(ask));
            "G"
        }
        Algorithm::Window(window) => {
            numbers.extend(window.term(ask));
            "W"
        }
        Algorithm::Concurrency(limit) => {
            numbers.extend(limit.term(ask));
            "C"
        }
        Algorithm::Quota(quota) => {
            let around = || {
                batch
                    .now
                    .map_or_else(|| server_time(ahead), Timestamp::as_micros)
            };
            numbers.extend(quota.term(ask, around()));
            "Q"
        }
        Algorithm::Tiers(tiers) => {
            numbers.extend(tiers.term(ask));
            "T"
        }
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
    if matches!(ask.verb, Verb::Refund | Verb::Renew) {
        let charge = ask.charge.map(|charge| [charge.at, charge.frac.into()]);
        numbers.extend(charge.unwrap_or([u64::MAX, 0]));
    }
    // A debit without room denies its batch.
    let votes = batch.votes(member) || ask.verb == Verb::Debit;
    let mode = u8::from(votes) + 2 * u8::from(batch.writes(member)) + 4 * u8::from(is_last);
    let mut text = Vec::with_capacity(9 + 8 * numbers.len());
    text.extend([letter, verb, "\0"].map(str::as_bytes).concat());
    text.push(mode);
    let doubles = numbers.iter().map(|number| number.cast_signed() as f64);
    text.extend(doubles.flat_map(f64::to_le_bytes));
    Value::Bytes(text.into())
}

/// Returns the server's time, whose clock is so many microseconds ahead of ours.
fn server_time(ahead: i64) -> u64 {
    let ours = Timestamp::from(SystemTime::now()).as_micros();
    ours.saturating_add_signed(ahead)
}

/// Returns by how many microseconds the server's clock is ahead of ours.
pub(super) fn ahead(server: u64) -> i64 {
    server.wrapping_sub(server_time(0)).cast_signed()
}

/// Returns the arguments of `EVALSHA` or `EVAL` for calls with the same time.
pub(super) fn encode(script: &'static str, calls: &[&Call]) -> Vec<Value> {
    let keys = || calls.iter().flat_map(|call| &call.keys);
    let count = keys().count();
    let now = calls.iter().find_map(|call| call.now);
    let now = now.map_or(-1, |now| now.as_micros().cast_signed());
    let mut arguments = Vec::with_capacity(3 + 2 * count);
    arguments.push(Value::from_static_str(script));
    arguments.push(Value::Integer(count.try_into().unwrap_or(i64::MAX)));
    arguments.extend(keys().cloned());
    arguments.push(Value::Integer(now));
    arguments.extend(calls.iter().flat_map(|call| &call.terms).cloned());
    arguments
}

/// The script's answer to a call.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// The time of the decision, by the server's clock or, if one was sent, the client's.
    now: u64,
    /// For each member its units, or -1, and what its algorithm shows.
    numbers: SmallVec<[i64; 4]>,
}

/// Splits the script's answer into those to each call.
#[expect(clippy::cast_possible_truncation, reason = "they are whole")]
pub(super) fn decode(answer: &Value, calls: usize) -> Option<Vec<Reply>> {
    let doubles = answer.as_bytes()?.chunks_exact(8);
    let mut numbers =
        doubles.map(|bytes| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes) as i64);
    let now = numbers.next()?.try_into().ok()?;
    let mut next = || {
        let length = numbers.next()?.try_into().ok()?;
        Some(Reply {
            now,
            numbers: numbers.by_ref().take(length).collect(),
        })
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
        // A batch that is denied anyway needs no room.
        if let (true, Some(place)) = (passes, zip(members, &answers).position(no_room)) {
            return Err(Failure::NoRoom(place));
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
        let taken = numbers.next()?;
        let units = u32::try_from(taken.max(0)).ok()?;
        let (figures, charge) = self.shown(member, units, numbers)?;
        Some(Answer {
            passed: taken >= 0,
            figures: Some(figures),
            charge,
        })
    }

    /// Reads what an algorithm shows.
    fn shown(
        &self,
        member: &Member<'_>,
        units: u32,
        numbers: &mut impl Iterator<Item = i64>,
    ) -> Option<(Figures, Charge)> {
        let (now, ask) = (self.now, &member.ask);
        let charge = |at, frac, units| Charge { at, frac, units };
        Some(match member.algorithm {
            Algorithm::Gcra(gcra) => {
                let [us, frac] = take(numbers)?;
                let frac = frac.try_into().ok()?;
                let figures = gcra.figures(ask, &Ticks { us, frac }, now);
                // The script counts charges.
                (figures, charge(us, frac, units * ask.cost))
            }
            Algorithm::Quota(quota) => {
                let [end, used] = take(numbers)?;
                let used = used.try_into().ok()?;
                let figures = quota.figures(ask, &Usage { end, used }, now);
                (figures, charge(end, 0, units))
            }
            Algorithm::Window(window) => {
                let shown = Shown::read(take(numbers)?)?;
                (window.figures_of(ask, &shown, now), charge(now, 0, units))
            }
            Algorithm::Concurrency(limit) => {
                let shown = Shown::read(take(numbers)?)?;
                (limit.figures_of(ask, &shown, now), charge(now, 0, units))
            }
            Algorithm::Tiers(tiers) => {
                let [grant] = take(numbers)?;
                let tiers_of_it = u32::try_from(grant >> 32).ok()?;
                let figures = tiers.figures(ask, &tiers.shown(numbers)?, now);
                (
                    figures,
                    charge(grant & u64::from(u32::MAX), tiers_of_it, units),
                )
            }
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
