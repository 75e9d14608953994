//! Spends from one bucket that share a script call.

use std::mem::replace;

use fred::types::Value;
use smallvec::SmallVec;

use super::{
    answer::ScriptAnswer,
    arguments::integer,
    error::{Failure, RedisError},
    spend::Spend,
};
use crate::{
    algorithm::{Found, Replied},
    clock::Timestamp,
};

/// A spend in a group. Spends from one bucket are next to each other, in order.
#[derive(Clone, Copy)]
pub(super) struct GroupedSpend<'a> {
    pub(super) bucket: usize,
    pub(super) call: usize,
    pub(super) spend: &'a Spend,
}

/// The answers, in the order of the calls.
pub(super) type Answers = SmallVec<[Result<ScriptAnswer, Failure>; 1]>;

/// Computes the answer to each spend from one bucket. The script answers with one of these:
///
/// - the first value of the stored state, if the second one is 0 and everything was taken;
/// - the number of taken units or the error of the write, and both values;
/// - the error, if the bucket cannot be read;
/// - for each spend an answer of its own: the error, or both values.
///
/// If the spends do not have their own answers, this replays them in order. The script and the replay must count the same
/// number.
pub(super) fn answer_bucket(
    places: &[GroupedSpend<'_>],
    now: Timestamp,
    found: Option<&Value>,
    answers: &mut Answers,
) -> Result<(), Failure> {
    let garbled = || RedisError::Garbled(format!("{found:?}"));
    let read = |first, second| {
        let algorithm = places[0].spend.algorithm.key();
        Found::read(algorithm, first, second, now.as_micros()).ok_or_else(garbled)
    };
    let answered = match found {
        Some(Value::Array(found)) => match &found[..] {
            [Value::String(fault)] => return Err(Failure::refused(fault)),
            [Value::Array(_), ..] if found.len() == places.len() => {
                for (place, found) in places.iter().zip(found) {
                    answers[place.call] = answer_alone(place.spend, now, found);
                }
                Some(())
            }
            [Value::String(fault), first, second] => {
                refuse(places, now, &read(first, second)?, fault, answers)
            }
            [taken, first, second] => {
                let stored = read(first, second)?;
                let taken = taken.number();
                taken.and_then(|taken| replay(places, now, stored, taken, answers))
            }
            _ => None,
        },
        Some(first) => {
            let stored = read(first, &integer(0))?;
            let most = places
                .iter()
                .map(|place| u64::from(place.spend.most_taken()));
            replay(places, now, stored, most.sum(), answers)
        }
        None => None,
    };
    answered.ok_or_else(|| garbled().into())
}

/// Answers the spends in order, when the script has taken `left` units in all. Returns `None` if that cannot be.
fn replay(
    places: &[GroupedSpend<'_>],
    now: Timestamp,
    mut stored: Found,
    mut left: u64,
    answers: &mut Answers,
) -> Option<()> {
    let (last, earlier) = places.split_last()?;
    for place in earlier {
        let (taken, next) = place.spend.apply(&stored, now)?;
        left = left.checked_sub(taken.into())?;
        answers[place.call] = Ok(answer(taken, now, replace(&mut stored, next)));
    }
    // The last spend has the rest. The decision is computed from the state later, and must then take as many.
    let left = u32::try_from(left).ok();
    let left = left.filter(|left| *left <= last.spend.most_taken())?;
    answers[last.call] = Ok(answer(left, now, stored));
    Some(())
}

/// Answers the spends when the write has failed: each of them finds the stored state. A spend that fits gets the error,
/// and the others are denied.
fn refuse(
    places: &[GroupedSpend<'_>],
    now: Timestamp,
    stored: &Found,
    fault: &str,
    answers: &mut Answers,
) -> Option<()> {
    for place in places {
        answers[place.call] = match place.spend.apply(stored, now)? {
            (0, _) => Ok(answer(0, now, stored.clone())),
            _ => Err(Failure::refused(fault)),
        };
    }
    Some(())
}

fn answer(taken: u32, now: Timestamp, mut stored: Found) -> ScriptAnswer {
    stored.note_taken(taken);
    ScriptAnswer::of_spend(taken > 0, now, stored)
}

/// Reads the answer to one spend: an error, or the two values of the state, of which the second is the number of taken
/// units.
fn answer_alone(spend: &Spend, now: Timestamp, found: &Value) -> Result<ScriptAnswer, Failure> {
    let answered = match found.list() {
        Some([Value::String(fault)]) => return Err(Failure::refused(fault)),
        Some([first, taken]) => {
            let algorithm = spend.algorithm.key();
            let stored = Found::read(algorithm, first, taken, now.as_micros());
            stored.and_then(|stored| Some(answer(taken.small()?, now, stored)))
        }
        _ => None,
    };
    answered.ok_or_else(|| Failure::garbled(found))
}
