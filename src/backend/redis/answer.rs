//! The answer of a script to one caller.

use fred::types::Value;
use smallvec::{SmallVec, smallvec};

use super::{
    call::ScriptCall,
    error::{Failure, RedisError},
};
use crate::{
    algorithm::{Found, Replied},
    clock::{InvalidNow, Timestamp},
    decision::Outcome,
    transaction::{Batch, Operation},
};

/// The answer of a script: `1` or `0`, the time, and two values for each bucket.
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
    /// Creates the answer to a spend from one bucket.
    pub(super) fn of_spend(passes: bool, now: Timestamp, stored: Found) -> Self {
        Self {
            passes,
            now,
            stored: smallvec![stored],
        }
    }

    /// Reads the answer to a call: an array or, after an error, a text.
    pub(super) fn read(call: &ScriptCall, reply: &Value) -> Result<Self, Failure> {
        if let Value::String(text) = reply {
            return Err(Failure::refused(text));
        }
        let answer = Self::parse(call, reply).ok_or_else(|| Failure::garbled(reply))?;
        answer.now.validate()?;
        Ok(answer)
    }

    fn parse(call: &ScriptCall, reply: &Value) -> Option<Self> {
        let (head, found) = reply.list()?.split_at_checked(2)?;
        let now = head[1].number()?;
        let algorithms = call.algorithms();
        let found = found.as_chunks::<2>().0.iter().zip(algorithms);
        let stored = found.map(|([first, second], by)| Found::read(by, first, second, now));
        Some(Self {
            passes: head[0].number()? == 1,
            now: Timestamp::from_micros(now),
            stored: stored.collect::<Option<_>>()?,
        })
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
    Ok(Outcome::judged(batch, now, |place, member| {
        member
            .algorithm
            .see_found(found[place], &batch.ask(member), now)
    }))
}
