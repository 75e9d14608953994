use std::{sync::Arc, time::Duration};

use super::{FailurePolicy, local::LocalShare};
use crate::{
    algorithm::Share,
    backend::{Backend, Fleet, MemoryBackend, slot::Slots},
    transaction::OnFailure,
};

impl<B: Backend> FailurePolicy<B> {
    /// Sets how long a decision may take. With zero, only backends that never wait can decide, and others may have
    /// made the change all the same.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self.breakers = Arc::new(self.breakers.with_deadline(deadline));
        self
    }

    /// Sets what happens to limits that have no [policy of their own](crate::limit::LimitName::on_failure).
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.fallback.on_failure = on_failure;
        self
    }

    /// Sets the number of processes that share the store. Each of them may use an equal part of each limit locally: with
    /// four processes, a quarter. Of the burst it is rounded up, and a cost above that is denied. The default is 1.
    ///
    /// A change of a [`Fleet`] applies to each local decision that begins afterwards. What was admitted before counts as
    /// the same part of the share, so that a change gives no client a new burst. The
    /// [guide](crate::guide::failures#when-the-fleet-changes) has the bounds during a change.
    ///
    /// Replaces [`share`](Self::share).
    ///
    /// # Panics
    ///
    /// If a number is passed, and it is 0.
    #[must_use]
    #[track_caller]
    pub fn fleet(mut self, fleet: impl Into<Fleet>) -> Self {
        let share = LocalShare::Equal(fleet.into());
        self.fallback.local = self.fallback.local.with_share(share);
        self
    }

    /// Sets the part of each limit that this process may use locally, for processes that get different parts of the
    /// traffic: `share(2, 3)` is two thirds. It is rounded as in [`fleet`](Self::fleet), which it replaces, and does
    /// not change.
    ///
    /// # Panics
    ///
    /// If the share is 0, or more than 1.
    #[must_use]
    #[track_caller]
    pub fn share(mut self, part: u32, of: u32) -> Self {
        let share = LocalShare::Fixed(Share::new(part, of));
        self.fallback.local = self.fallback.local.with_share(share);
        self
    }

    /// Sets the memory for local decisions, and with it the number of buckets. The policy remembers the same number
    /// of buckets of the store.
    #[must_use]
    pub fn memory(mut self, memory: MemoryBackend) -> Self {
        self.fallback.local = self.fallback.local.with_memory(memory);
        self
    }

    /// Sets how many decisions the store may be asked for at the same time. At most four times as many wait for their
    /// turn. With 0, the store is never asked.
    #[must_use]
    pub fn max_in_flight(mut self, max_in_flight: usize) -> Self {
        self.in_flight = Slots::new(max_in_flight);
        self
    }

    /// Sets the number of consecutive failures that open the breaker, at least 1.
    #[must_use]
    pub fn failures_in_a_row(mut self, failures: u32) -> Self {
        self.breakers = Arc::new(self.breakers.with_threshold(failures.max(1)));
        self
    }

    /// Sets the maximum number of buckets whose local decisions are charged to the store after an outage. Above it, only
    /// the buckets that owe the most are charged. The default is 10,000. With 0, nothing is charged.
    ///
    /// The store charges the debts within seconds, one after the other, from a task of the tokio runtime. A bucket owes
    /// what would still be charged if the store had decided, so a client that kept to its rate owes next to nothing.
    /// Each debit is sent once: if its outcome is unknown, it is not repeated. The units of a [window](crate::window) are
    /// charged at the instants at which they were taken, one instant after the other. Limits with [tiers](crate::tiers)
    /// cannot be debited.
    #[must_use]
    pub fn pay_back(mut self, buckets: usize) -> Self {
        self.fallback.local = self.fallback.local.with_debts(buckets);
        self
    }
}
