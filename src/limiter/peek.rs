//! Looks at buckets as they are.

use std::slice;

use super::{
    Limiter, LimiterError,
    handle::LimitHandle,
    members::{of_another_batch, wrong_number},
};
use crate::{
    decision::Decision,
    transaction::{Batch, Member, Mode, Operation, Transaction},
};

impl Limiter {
    /// Looks at a bucket as it is, for pages of administrators and of clients. Nothing is charged, counted or logged.
    ///
    /// In contrast to [`check`](Self::check), whose figures are those after a spend, [`remaining`](Decision::remaining)
    /// is what the bucket holds now, for every algorithm. [`next_after`](Decision::next_after) is the time until the
    /// transaction's cost would pass without waiting in line, and [`allowed`](Decision::allowed) tells whether it would
    /// pass so now. The transaction's mode does not matter.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Limits::builder().limit("exports", Limit::per_hour(3)).build()?;
    /// let exports = Limiter::new(limits, MemoryBackend::new()).limit("exports")?;
    ///
    /// exports.cost(2).spend("alice").await?;
    /// assert_eq!(exports.peek("alice").await?.remaining(), Some(1));
    /// assert_eq!(exports.check("alice").await?.remaining(), Some(0), "after one more");
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// While a store does not answer, the local bucket is shown, as [`Decision::source`] says. For tiers, it is then an error.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub async fn peek(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        let limits = self.in_force();
        let operation = Operation::Check;
        let transaction = transaction.mode(Mode::CheckOnly);
        let mut id = None;
        let looked = self
            .lookups(&limits, operation)
            .member(&transaction, &mut id)?;
        let member = match &looked {
            Ok(member) => member,
            Err(other) => return Ok(other.decision(operation)),
        };
        if !member.algorithm.probes_keep_state() {
            return self.look(Operation::Refund, member, member.cost).await;
        }
        // A check at no cost is not answered from a cache of denials.
        let bucket = self.look(Operation::Check, member, 0).await?;
        let is_short = bucket.remaining().is_some_and(|left| left < member.cost);
        match is_short && member.algorithm.waits_are_state() {
            true => self.look(Operation::Check, member, member.cost).await,
            false => Ok(bucket),
        }
    }

    /// Asks the backend for a bucket at a cost, in an operation that charges and refunds nothing.
    async fn look(
        &self,
        operation: Operation,
        member: &Member<'_>,
        cost: u32,
    ) -> Result<Decision, LimiterError> {
        let asked = Member { cost, ..*member };
        let batch = Batch::new(operation, slice::from_ref(&asked)).at(self.now());
        let outcome = self.shared.backend.apply(&batch).await?;
        if !outcome.answers_all(&batch) {
            return Err(wrong_number(&batch, &outcome).into());
        }
        outcome.peeked(&batch, member).ok_or_else(of_another_batch)
    }
}

impl LimitHandle {
    /// Looks at the client's bucket as it is. See [`Limiter::peek`].
    ///
    /// # Errors
    ///
    /// As [`Limiter::check`].
    pub async fn peek(&self, id: &str) -> Result<Decision, LimiterError> {
        self.limiter().peek(&self.transaction(id)).await
    }
}
