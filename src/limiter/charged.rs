//! A charge that is given back when it is dropped: a permit, or a place in line.

use std::{fmt, task::Poll};

use tokio::{runtime::Handle, sync::watch};
use tracing::{Instrument, instrument::WithSubscriber};

use super::{Limiter, Transaction, error::LimiterError};
use crate::{
    decision::Decision,
    limit::Limit,
    task::{Background, begin},
    transaction::{Operation, Receipt},
};

/// A client of a limit, for corrections after the request.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) limiter: Limiter,
    limit: Box<str>,
    /// `None` for the bucket that requests without an id share.
    id: Option<Box<str>>,
    values: Option<Box<Limit>>,
    is_secret: bool,
    is_canonical: bool,
}

impl Client {
    pub(crate) fn of(limiter: &Limiter, transaction: &Transaction<'_>) -> Self {
        Self {
            limiter: limiter.clone(),
            limit: transaction.limit.into(),
            id: transaction.id.map(Into::into),
            values: transaction.values.cloned().map(Box::new),
            is_secret: transaction.is_secret,
            is_canonical: transaction.is_canonical,
        }
    }

    pub(super) fn limit(&self) -> &str {
        &self.limit
    }

    /// Returns a transaction of the client. It corrects a decision that was recorded already.
    pub(crate) fn transaction(&self) -> Transaction<'_> {
        Transaction {
            id: self.id.as_deref(),
            values: self.values.as_deref(),
            is_secret: self.is_secret,
            is_canonical: self.is_canonical,
            is_correction: true,
            ..Transaction::new(&self.limit, "")
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.transaction().fmt(f)
    }
}

/// A charge that is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Charged {
    pub(crate) client: Client,
    receipt: Option<Receipt>,
    runtime: Option<Handle>,
}

impl Charged {
    /// Keeps what a decision on a transaction has charged; `None` if it has charged nothing that can be given back.
    pub(crate) fn new(
        limiter: &Limiter,
        transaction: &Transaction<'_>,
        decision: &Decision,
    ) -> Option<Self> {
        Some(Self {
            receipt: Some(decision.receipt()?),
            client: Client::of(limiter, transaction),
            runtime: Handle::try_current().ok(),
        })
    }

    /// Keeps the charge for good.
    pub(crate) fn keep(mut self) {
        self.receipt = None;
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        let Some(receipt) = self.receipt.take() else {
            return;
        };
        let client = self.client.clone();
        let refund = Box::pin(async move {
            let _logged = client.refund(&receipt).await;
        });
        self.client.limiter.detach_on(self.runtime.as_ref(), refund);
    }
}

impl Client {
    /// Gives a charge back. Returns whether it was still there.
    pub(crate) async fn refund(&self, receipt: &Receipt) -> Result<bool, LimiterError> {
        let refund = self.transaction().of_receipt(receipt);
        let refunded = self.limiter.one(Operation::Refund, &refund).await;
        if let Err(error) = &refunded {
            tracing::debug!(%error, "a charge could not be given back");
        }
        refunded.map(|decision| decision.refunded() || !decision.limited())
    }
}

/// The number of corrections in the background.
#[derive(Debug, Default)]
pub(super) struct Corrections(watch::Sender<usize>);

impl Corrections {
    /// Waits until none is left.
    pub(super) async fn ended(&self) {
        let mut running = self.0.subscribe();
        // Its sender is borrowed, so it cannot be gone.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    fn count(&self) -> Counted {
        self.0.send_modify(|running| *running += 1);
        Counted(self.0.clone())
    }
}

struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

impl Limiter {
    /// Runs a correction of charges to its end. It is begun at once, so that it is ahead of what the client sends next: in
    /// memory, it has ended when this returns, and a store's link has it in its queue. [`close`](Self::close) waits for it.
    pub(crate) fn detach(&self, correction: Background) {
        self.detach_on(Handle::try_current().ok().as_ref(), correction);
    }

    pub(super) fn detach_on(&self, runtime: Option<&Handle>, mut correction: Background) {
        let current = Handle::try_current().ok();
        // Dropped by a thread outside of its runtime, it is still sent from there.
        let runtime = current.as_ref().or(runtime);
        let _entered = runtime.map(Handle::enter);
        if let (Poll::Pending, Some(runtime)) = (begin(&mut correction), runtime) {
            let counted = self.shared.corrections.count();
            let rest = async move {
                let _counted = counted;
                correction.await;
            };
            runtime.spawn(rest.in_current_span().with_current_subscriber());
        }
    }
}
