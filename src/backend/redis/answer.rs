//! The answer of a script to one caller.

use smallvec::SmallVec;

use super::error::{Failure, RedisError};
use crate::{
    algorithm::Found,
    clock::{InvalidNow, Timestamp},
    decision::Outcome,
    transaction::{Batch, Operation},
};

/// The answer of a script.
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
