//! One receipt for permits, which is renewed in the background and refunded at the end of its work.

use std::{
    fmt, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::super::{Limiter, limiter_error::LimiterError};
use crate::{
    decision::Decision,
    transaction::{LimitRef, Mode, Operation, Receipt, Transaction},
};

#[cfg(feature = "tokio")]
type Waiter = tokio::sync::oneshot::Sender<bool>;

/// Permits of one charge. They are given back when this is dropped.
pub(crate) struct HeldPermit(Arc<PermitRecord>);

/// The permits of one charge, as the task that renews them knows them.
pub(super) struct PermitRecord {
    pub(super) limiter: Limiter,
    limit: Box<str>,
    id: Box<str>,
    /// The transaction without its limit and id.
    asked: Transaction<'static>,
    #[cfg(feature = "tokio")]
    pub(super) hold: Duration,
    state: Mutex<PermitState>,
}

pub(super) struct PermitState {
    receipt: ReceiptState,
    /// When the permits were taken or renewed last, at the latest.
    #[cfg(feature = "tokio")]
    pub(super) since: tokio::time::Instant,
    /// When they are to be renewed.
    #[cfg(feature = "tokio")]
    pub(super) due: tokio::time::Instant,
    /// The place among the permits of the limiter.
    #[cfg(feature = "tokio")]
    pub(super) place: Option<usize>,
}

enum ReceiptState {
    Held(Receipt),
    /// A renewal has the receipt. If somebody has left meanwhile, the renewal gives the permits back.
    #[cfg(feature = "tokio")]
    Renewing {
        has_left: bool,
        waiter: Option<Waiter>,
    },
    /// Given back, or lost.
    Over,
}

/// What is left to do when the permits are given back.
pub(super) enum Leaving {
    /// Nothing: they were lost, or given back before.
    Over,
    Refund(Receipt),
    /// A renewal is under way, and gives the permits back.
    #[cfg(feature = "tokio")]
    Renewing,
}

impl HeldPermit {
    /// Holds the permits that a decision on a transaction has charged; `None` if it has charged none.
    pub(crate) fn of(
        limiter: &Limiter,
        transaction: &Transaction<'_>,
        decision: &Decision,
    ) -> Option<Self> {
        let hold = decision.hold()?;
        let record = Arc::new(PermitRecord {
            limiter: limiter.clone(),
            limit: transaction.limit.as_str().into(),
            id: transaction.id.into(),
            asked: transaction.of(LimitRef::from(""), ""),
            #[cfg(feature = "tokio")]
            hold,
            state: Mutex::new(PermitState::new(decision.receipt()?, hold)),
        });
        #[cfg(feature = "tokio")]
        limiter.permits().keep(&record);
        Some(Self(record))
    }

    #[cfg(feature = "tokio")]
    pub(super) fn record(&self) -> &Arc<PermitRecord> {
        &self.0
    }
}

/// Gives the permits back: immediately if the backend does not have to wait, and otherwise in a task.
impl Drop for HeldPermit {
    fn drop(&mut self) {
        if let Leaving::Refund(receipt) = self.0.leave(None)
            && let Err(receipt) = self.0.try_refund(receipt)
        {
            let record = Arc::clone(&self.0);
            self.0.limiter.detach(Box::pin(async move {
                record.refund(receipt).await.unwrap_or_default();
            }));
        }
    }
}

impl fmt::Debug for HeldPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldPermit")
            .field("limit", &self.0.limit)
            .finish_non_exhaustive()
    }
}

impl PermitRecord {
    pub(super) fn state(&self) -> MutexGuard<'_, PermitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the work. Whoever calls this has to refund the receipt.
    pub(super) fn leave(&self, waiter: Option<WaiterSlot>) -> Leaving {
        let mut state = self.state();
        let leaving = state.leave(waiter);
        #[cfg(feature = "tokio")]
        if !matches!(leaving, Leaving::Renewing)
            && let Some(place) = state.place.take()
        {
            drop(state);
            self.limiter.permits().forget(place);
        }
        leaving
    }

    /// Returns the transaction of the charge.
    pub(super) fn transaction(&self) -> Transaction<'_> {
        self.asked
            .of(LimitRef::from(&*self.limit), &self.id)
            .mode(Mode::Debit)
            .correction()
    }

    /// Refunds a receipt, if the backend does not have to wait. Returns whether the permits were still there.
    pub(super) fn try_refund(&self, receipt: Receipt) -> Result<bool, Receipt> {
        let refund = self.transaction().of_receipt(&receipt);
        let decided = self.limiter.try_decide_one(Operation::Refund, &refund);
        match decided {
            Some(refunded) => Ok(told(refunded).unwrap_or_default()),
            None => Err(receipt),
        }
    }

    /// Refunds a receipt. Returns whether the permits were still there.
    pub(super) async fn refund(&self, receipt: Receipt) -> Result<bool, LimiterError> {
        let refund = self.transaction().of_receipt(&receipt);
        told(self.limiter.decide_one(Operation::Refund, &refund).await)
    }
}

/// Logs a refund that has failed. The permits then come back when their hold is over.
fn told(refunded: Result<Decision, LimiterError>) -> Result<bool, LimiterError> {
    if let Err(error) = &refunded {
        tracing::debug!(%error, "permits could not be given back, and come back when their hold is over");
    }
    refunded.map(|decision| decision.refunded() || !decision.limited())
}

#[cfg(feature = "tokio")]
pub(super) type WaiterSlot = Waiter;
#[cfg(not(feature = "tokio"))]
pub(super) type WaiterSlot = std::convert::Infallible;

impl PermitState {
    #[cfg(feature = "tokio")]
    fn new(receipt: Receipt, hold: Duration) -> Self {
        let since = tokio::time::Instant::now();
        Self {
            receipt: ReceiptState::Held(receipt),
            since,
            due: since + hold / 3,
            place: None,
        }
    }

    #[cfg(not(feature = "tokio"))]
    fn new(receipt: Receipt, _: Duration) -> Self {
        let receipt = ReceiptState::Held(receipt);
        Self { receipt }
    }

    fn leave(&mut self, waiter: Option<WaiterSlot>) -> Leaving {
        match mem::replace(&mut self.receipt, ReceiptState::Over) {
            ReceiptState::Held(receipt) => Leaving::Refund(receipt),
            #[cfg(feature = "tokio")]
            ReceiptState::Renewing { waiter: first, .. } => {
                self.receipt = ReceiptState::Renewing {
                    has_left: true,
                    waiter: first.or(waiter),
                };
                Leaving::Renewing
            }
            ReceiptState::Over => {
                // Without a renewal, nobody waits for one.
                let _ = waiter;
                Leaving::Over
            }
        }
    }
}

#[cfg(feature = "tokio")]
impl PermitState {
    /// Takes the receipt for a renewal, if there is one.
    pub(super) fn begin_renewal(&mut self) -> Option<Receipt> {
        match mem::replace(&mut self.receipt, ReceiptState::Over) {
            ReceiptState::Held(receipt) => {
                self.receipt = ReceiptState::Renewing {
                    has_left: false,
                    waiter: None,
                };
                Some(receipt)
            }
            other => {
                self.receipt = other;
                None
            }
        }
    }

    /// Ends a renewal with the receipt that is valid now; `None` if the permits are lost. If their work has ended
    /// meanwhile, returns the receipt to refund, and who waits for that.
    pub(super) fn end_renewal(
        &mut self,
        receipt: Option<Receipt>,
    ) -> Option<(Option<Receipt>, Option<Waiter>)> {
        match mem::replace(&mut self.receipt, ReceiptState::Over) {
            ReceiptState::Renewing {
                has_left: true,
                waiter,
            } => Some((receipt, waiter)),
            ReceiptState::Renewing { .. } => {
                self.receipt = receipt.map_or(ReceiptState::Over, ReceiptState::Held);
                None
            }
            other => {
                self.receipt = other;
                None
            }
        }
    }

    /// Returns whether the permits count, as far as this process knows.
    pub(super) fn is_held(&self, hold: Duration) -> bool {
        !matches!(self.receipt, ReceiptState::Over) && self.since.elapsed() < hold
    }
}

#[cfg(feature = "tokio")]
impl PermitRecord {
    pub(super) fn limit(&self) -> &str {
        &self.limit
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn is_secret(&self) -> bool {
        self.asked.is_secret()
    }
}
