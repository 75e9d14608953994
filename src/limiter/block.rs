//! Clients that are blocked for a time.

use std::time::Duration;

use super::{Limiter, Transaction, error::LimiterError};
use crate::{
    decision::ceil_secs,
    transaction::{Mode, OnFailure, Operation},
};

impl Limiter {
    /// Blocks a client for a time, from now on: requests whose layer has a rule for `limit` are refused with the reason that
    /// [`LimitsBuilder::block`](crate::limit::LimitsBuilder::block) has set. That method has an example.
    ///
    /// The block is in the store. Every process that shares the store refuses the client, from its next request on. The time
    /// is rounded up to a second, and is at most 71 years. If the client is on the list already, the new time replaces the old
    /// one. Of several blocks at once, the latest holds.
    ///
    /// If the new time is shorter, the [`DenyCache`](crate::backend::DenyCache) of another process may refuse the client for up to
    /// 5 s longer. A store that evicts buckets, or loses them in a restart, loses blocks too.
    ///
    /// # Errors
    ///
    /// If the limit is not a list of blocked clients, or the id is not in its format: nothing has changed then. Or if the store
    /// does not answer: the client may be blocked or not then.
    pub async fn block(&self, limit: &str, id: &str, time: Duration) -> Result<(), LimiterError> {
        self.ensure_block(limit)?;
        let secs = u32::try_from(ceil_secs(time).max(1)).unwrap_or(u32::MAX);
        let block = Transaction::new(limit, id).mode(Mode::Debit).cost(secs);
        let block = block.on_failure(OnFailure::Refuse);
        self.one(Operation::Spend, &block).await.map(drop)
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

    fn ensure_block(&self, limit: &str) -> Result<(), LimiterError> {
        match self.in_force().get(limit) {
            Some(named) if !named.is_block() => Err(LimiterError::unsupported(
                limit,
                "it is not a list of blocked clients: define it with `LimitsBuilder::block`",
            )),
            // An unknown limit is an error of the step that follows.
            _ => Ok(()),
        }
    }
}
