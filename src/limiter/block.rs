//! Clients that are blocked for a time.

use std::time::Duration;

use super::{Limiter, Transaction, error::LimiterError};
use crate::{
    decision::{Decision, ceil_secs},
    transaction::{Mode, OnFailure, Operation},
};

/// The longest block, in seconds. The debt of a bucket ends there.
const LONGEST: u64 = (1 << 51) / 1_000_000 - 2;

impl Limiter {
    /// Blocks a client for a time, from now on: requests whose layer has a rule for `limit` are refused with the reason that
    /// [`LimitsBuilder::block`](crate::limit::LimitsBuilder::block) has set. That method has an example.
    ///
    /// The block is in the store. Every process that shares the store refuses the client, from its next request on. The time
    /// is rounded up to a second, and is at most 71 years. If the client is on the list already, the new time replaces the old
    /// one, and can end up to a second later. If the new one ends earlier, requests can pass for an instant in between.
    ///
    /// A store that evicts buckets, or loses them in a restart, loses blocks too.
    ///
    /// # Errors
    ///
    /// If the limit is not a list of blocked clients, the id is not in its format, or the store does not answer. Then nothing has
    /// changed, or it is not known whether the client is blocked.
    pub async fn block(&self, limit: &str, id: &str, time: Duration) -> Result<(), LimiterError> {
        self.ensure_block(limit)?;
        // A fresh bucket has the token of one second, which is gone before its debt begins.
        let spent = Duration::from_secs(ceil_secs(time).clamp(1, LONGEST) + 1);
        // The store answers a debit, even of nothing. A look could be answered by a cache.
        let before = self.debit(limit, id, Duration::ZERO).await?;
        if before.blocked() {
            return Ok(());
        }
        let debt = match before
            .reset_after()
            .and_then(|left| spent.checked_sub(left))
        {
            Some(debt) => debt,
            None => {
                self.unblock(limit, id).await?;
                spent
            }
        };
        self.debit(limit, id, debt).await?;
        Ok(())
    }

    /// Lifts the block of a client. It changes nothing if the client is not blocked, or if an override blocks it.
    ///
    /// The [`DenyCache`](crate::backend::DenyCache) of another process may refuse the client for up to 5 s after that.
    ///
    /// # Errors
    ///
    /// As [`block`](Self::block).
    pub async fn unblock(&self, limit: &str, id: &str) -> Result<(), LimiterError> {
        self.ensure_block(limit)?;
        self.reset(&[Transaction::new(limit, id)]).await
    }

    /// Puts a client's bucket into debt, and returns its state.
    async fn debit(&self, limit: &str, id: &str, debt: Duration) -> Result<Decision, LimiterError> {
        let cost = u32::try_from(ceil_secs(debt)).unwrap_or(u32::MAX);
        let debit = Transaction::new(limit, id).mode(Mode::Debit).cost(cost);
        let debit = debit.on_failure(OnFailure::Refuse);
        self.one(Operation::Spend, &debit).await
    }

    fn ensure_block(&self, limit: &str) -> Result<(), LimiterError> {
        let limits = self.in_force();
        match limits.get(limit) {
            None => Err(LimiterError::unknown_limit(limit, &limits)),
            Some(named) if named.is_block() => Ok(()),
            Some(_) => Err(LimiterError::unsupported(
                limit,
                "it is not a list of blocked clients: define it with `LimitsBuilder::block`",
            )),
        }
    }
}
