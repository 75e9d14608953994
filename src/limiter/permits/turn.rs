//! Waiting for permits that come back, on limits with a `max_wait` in memory.

use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{self, Instant};

use super::super::Limiter;
use crate::{
    backend::LinePlace,
    decision::{BatchDecision, Decision},
    limit::Limits,
    transaction::{Member, Operation, Transaction},
};

/// A caller's place in the lines for permits, until the longest wait is over.
pub(crate) struct PermitTurn {
    place: LinePlace,
    deadline: Instant,
}

impl Limiter {
    /// Joins the lines for the permits of these transactions; `None` if none of them may wait.
    pub(crate) fn join_lines(
        &self,
        limits: &Limits,
        transactions: &[Transaction<'_>],
    ) -> Option<PermitTurn> {
        let memory = self.memory()?;
        let lookups = self.lookups(limits, Operation::Spend);
        let mut ids = vec![None; transactions.len()];
        let mut members = Vec::with_capacity(transactions.len());
        for (transaction, room) in transactions.iter().zip(&mut ids) {
            // The decision on the transactions returns the errors.
            if let Ok(Ok(member)) = lookups.member(transaction, room) {
                members.push(member);
            }
        }
        let waits =
            |member: &&Member<'_>| member.joins_line() && !member.algorithm.permit_wait().is_zero();
        let waiting: SmallVec<[_; 4]> = members.iter().filter(waits).collect();
        let longest = waiting
            .iter()
            .map(|member| member.algorithm.permit_wait())
            .min()?;
        let buckets = waiting.iter().map(|member| member.fingerprint).collect();
        Some(PermitTurn {
            place: memory.lines().join(buckets),
            deadline: Instant::now() + longest,
        })
    }
}

impl PermitTurn {
    /// Waits until nobody is before this caller, or until the longest wait is over.
    pub(crate) async fn comes(&self) {
        while !self.place.is_first() && !self.is_over() {
            self.wait(None).await;
        }
    }

    /// Waits after a decision. Returns whether it is worth deciding again: only permits were missing, and the longest wait
    /// is not over.
    pub(crate) async fn comes_after(&self, decided: &BatchDecision) -> bool {
        let mut denials = decided.members().iter().filter(|one| one.denies());
        if decided.allowed() || self.is_over() || !denials.all(Decision::waits_for_permits) {
            return false;
        }
        let expire = decided
            .members()
            .iter()
            .filter_map(Decision::permits_expire_after);
        self.wait(expire.min()).await;
        true
    }

    /// Does the same after the decision on one transaction.
    pub(super) async fn comes_after_denial(&self, denial: &Decision) -> bool {
        if self.is_over() || !denial.waits_for_permits() {
            return false;
        }
        self.wait(denial.permits_expire_after()).await;
        true
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    async fn wait(&self, at_most: Option<Duration>) {
        // By a clock that stands still, the time until permits expire does not pass.
        let at_most = at_most.map(|at_most| at_most.max(Duration::from_millis(1)));
        let until = at_most.and_then(|at_most| Instant::now().checked_add(at_most));
        let until = until.map_or(self.deadline, |until| until.min(self.deadline));
        let _ = time::timeout_at(until, self.place.woken()).await;
    }
}
