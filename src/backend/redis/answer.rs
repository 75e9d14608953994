//! What a script has answered for one caller.

use fred::types::Value;
use smallvec::{SmallVec, smallvec};

use super::{
    error::{Failure, RedisError},
    stored_reply::StoredReply,
};
use crate::{
    clock::{InvalidNow, Timestamp},
    decision::{BucketView, Outcome},
    transaction::{Batch, Operation},
};

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
    /// The answer to a spend from one bucket.
    pub(super) fn of_spend(passes: bool, now: Timestamp, stored: StoredReply) -> Self {
        Self {
            passes,
            now,
            stored: smallvec![stored],
        }
    }

    /// Reads what is answered to one caller: an array or, if that has failed, a text.
    pub(super) fn read(reply: &Value) -> Result<Self, Failure> {
        if let Value::String(text) = reply {
            return Err(RedisError::refused(text).into());
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
