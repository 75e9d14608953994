//! One receipt for permits, which is renewed in the background and refunded at the end of its work.

#[cfg(feature = "tokio")]
use std::time::Duration;
use std::{fmt, mem, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::super::{Limiter, limiter_error::LimiterError};
#[cfg(feature = "metrics")]
use crate::metrics::PermitCount;
#[cfg(feature = "tokio")]
use crate::task::detached;
use crate::{
    decision::Decision,
    transaction::{LimitRef, Mode, Operation, Receipt, Transaction},
};

/// An instant by the clock that renewals follow.
#[cfg(feature = "tokio")]
pub(super) type Moment = tokio::time::Instant;
#[cfg(not(feature = "tokio"))]
pub(super) type Moment = Unmeasured;

/// Without renewals, no clock is read.
#[cfg(not(feature = "tokio"))]
#[derive(Clone, Copy)]
pub(super) struct Unmeasured;

#[cfg(not(feature = "tokio"))]
impl Unmeasured {
    const fn now() -> Self {
        Self
    }
}

#[cfg(feature = "tokio")]
type Waiter = tokio::sync::oneshot::Sender<bool>;

/// Permits of one charge. They are given back when this is dropped.
pub(crate) struct HeldPermit(Arc<PermitRecord>);

/// The permits of one charge, as the task that renews them knows them.
pub(super) struct PermitRecord {
    pub(super) limiter: Limiter,
    /// The name of the limit, and then the id.
    names: Box<str>,
    limit_len: usize,
    /// The transaction without its limit and id.
    asked: Transaction<'static>,
    state: Mutex<PermitState>,
}

pub(super) struct PermitState {
    receipt: ReceiptState,
    /// Counts them until their work has ended, or they are lost.
    #[cfg(feature = "metrics")]
    counted: Option<PermitCount>,
    /// How long they count, by the limit that has decided last.
    #[cfg(feature = "tokio")]
    pub(super) hold: Duration,
    /// Whether a renewal since then may have moved them, although nobody has heard its answer.
    #[cfg(feature = "tokio")]
    pub(super) is_unsure: bool,
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
    /// Holds the permits that a decision on a transaction has charged a moment ago; `None` if it has charged none.
    pub(crate) fn of(
        limiter: &Limiter,
        transaction: &Transaction<'_>,
        decision: &Decision,
    ) -> Option<Self> {
        Self::asked_at(Moment::now(), limiter, transaction, decision)
    }

    /// Does the same for a decision that was asked for at this moment. The permits do not count longer than from then on.
    pub(super) fn asked_at(
        since: Moment,
        limiter: &Limiter,
        transaction: &Transaction<'_>,
        decision: &Decision,
    ) -> Option<Self> {
        let hold = decision.hold()?;
        // Nothing is renewed then.
        #[cfg(not(feature = "tokio"))]
        let _ = (since, hold);
        let receipt = decision.receipt()?;
        #[cfg(feature = "metrics")]
        let counted = counted(limiter, transaction, receipt.cost());
        let state = PermitState {
            receipt: ReceiptState::Held(receipt),
            #[cfg(feature = "metrics")]
            counted,
            #[cfg(feature = "tokio")]
            hold,
            #[cfg(feature = "tokio")]
            is_unsure: false,
            #[cfg(feature = "tokio")]
            since,
            #[cfg(feature = "tokio")]
            due: since + hold / 3,
            #[cfg(feature = "tokio")]
            place: None,
        };
        let limit = transaction.limit.as_str();
        let record = Arc::new(PermitRecord {
            limiter: limiter.clone(),
            names: joined(limit, transaction.id),
            limit_len: limit.len(),
            asked: transaction.of(LimitRef::from(""), ""),
            state: Mutex::new(state),
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
            .field("limit", &self.0.limit())
            .finish_non_exhaustive()
    }
}

impl PermitRecord {
    pub(super) fn state(&self) -> MutexGuard<'_, PermitState> {
        self.state.lock()
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

    pub(super) fn limit(&self) -> &str {
        &self.names[..self.limit_len]
    }

    pub(super) fn id(&self) -> &str {
        &self.names[self.limit_len..]
    }

    /// Returns the transaction of the charge.
    pub(super) fn transaction(&self) -> Transaction<'_> {
        self.asked
            .of(LimitRef::from(self.limit()), self.id())
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

/// Joins two names, in an allocation of their length.
fn joined(limit: &str, id: &str) -> Box<str> {
    let mut names = String::with_capacity(limit.len() + id.len());
    names.push_str(limit);
    names.push_str(id);
    names.into_boxed_str()
}

/// Counts the permits of a transaction.
#[cfg(feature = "metrics")]
fn counted(limiter: &Limiter, transaction: &Transaction<'_>, permits: u32) -> Option<PermitCount> {
    let limits = limiter.in_force();
    let named = limits.find(transaction.limit)?;
    Some(named.meter().held(named.name.as_str(), permits))
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
    fn leave(&mut self, waiter: Option<WaiterSlot>) -> Leaving {
        #[cfg(feature = "metrics")]
        drop(self.counted.take());
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
                #[cfg(feature = "metrics")]
                if receipt.is_none() {
                    self.counted = None;
                }
                self.receipt = receipt.map_or(ReceiptState::Over, ReceiptState::Held);
                None
            }
            other => {
                self.receipt = other;
                None
            }
        }
    }

    /// Returns when the task looks at the permits next. A renewal that is under way wakes the task when it ends.
    pub(super) fn wakes_at(&self) -> Moment {
        match self.receipt {
            ReceiptState::Held(_) => self.due,
            ReceiptState::Renewing { .. } | ReceiptState::Over => Moment::now() + self.hold,
        }
    }

    /// Begins the hold anew, for permits that count from a moment on.
    pub(super) fn renewed(&mut self, since: Moment, hold: Duration) {
        (self.since, self.hold, self.is_unsure) = (since, hold, false);
        self.due = since + hold / 3;
    }

    /// Plans another attempt before the permits expire, after one whose answer nobody has heard.
    pub(super) fn try_again(&mut self) {
        self.is_unsure = true;
        self.due = Moment::now() + self.hold / 12;
    }

    /// Returns whether the permits count, although there are none at the instant of their receipt.
    pub(super) fn may_have_moved(&self) -> bool {
        self.is_unsure && self.lasts()
    }

    /// Returns whether the hold is not over.
    pub(super) fn lasts(&self) -> bool {
        self.since.elapsed() < self.hold
    }

    /// Returns whether the permits count, as far as this process knows.
    pub(super) fn is_held(&self) -> bool {
        !matches!(self.receipt, ReceiptState::Over) && self.lasts()
    }
}

#[cfg(feature = "tokio")]
impl PermitRecord {
    /// Gives the permits back, and waits until the store has them. Returns whether they were still held.
    pub(super) async fn release(self: Arc<Self>) -> Result<bool, LimiterError> {
        let (sender, answered) = tokio::sync::oneshot::channel();
        match self.leave(Some(sender)) {
            Leaving::Over => Ok(false),
            Leaving::Renewing => Ok(answered.await.unwrap_or_default()),
            Leaving::Refund(receipt) => match self.try_refund(receipt) {
                Ok(refunded) => Ok(refunded),
                Err(receipt) => detached(async move { self.refund(receipt).await }).await,
            },
        }
    }

    pub(super) fn is_secret(&self) -> bool {
        self.asked.is_secret()
    }
}
