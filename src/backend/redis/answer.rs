//! The answers of a script.

use std::ops::Range;

use fred::types::Value;
use smallvec::SmallVec;

use super::{
    arguments::ScriptMember,
    call::{ScriptCall, Spend},
    error::{BrokenValue, Failure, RedisError},
};
use crate::{
    algorithm::{Found, Replied},
    clock::{InvalidNow, Timestamp},
    decision::Outcome,
    transaction::{Batch, Operation},
};

/// The answer of a script to one caller.
#[derive(Debug)]
pub(super) struct ScriptAnswer {
    /// Whether all voting members fit. If not, nothing was stored. A check has no voting members.
    pub(super) passes: bool,
    /// The time of the decision, by the server's clock or, if one was sent, the client's.
    pub(super) now: Timestamp,
    /// The states stored before, in the order of the keys.
    pub(super) stored: SmallVec<[Found; 1]>,
}

impl ScriptAnswer {
    /// Creates the answer about no members.
    pub(super) const fn new(now: Timestamp) -> Self {
        Self {
            passes: true,
            now,
            stored: SmallVec::new_const(),
        }
    }

    /// Adds a member.
    pub(super) fn add(&mut self, passes: bool, stored: Found) {
        self.passes &= passes;
        self.stored.push(stored);
    }

    /// Adds the members of another part of the batch.
    pub(super) fn extend(&mut self, other: Self) {
        self.passes &= other.passes;
        self.stored.extend(other.stored);
    }

    /// Returns the outcome of the batch. The script and this crate must agree on it.
    pub(super) fn judge(&self, batch: &Batch<'_>) -> Result<Outcome, Failure> {
        let garbled = || RedisError::Garbled(format!("{self:?}"));
        if self.stored.len() != batch.members.len() {
            return Err(garbled().into());
        }
        let outcome = judge(batch, self.now, self.stored.iter().map(Some))?;
        let mut found = self.stored.iter().zip(outcome.answers());
        let agrees = self.passes == outcome.passes(batch)
            && (!self.passes
                || found.all(|(found, answer)| !answer.passed || found.agrees(&answer.state)));
        // Only a spend can disagree: a check has no votes, and refunds and resets always pass.
        let agrees = agrees || batch.operation != Operation::Spend;
        agrees.then_some(outcome).ok_or_else(|| garbled().into())
    }
}

/// Judges a batch by the stored states of its members, as far as they are known.
pub(super) fn judge<'a>(
    batch: &Batch<'a>,
    now: Timestamp,
    found: impl Iterator<Item = Option<&'a Found>>,
) -> Result<Outcome, InvalidNow> {
    let found: SmallVec<[Option<&Found>; 4]> = found.collect();
    now.validate()?;
    Ok(Outcome::judged(batch, now, |place, claim| {
        claim.algorithm.see_found(found[place], &claim.ask, now)
    }))
}

/// The value that a script answers for one bucket, after one batch or several equal ones.
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

impl Replied for Value {
    fn is_missing(&self) -> bool {
        self.is_null()
    }

    fn signed(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    fn list(&self) -> Option<&[Self]> {
        match self {
            Self::Array(values) => Some(values),
            _ => None,
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.as_bytes()
    }
}
