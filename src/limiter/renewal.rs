//! Renewals of permits, by their receipts.

use std::collections::BTreeMap;

use super::{Limiter, limiter_error::LimiterError};
use crate::{
    backend::{BackendError, Servers},
    decision::{BatchDecision, Decision, Decisions, WithoutBucket},
    transaction::{Batch, Member, Operation, Receipt, Transaction},
};

/// The most permits that one call to the backend renews.
pub(crate) const MOST_RENEWED: usize = 256;

impl Limiter {
    /// Renews the permits of a [receipt](Transaction::of_receipt), on a [concurrency limit](crate::Limit::concurrent): they
    /// count from now on, for another [hold](crate::Limit::hold). [`renewed`](Decision::renewed) says whether they were
    /// still there, and [`receipt`](Decision::receipt) is the new receipt. The old one is void.
    ///
    /// [`LimitHandle::enter`](super::LimitHandle::enter) and the [layer](crate::layer) renew their permits themselves.
    ///
    /// ```
    /// use tollgate::{Limit, Limiter, Limits, MemoryBackend, Transaction};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limits = Limits::builder().limit("exports", Limit::concurrent(2)).build()?;
    /// let limiter = Limiter::new(limits, MemoryBackend::new());
    ///
    /// let export = Transaction::new("exports", "alice");
    /// let receipt = limiter.spend(&export).await?.receipt().expect("one of two");
    /// let renewed = limiter.renew(&export.of_receipt(&receipt)).await?;
    /// let receipt = renewed.receipt().expect("it was still there");
    /// limiter.refund(&export.of_receipt(&receipt)).await?;
    /// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the limit is of another algorithm, the transaction has no receipt, or the receipt belongs to another limit or
    /// client; and as [`spend`](Self::spend). If the backend does not answer, it may have renewed the permits all the same,
    /// and then their receipt is not known.
    pub async fn renew(&self, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        self.decide_one(Operation::Renew, transaction).await
    }

    /// Renews the permits of many receipts, in few calls to the backend. Each is renewed or not, whatever happens to the
    /// others, and several can be of one bucket.
    ///
    /// # Errors
    ///
    /// As [`renew`](Self::renew) for any of them, and then none is renewed. If the backend does not answer for some of them
    /// only, these are [not limited](Decision::limited).
    pub async fn renew_batch(
        &self,
        transactions: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        let limits = self.in_force();
        let lookups = self.lookups(&limits, Operation::Renew);
        let mut ids = vec![None; transactions.len()];
        let looked = transactions.iter().zip(&mut ids);
        let looked = looked.map(|(transaction, room)| lookups.member(transaction, room));
        let looked = looked.collect::<Result<Vec<_>, _>>()?;
        let members: Vec<_> = looked.iter().filter_map(|one| one.ok()).collect();
        let renewed = self.renew_members(&members).await?;
        Ok(gathered(renewed, &looked))
    }

    /// Renews members in few calls. Fails if the backend has decided nothing.
    pub(super) async fn renew_members(
        &self,
        members: &[Member<'_>],
    ) -> Result<Vec<Decision>, LimiterError> {
        let mut renewed = vec![Decision::NOT_LIMITED; members.len()];
        let (mut has_renewed, mut last) = (members.is_empty(), None);
        for places in calls_of(members, self.shared.backend.servers()) {
            match self.renew_call(members, &places, &mut renewed).await {
                Ok(()) => has_renewed = true,
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(error) if !has_renewed => Err(error.into()),
            _ => Ok(renewed),
        }
    }

    async fn renew_call(
        &self,
        members: &[Member<'_>],
        places: &[usize],
        renewed: &mut [Decision],
    ) -> Result<(), BackendError> {
        let called: Vec<_> = places.iter().map(|place| members[*place]).collect();
        let batch = Batch::new(Operation::Renew, &called).at(self.now());
        let outcome = self.shared.backend.apply(&batch).await?;
        for (nth, place) in places.iter().enumerate() {
            let decision = outcome.decision_on(&batch, nth);
            renewed[*place] = decision.ok_or_else(|| {
                BackendError::unavailable("the backend answered another batch of renewals")
            })?;
        }
        Ok(())
    }
}

/// Splits members into calls, by their places. No call has local charges beside those of the store, and none is about the
/// buckets of several servers: while one of them is down, the permits on the others are renewed.
fn calls_of(members: &[Member<'_>], servers: Option<&dyn Servers>) -> Vec<Vec<usize>> {
    let mut together = BTreeMap::<_, Vec<usize>>::new();
    for (place, member) in members.iter().enumerate() {
        let is_local = member.receipt.is_some_and(Receipt::is_local);
        let server = servers.filter(|_| !is_local);
        let server = server.map(|servers| servers.server_of(member).number());
        together.entry((is_local, server)).or_default().push(place);
    }
    let calls = together.values().flat_map(|all| all.chunks(MOST_RENEWED));
    calls.map(<[usize]>::to_vec).collect()
}

/// Puts the decisions into the order of the transactions.
fn gathered(renewed: Vec<Decision>, looked: &[Result<Member<'_>, WithoutBucket>]) -> BatchDecision {
    let mut renewed = renewed.into_iter();
    let mut decided = BatchDecision::default();
    for (looked, decision) in looked.iter().zip(decided.room(looked.len())) {
        *decision = match looked {
            Ok(_) => renewed.next().unwrap_or(Decision::NOT_LIMITED),
            Err(other) => other.decision(Operation::Renew),
        };
    }
    decided
}
