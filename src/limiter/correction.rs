//! Corrections of charges, and a charge that is refunded when it is dropped.

use std::{
    sync::{Arc, OnceLock},
    task::Poll,
};

use tokio::{runtime::Handle, sync::watch};
use tracing::{Instrument, instrument::WithSubscriber};

use super::{Limiter, error::LimiterError};
use crate::{
    batch::{Member, OwnedMember},
    decision::Decision,
    task::{Background, begin, detached},
    transaction::{Mode, Operation, Receipt},
};

/// A correction of an earlier charge of a client. It is not recorded, because the decision on the charge was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction<'a> {
    pub(crate) operation: Operation,
    pub(crate) cost: u32,
    pub(crate) min_cost: Option<u32>,
    pub(crate) mode: Mode,
    /// The charge to refund or to renew. It replaces `cost`.
    pub(crate) receipt: Option<&'a Receipt>,
}

impl<'a> Correction<'a> {
    pub(crate) fn new(operation: Operation) -> Self {
        Self {
            operation,
            cost: 1,
            min_cost: None,
            mode: Mode::CheckAndSpend,
            receipt: None,
        }
    }

    pub(crate) fn of_receipt(operation: Operation, receipt: &'a Receipt) -> Self {
        Self {
            receipt: Some(receipt),
            ..Self::new(operation)
        }
    }
}

/// A charge that is refunded when this is dropped.
#[derive(Debug)]
pub(crate) struct PendingRefund {
    limiter: Limiter,
    client: OwnedMember,
    receipt: Option<Receipt>,
    runtime: Option<Handle>,
}

impl PendingRefund {
    /// Takes over the charge of a decision; `None` if it has charged nothing that can be refunded.
    pub(crate) fn new(limiter: &Limiter, member: &Member<'_>, decision: &Decision) -> Option<Self> {
        Some(Self {
            receipt: Some(decision.receipt()?),
            limiter: limiter.clone(),
            client: OwnedMember::from(member),
            runtime: Handle::try_current().ok(),
        })
    }

    /// Lets the charge stand.
    pub(crate) fn keep(mut self) {
        self.receipt = None;
    }
}

impl Drop for PendingRefund {
    fn drop(&mut self) {
        let Some(receipt) = self.receipt.take() else {
            return;
        };
        let limiter = self.limiter.clone();
        let client = self.client.clone();
        let refund = Box::pin(async move {
            let _logged = limiter.give_back(&client, &receipt).await;
        });
        self.limiter.detach_on(self.runtime.as_ref(), refund);
    }
}

impl Limiter {
    /// Refunds a charge of a client. Returns whether it was still there.
    pub(super) async fn give_back(
        &self,
        client: &OwnedMember,
        receipt: &Receipt,
    ) -> Result<bool, LimiterError> {
        let refund = Correction::of_receipt(Operation::Refund, receipt);
        let refunded = self.correct(client, refund).await;
        if let Err(error) = &refunded {
            tracing::debug!(%error, "a charge could not be given back");
        }
        refunded.map(|decision| decision.refunded() || !decision.limited())
    }
}

/// The number of charges and corrections that are under way and for which no caller waits.
#[derive(Debug, Default)]
pub(super) struct UnattendedWork(watch::Sender<usize>);

impl UnattendedWork {
    /// Waits until there is none.
    pub(super) async fn ended(&self) {
        let mut running = self.0.subscribe();
        // This cannot fail, because `self` owns the sender.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    fn count(&self) -> Counted {
        self.0.send_modify(|running| *running += 1);
        Counted(self.0.clone())
    }
}

/// Unattended work that is under way.
struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// A caller that waits for a charge. If it leaves, it counts the charge as unattended.
struct WaitingCaller<'a> {
    unattended: &'a UnattendedWork,
    /// Set when the caller leaves. The charge holds it as well, so it counts until it has ended.
    counted: Arc<OnceLock<Counted>>,
    is_answered: bool,
}

impl Drop for WaitingCaller<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.counted.get_or_init(|| self.unattended.count());
        }
    }
}

impl Limiter {
    /// Runs a charge to its end, even if its caller leaves. [`close`](Self::close) then waits for it, and for the refunds with which
    /// its output is dropped.
    pub(crate) async fn detached<T: Send + 'static>(
        &self,
        charge: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let counted = Arc::default();
        let mut caller = WaitingCaller {
            unattended: &self.shared.unattended,
            counted: Arc::clone(&counted),
            is_answered: false,
        };
        // If the caller has left, the output is dropped first, and then the count.
        let (output, _counted) = detached(async move { (charge.await, counted) }).await;
        caller.is_answered = true;
        output
    }

    /// Runs a correction of charges in the background. It is polled once before this returns, so that it precedes the client's next
    /// request: in memory, it has ended by then, and with a store, it is in the queue of the link. [`close`](Self::close) waits for
    /// it.
    pub(crate) fn detach(&self, correction: Background) {
        self.detach_on(Handle::try_current().ok().as_ref(), correction);
    }

    pub(super) fn detach_on(&self, runtime: Option<&Handle>, mut correction: Background) {
        let current = Handle::try_current().ok();
        // A thread outside of any runtime uses the one in which the charge was made.
        let runtime = current.as_ref().or(runtime);
        let _entered = runtime.map(Handle::enter);
        if let (Poll::Pending, Some(runtime)) = (begin(&mut correction), runtime) {
            let counted = self.shared.unattended.count();
            let rest = async move {
                let _counted = counted;
                correction.await;
            };
            runtime.spawn(rest.in_current_span().with_current_subscriber());
        }
    }
}
