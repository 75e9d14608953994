//! Equal batches in a row, which a script decides together.

use std::ops::Range;

use fred::types::Value;

use super::{
    answer::ScriptAnswer,
    call::{ScriptCall, Spend},
    error::{BrokenValue, Failure, RedisError},
    script_member::ScriptMember,
};
use crate::{
    algorithm::{Found, Replied},
    clock::Timestamp,
};

/// A part of a call or, if it is a spend, of several callers at the same bucket.
pub(super) struct Run {
    /// The calls, by their places in the order of the group.
    pub(super) calls: Range<usize>,
    /// The members of each call that are decided.
    pub(super) members: Range<usize>,
    /// The place of the members' kind.
    pub(super) kind: usize,
}

/// The value that a script answers for one bucket of a run.
struct FoundValue<'a> {
    /// The number of batches that have passed.
    passed: usize,
    value: &'a Value,
    /// The number of taken units, if the script counts them.
    taken: Option<u32>,
}

impl<'a> FoundValue<'a> {
    /// Reads the value of one of `count` batches.
    fn read(found: &'a Value, member: &ScriptMember, count: usize) -> Option<Self> {
        match found.list() {
            Some([passed, value, taken @ ..]) => Some(Self {
                passed: passed.small()? as usize,
                value,
                taken: taken.first().and_then(Value::small),
            }),
            Some(_) => None,
            None => Some(Self {
                passed: count,
                value: found,
                taken: member.most_taken(count),
            }),
        }
    }

    /// Reads the stored state of a member.
    fn stored(
        &self,
        place: usize,
        member: &ScriptMember,
        now: Timestamp,
    ) -> Result<Found, Failure> {
        let stored = Found::read(member.by, self.value, self.taken, now.as_micros());
        stored.ok_or_else(|| match self.value.bytes() {
            Some(_) => Failure::NotABucket(place, BrokenValue::Unreadable),
            None => Failure::garbled(self.value),
        })
    }
}

/// Reads the answer to a part of a call: a value for each member.
pub(super) fn answer_to_part(
    call: &ScriptCall,
    members: &Range<usize>,
    found: &[Value],
    now: Timestamp,
) -> Result<ScriptAnswer, Failure> {
    let mut answer = ScriptAnswer::new(now);
    for (place, found) in members.clone().zip(found) {
        let member = &call.members[place];
        let value = FoundValue::read(found, member, 1).ok_or_else(|| Failure::garbled(found))?;
        answer.add(value.passed == 1, value.stored(place, member, now)?);
    }
    Ok(answer)
}

/// Computes the answer to each of several equal spends from one bucket, by taking them in order. The script must have taken
/// as much.
pub(super) fn answers_to_equals(
    calls: &[&ScriptCall],
    found: &Value,
    now: Timestamp,
) -> Result<Vec<ScriptAnswer>, Failure> {
    let garbled = || Failure::from(RedisError::Garbled(format!("{found:?}")));
    let member = &calls[0].members[0];
    let value = FoundValue::read(found, member, calls.len()).ok_or_else(garbled)?;
    let mut left = value.taken.map_or(value.passed, |taken| taken as usize);
    let mut stored = value.stored(0, member, now)?;
    let mut answers = Vec::with_capacity(calls.len());
    for call in calls {
        let Spend { algorithm, ask } = call.spend.as_ref().ok_or_else(garbled)?;
        let spent = algorithm.spend_found(ask, &mut stored);
        let (taken, before) = spent.ok_or_else(garbled)?;
        left = left.checked_sub(taken as usize).ok_or_else(garbled)?;
        let mut answer = ScriptAnswer::new(now);
        answer.add(taken > 0, before);
        answers.push(answer);
    }
    match left {
        0 => Ok(answers),
        _ => Err(garbled()),
    }
}
