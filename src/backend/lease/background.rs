//! Charges and returns, in tasks that outlive the requests that cause them.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};

use super::{Shared, SplitLimit, pool::LeasedUnits};
use crate::{
    backend::{Backend, BackendError},
    batch::{Batch, Member},
    decision::{Outcome, Source},
    task::{Background, begin, runtime_with_timer},
    transaction::Operation,
};

/// The most charges at once. While as many are under way, nothing more is charged ahead.
pub(super) const PLACES: u32 = 1024;

/// The time after which units that nobody uses are returned.
const IDLE: Duration = Duration::from_secs(2);

impl<B: Backend> Shared<B> {
    /// Charges units ahead for a member that the store decides. They are in the queue of the store when this returns.
    pub(super) fn charge_ahead(self: &Arc<Self>, member: &Member<'_>, split: &SplitLimit) {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let (Ok(runtime), Ok(place)) = (runtime_with_timer(), place) else {
            return;
        };
        let mut task = self.sweep.lock();
        // It can have ended with another runtime.
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(runtime.spawn(sweep(Arc::downgrade(self))));
        }
        drop(task);
        let Some(charge) = self.pool.begin(member, split) else {
            return;
        };
        let charge = UnderWay::new(self, charge);
        let mut charging: Background = Box::pin(async move {
            let _place = place;
            charge.charge().await;
        });
        if begin(&mut charging).is_pending() {
            runtime.spawn(charging);
        }
    }

    /// Returns everything, after what is under way, and charges nothing ahead any more.
    pub(super) async fn close(self: &Arc<Self>) -> Result<(), BackendError> {
        let _all = self.places.acquire_many(PLACES).await;
        self.places.close();
        self.give_back(Duration::ZERO).await
    }

    /// Returns units that nobody has used for this time. Those that are not refunded stay charged.
    async fn give_back(self: &Arc<Self>, unused: Duration) -> Result<(), BackendError> {
        loop {
            let units = self.pool.take_unused(unused).into_iter();
            let units = units.map(|units| UnderWay::new(self, units).give_back());
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
async fn sweep<B: Backend>(shared: Weak<Shared<B>>) {
    loop {
        sleep(IDLE / 2).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        // Before anything is taken, so that `close` waits for its return.
        let Ok(_place) = shared.places.acquire().await else {
            return;
        };
        let _stays_charged = shared.give_back(IDLE).await;
    }
}

/// Units that are on their way. That ends when this is dropped. If they have not come or were not refunded by then, they stay
/// charged.
struct UnderWay<B: Backend> {
    shared: Arc<Shared<B>>,
    units: LeasedUnits,
    has_come: bool,
}

impl<B: Backend> UnderWay<B> {
    fn new(shared: &Arc<Shared<B>>, units: LeasedUnits) -> Self {
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

impl<B: Backend> Drop for UnderWay<B> {
    fn drop(&mut self) {
        self.shared.pool.end(&self.units, self.has_come);
    }
}
