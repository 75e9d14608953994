//! Gives back units that were charged ahead and are not needed.

use std::{
    mem,
    pin::pin,
    slice,
    sync::{Arc, Weak},
    time::Duration,
};

use ahash::RandomState;
use indexmap::IndexMap;
use tokio::{task::JoinSet, time};
use tracing::instrument::WithSubscriber;

use super::{bucket::Return, shared::Shared};
use crate::{
    backend::{Backend, BackendError, ServerId},
    transaction::{Batch, Member, Mode, Operation},
};

/// The interval between two sweeps.
const PERIOD: Duration = Duration::from_secs(1);

/// The longest that the store may take for a refund.
const PATIENCE: Duration = Duration::from_secs(1);

/// The number of consecutive failures after which a server is left alone until the next sweep. One failure can be due to
/// its bucket.
const FAILURES: u32 = 2;

/// Gives back unneeded units, until nothing is held or the backend is dropped.
///
/// A bucket is leased from its third use, and each use starts this task unless it is running. So a bucket that is added
/// after the last look at the pool starts the task again before it holds anything.
pub(super) async fn keep_returning<B: Backend>(shared: Weak<Shared<B>>) {
    let mut sweeps = 0;
    loop {
        time::sleep(PERIOD).await;
        let Some(shared) = Weak::upgrade(&shared) else {
            return;
        };
        let mut returns = shared.pool.sweep();
        // Another one comes first each time, so that buckets that always fail do not keep the others from being tried.
        let first = sweeps % returns.len().max(1);
        returns.rotate_left(first);
        sweeps += 1;
        // A failure is no news here: the units stay charged, or are held and returned later.
        let _ = shared.give_all_back(returns).await;
        if shared.pool.is_empty() {
            return;
        }
    }
}

impl<B: Backend> Shared<B> {
    /// Gives everything back, also the units of charges and batches that end soon. Returns the first error.
    pub(super) async fn close(self: &Arc<Self>) -> Result<(), BackendError> {
        let mut all = self.give_all_back(self.pool.close()).await;
        // If it takes longer, the units stay charged.
        let _ = time::timeout(PATIENCE, async {
            loop {
                let mut ended = pin!(self.pool.ended());
                // Registered before the look, so that no end between the look and the wait is missed.
                ended.as_mut().enable();
                let returned = self.give_all_back(self.pool.close()).await;
                all = mem::replace(&mut all, Ok(())).and(returned);
                if !self.pool.is_unsettled() {
                    return;
                }
                ended.await;
            }
        })
        .await;
        all
    }

    /// Gives units back, at all servers at the same time, and at each one after the other. Returns the first error.
    pub(super) fn give_all_back(
        self: &Arc<Self>,
        returns: Vec<Return>,
    ) -> impl Future<Output = Result<(), BackendError>> + Send + use<B> {
        let returns = returns.into_iter();
        // Before the future is polled: if it never is, the units are held again.
        let returns: Vec<_> = returns
            .map(|units| UnsettledReturn::new(self, units))
            .collect();
        async move {
            // In the order of their first units, so that a simulation repeats it.
            let mut servers: IndexMap<ServerId, Vec<UnsettledReturn<B>>, RandomState> =
                IndexMap::default();
            for units in returns {
                servers.entry(units.server()).or_default().push(units);
            }
            if servers.len() <= 1 {
                let returns = servers.into_values().next().unwrap_or_default();
                return give_back_to_one(returns).await;
            }
            let mut tasks = JoinSet::new();
            for returns in servers.into_values() {
                tasks.spawn(give_back_to_one(returns).with_current_subscriber());
            }
            let mut all = Ok(());
            while let Some(returned) = tasks.join_next().await {
                all =
                    all.and(returned.unwrap_or_else(|error| Err(BackendError::unavailable(error))));
            }
            all
        }
    }
}

/// Gives units back to one server. After some consecutive failures, the rest is held again.
async fn give_back_to_one<B: Backend>(
    returns: Vec<UnsettledReturn<B>>,
) -> Result<(), BackendError> {
    let (mut all, mut failures) = (Ok(()), 0);
    for units in returns {
        let returned = units.give_back().await;
        failures = if returned.is_ok() { 0 } else { failures + 1 };
        all = all.and(returned);
        if failures >= FAILURES {
            break;
        }
    }
    all
}

/// Units that are being returned. When it is dropped, the return has ended.
struct UnsettledReturn<B> {
    shared: Arc<Shared<B>>,
    units: Return,
    /// Whether the store may have refunded them.
    may_be_done: bool,
}

impl<B: Backend> UnsettledReturn<B> {
    fn new(shared: &Arc<Shared<B>>, units: Return) -> Self {
        Self {
            shared: Arc::clone(shared),
            units,
            may_be_done: false,
        }
    }

    fn server(&self) -> ServerId {
        let servers = self.shared.inner.servers();
        servers.map_or(ServerId::UNKNOWN, |servers| {
            servers.server_of(&self.units.member.as_member())
        })
    }

    /// Refunds the units, at most once: if the outcome is unknown, they stay charged.
    async fn give_back(mut self) -> Result<(), BackendError> {
        self.may_be_done = true;
        let refunded = time::timeout(PATIENCE, self.refund()).await;
        let refunded = refunded.unwrap_or_else(|late| Err(BackendError::unavailable(late)));
        if let Err(BackendError::NotDone(_) | BackendError::Moving(_)) = refunded {
            self.may_be_done = false;
        }
        refunded
    }

    async fn refund(&self) -> Result<(), BackendError> {
        let units = &self.units;
        let member = Member {
            cost: units.receipt.cost(),
            mode: Mode::CheckAndSpend,
            receipt: Some(&units.receipt),
            ..units.member.as_member()
        };
        let batch = Batch::new(Operation::Refund, slice::from_ref(&member)).at(units.at);
        self.shared
            .inner
            .ask(&batch, None)
            .decided()
            .await
            .map(drop)
    }
}

impl<B> Drop for UnsettledReturn<B> {
    fn drop(&mut self) {
        self.shared.pool.returned(&self.units, self.may_be_done);
    }
}
