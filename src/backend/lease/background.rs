//! Charges units ahead and returns them, in tasks that outlive the requests that cause them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use super::{LeaseState, SplitLimit, pool::LeasedUnits};
use crate::{
    backend::{Backend, BackendError},
    batch::{Batch, Member},
    decision::{Outcome, Source},
    task::{Background, begin, runtime_with_timer},
    transaction::Operation,
};

/// The most charges at once. Further requests charge nothing ahead.
pub(super) const SEATS: u32 = 1024;

/// The time after which unused units are returned.
const IDLE: Duration = Duration::from_secs(2);

impl<B: Backend> LeaseState<B> {
    /// Charges units ahead for a member that the store decides. The charge is in the queue of the store when this returns.
    pub(super) fn charge_ahead(self: &Arc<Self>, member: &Member<'_>, split: &SplitLimit) {
        let seat = Arc::clone(&self.seats).try_acquire_owned();
        let (Ok(runtime), Ok(seat)) = (runtime_with_timer(), seat) else {
            return;
        };
        let mut task = self.sweep.lock();
        // The task can have ended together with its runtime.
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(runtime.spawn(sweep(Arc::downgrade(self))));
        }
        drop(task);
        let Some(charge) = self.pool.begin(member, split) else {
            return;
        };
        let charge = LeaseTransfer::new(self, charge);
        let mut charging: Background = Box::pin(async move {
            let _seat = seat;
            charge.charge().await;
        });
        if begin(&mut charging).is_pending() {
            runtime.spawn(charging);
        }
    }

    /// Waits for the charges that are under way, and returns all units. Nothing is charged ahead after that.
    pub(super) async fn close(self: &Arc<Self>) -> Result<(), BackendError> {
        let _all = self.seats.acquire_many(SEATS).await;
        self.seats.close();
        self.give_back(Duration::ZERO).await
    }

    /// Returns units that were not used for this time. If a refund fails, its units stay charged.
    async fn give_back(self: &Arc<Self>, unused: Duration) -> Result<(), BackendError> {
        loop {
            let units = self.pool.take_unused(unused).into_iter();
            let units = units.map(|units| LeaseTransfer::new(self, units).give_back());
            let refunds: JoinSet<_> = units.collect();
            if refunds.is_empty() {
                return Ok(());
            }
            for refund in refunds.join_all().await {
                refund?;
            }
        }
    }
}

/// Returns idle units, as long as the lease exists.
async fn sweep<B: Backend>(shared: Weak<LeaseState<B>>) {
    loop {
        sleep(IDLE / 2).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        // The seat is taken before any units are, so that `close` waits until they are returned.
        let Ok(_seat) = shared.seats.acquire().await else {
            return;
        };
        let _stays_charged = shared.give_back(IDLE).await;
    }
}

/// Units on their way from the store or to it. Dropping this ends the transfer. Units that have neither arrived nor been refunded
/// by then stay charged.
struct LeaseTransfer<B: Backend> {
    shared: Arc<LeaseState<B>>,
    units: LeasedUnits,
    has_come: bool,
}

impl<B: Backend> LeaseTransfer<B> {
    fn new(shared: &Arc<LeaseState<B>>, units: LeasedUnits) -> Self {
        Self {
            shared: Arc::clone(shared),
            units,
            has_come: false,
        }
    }

    async fn charge(mut self) {
        let charged = self.ask(Operation::Spend).await;
        self.has_come = charged.is_ok_and(|charged| {
            charged.source == Source::Store && charged.answers.iter().all(|answer| answer.passed)
        });
    }

    async fn give_back(self) -> Result<(), BackendError> {
        self.ask(Operation::Refund).await.map(drop)
    }

    async fn ask(&self, operation: Operation) -> Result<Outcome, BackendError> {
        let members = [self.units.member(operation)];
        let batch = Batch::new(operation, &members);
        self.shared.store.apply(&batch).await
    }
}

impl<B: Backend> Drop for LeaseTransfer<B> {
    fn drop(&mut self) {
        self.shared.pool.end(&self.units, self.has_come);
    }
}
