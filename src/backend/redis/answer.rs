//! The answer of a script to one caller.

use fred::types::Value;
use smallvec::{SmallVec, smallvec};

use super::{
    error::{Failure, RedisError},
    stored_reply::StoredReply,
};
use crate::{
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
    pub(super) stored: SmallVec<[StoredReply; 1]>,
}

impl ScriptAnswer {
    /// Creates the answer to a spend from one bucket.
    pub(super) fn of_spend(passes: bool, now: Timestamp, stored: StoredReply) -> Self {
        Self {
            passes,
            now,
            stored: smallvec![stored],
        }
    }

    /// Reads the answer to one caller: an array or, after an error, a text.
    pub(super) fn read(reply: &Value) -> Result<Self, Failure> {
        if let Value::String(text) = reply {
            return Err(Failure::refused(text));
        }
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

    /// Returns the outcome of the batch. The script and this crate must agree on it.
    pub(super) fn judge(&self, batch: &Batch<'_>) -> Result<Outcome, Failure> {
        let garbled = || RedisError::Garbled(format!("{self:?}"));
        if self.stored.len() != batch.members.len() {
            return Err(garbled().into());
        }
        let outcome = judge(batch, self.now, &self.stored)?;
        let mut found = self.stored.iter().zip(outcome.answers());
        let agrees = self.passes == outcome.passes(batch)
            && (!self.passes || found.all(|(found, answer)| found.agrees(answer)));
        // Only a spend can disagree: a check has no votes, and refunds and resets always pass.
        let agrees = agrees || batch.operation != Operation::Spend;
        agrees.then_some(outcome).ok_or_else(|| garbled().into())
    }
}

/// Judges a batch by the stored states.
pub(super) fn judge(
    batch: &Batch<'_>,
    now: Timestamp,
    found: &[StoredReply],
) -> Result<Outcome, InvalidNow> {
    now.validate()?;
    Ok(Outcome::judge(batch, now, |place, member| {
        found[place].see(member, now)
    }))
}
