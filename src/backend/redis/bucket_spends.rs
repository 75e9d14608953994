//! Spends from one bucket that share a script call.

use std::mem::replace;

use fred::types::Value;
use smallvec::SmallVec;

use super::{
    answer::ScriptAnswer,
    arguments::integer,
    error::{Failure, RedisError},
    spend::Spend,
    stored_reply::StoredReply,
    stored_tiers::StoredTiers,
};
use crate::clock::Timestamp;

/// A spend in a group. Spends from one bucket are next to each other, in order.
#[derive(Clone, Copy)]
pub(super) struct GroupedSpend<'a> {
    pub(super) bucket: usize,
    pub(super) call: usize,
    pub(super) spend: &'a Spend,
}

/// The answers, in the order of the calls.
pub(super) type Answers = SmallVec<[Result<ScriptAnswer, Failure>; 1]>;

/// Computes the answer to each spend from one bucket. The script only answers with the stored state and the number of
/// spends that fit or, with tiers, of granted units. So this replays the spends in order. Both must count the same
/// number.
pub(super) fn answer_bucket(
    places: &[GroupedSpend<'_>],
    now: Timestamp,
    found: Option<&Value>,
    answers: &mut Answers,
) -> Result<(), Failure> {
    if places[0].spend.of_tiers().is_some() {
        return answer_grants(places, now, found, answers);
    }
    let garbled = || RedisError::Garbled(format!("{found:?}"));
    let (all, us) = (integer(places.len() as u64), now.as_micros());
    let (first, second, passed) = match found {
        Some(first @ Value::Integer(_)) => (first, &Value::Integer(0), &all),
        Some(Value::Array(found)) => match &found[..] {
            [Value::String(fault), ..] => return Err(Failure::refused(fault)),
            [first, second, passed] => (first, second, passed),
            _ => return Err(garbled().into()),
        },
        _ => return Err(garbled().into()),
    };
    let stored = places[0].spend.stored(first, second, us);
    let mut stored = stored.ok_or_else(garbled)?;
    if let Value::String(fault) = passed {
        // The write failed, so each spend finds the stored state. A spend that fits gets the error, and the others are
        // denied.
        for place in places {
            answers[place.call] = match place.spend.apply(&stored, us) {
                Some(_) => Err(Failure::refused(fault)),
                None => Ok(ScriptAnswer::of_spend(false, now, stored.clone())),
            };
        }
        return Ok(());
    }
    let mut count = 0;
    for place in places {
        let next = place.spend.apply(&stored, us);
        let passes = next.is_some();
        count += u64::from(passes);
        let before = match next {
            Some(next) => replace(&mut stored, next),
            None => stored.clone(),
        };
        answers[place.call] = Ok(ScriptAnswer::of_spend(passes, now, before));
    }
    match passed.as_u64() == Some(count) {
        true => Ok(()),
        false => Err(garbled().into()),
    }
}

/// Computes the answer to each spend from a bucket with tiers.
fn answer_grants(
    places: &[GroupedSpend<'_>],
    now: Timestamp,
    found: Option<&Value>,
    answers: &mut Answers,
) -> Result<(), Failure> {
    let garbled = || RedisError::Garbled(format!("{found:?}"));
    let (value, granted) = match found {
        Some(Value::Array(found)) => match &found[..] {
            [Value::String(fault)] => return Err(Failure::refused(fault)),
            // A large value is not in the answer. Each spend has its own.
            [Value::Integer(_), reports @ ..] if reports.len() == places.len() => {
                for (place, report) in places.iter().zip(reports) {
                    answers[place.call] = answer_of_report(report, now);
                }
                return Ok(());
            }
            [value, granted] => (Some(value), Some(granted)),
            _ => (None, None),
        },
        found => (found, None),
    };
    let value = value.and_then(Value::as_bytes).ok_or_else(garbled)?;
    let stored = StoredTiers::of_value(value, now.as_micros()).ok_or_else(garbled)?;
    let granted = match granted {
        Some(Value::String(fault)) => {
            return refuse_grants(places, now, &stored, fault, answers)
                .ok_or_else(|| garbled().into());
        }
        Some(granted) => granted.as_u64(),
        None => Some(
            places
                .iter()
                .filter_map(|place| place.spend.of_tiers())
                .map(|(_, most, _)| u64::from(most))
                .sum(),
        ),
    };
    let replayed = granted.and_then(|granted| replay_grants(places, now, stored, granted, answers));
    replayed.ok_or_else(|| garbled().into())
}

/// Answers the spends in order, when the script has granted `left` units in all. Returns `None` if that cannot be.
fn replay_grants(
    places: &[GroupedSpend<'_>],
    now: Timestamp,
    mut stored: StoredTiers,
    mut left: u64,
    answers: &mut Answers,
) -> Option<()> {
    let (last, earlier) = places.split_last()?;
    for place in earlier {
        let (tiers, most, least) = place.spend.of_tiers()?;
        let (units, next) = stored.request(tiers, most, least)?;
        left = left.checked_sub(units.into())?;
        answers[place.call] = Ok(answer_of_grant(units, now, replace(&mut stored, next)));
    }
    // The last spend has the rest. The decision is computed from the state later, and must then grant as many.
    answers[last.call] = Ok(answer_of_grant(left.try_into().ok()?, now, stored));
    Some(())
}

/// Answers the spends when the write has failed: each of them finds the stored state. A spend that fits gets the error,
/// and the others are denied.
fn refuse_grants(
    places: &[GroupedSpend<'_>],
    now: Timestamp,
    stored: &StoredTiers,
    fault: &str,
    answers: &mut Answers,
) -> Option<()> {
    for place in places {
        let (tiers, most, least) = place.spend.of_tiers()?;
        answers[place.call] = match stored.request(tiers, most, least)? {
            (0, _) => Ok(answer_of_grant(0, now, stored.clone())),
            _ => Err(Failure::refused(fault)),
        };
    }
    Some(())
}

fn answer_of_grant(granted: u32, now: Timestamp, mut stored: StoredTiers) -> ScriptAnswer {
    stored.granted = granted;
    ScriptAnswer::of_spend(granted > 0, now, StoredReply::Tiers(Box::new(stored)))
}

/// Reads the answer to one spend from a large value: the granted units, and the report of the state.
fn answer_of_report(answer: &Value, now: Timestamp) -> Result<ScriptAnswer, Failure> {
    let read = match answer {
        Value::String(fault) => return Err(Failure::refused(fault)),
        Value::Array(answer) => answer.split_first().and_then(|(granted, report)| {
            let granted = granted.as_u64()?.try_into().ok()?;
            Some((
                granted,
                StoredTiers::parse(report, granted, now.as_micros())?,
            ))
        }),
        _ => None,
    };
    let (granted, stored) = read.ok_or_else(|| RedisError::Garbled(format!("{answer:?}")))?;
    Ok(answer_of_grant(granted, now, stored))
}
