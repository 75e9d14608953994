use std::{fmt, slice, sync::Arc};

use super::{Limiter, LimiterError};
use crate::{
    decision::Decision,
    transaction::{LimitPlace, LimitRef, Mode, Operation, Receipt, Transaction},
};

/// A handle on one limit of a [`Limiter`], which is looked up once. Created by [`Limiter::limit`].
///
/// A handle is cheap to clone, and stays correct across reloads. If a reload removes its name, its calls return
/// [`UnknownLimit`](LimiterError::UnknownLimit); a handle does not prevent such a reload. If the limit has no values,
/// nothing is limited.
///
/// ```
/// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limits = Limits::builder().limit("orders", Limit::per_hour(100).burst(10)).build()?;
/// let limiter = Limiter::new(limits, MemoryBackend::new());
///
/// let orders = limiter.limit("orders")?;
/// assert!(orders.spend("alice").await?.allowed());
/// assert_eq!(orders.cost(5).check("alice").await?.remaining(), Some(4));
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a handle does nothing by itself"]
pub struct LimitHandle {
    limit: Arc<NamedHandle>,
    cost: u32,
    min_cost: Option<u32>,
    mode: Mode,
    no_wait: bool,
}

/// The part of a handle that its clones share.
struct NamedHandle {
    limiter: Limiter,
    name: Box<str>,
    place: LimitPlace,
}

impl Limiter {
    /// Returns a handle on a limit, for callers that use it often, or that want to know at startup whether it exists.
    ///
    /// # Errors
    ///
    /// If no limit has this name.
    pub fn limit(&self, name: &str) -> Result<LimitHandle, LimiterError> {
        let limits = self.in_force();
        match limits.get(name) {
            Some(_) => Ok(LimitHandle::new(self.clone(), name)),
            None => Err(LimiterError::unknown_limit(name, &limits)),
        }
    }
}

impl LimitHandle {
    pub(super) fn new(limiter: Limiter, name: &str) -> Self {
        Self {
            limit: Arc::new(NamedHandle {
                limiter,
                name: name.into(),
                place: LimitPlace::default(),
            }),
            cost: 1,
            min_cost: None,
            mode: Mode::default(),
            no_wait: false,
        }
    }

    /// The limit's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.limit.name
    }

    /// The limiter that decides.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limit.limiter
    }

    /// The cost of its transactions.
    pub(crate) fn asked_cost(&self) -> u32 {
        self.cost
    }

    /// The same limit at another cost, in tokens. See [`Transaction::cost`].
    pub fn cost(&self, cost: u32) -> Self {
        Self {
            cost,
            ..self.clone()
        }
    }

    /// The same limit for a group request. See [`Transaction::min_cost`].
    pub fn min_cost(&self, min_cost: u32) -> Self {
        Self {
            min_cost: Some(min_cost),
            ..self.clone()
        }
    }

    /// The same limit in another mode.
    pub fn mode(&self, mode: Mode) -> Self {
        Self {
            mode,
            ..self.clone()
        }
    }

    /// The same limit for callers that do not wait in line. See [`Transaction::no_wait`].
    pub fn no_wait(&self) -> Self {
        Self {
            no_wait: true,
            ..self.clone()
        }
    }

    /// A transaction of the client with this id, for a batch.
    #[must_use]
    #[inline(always)]
    pub fn transaction<'a>(&'a self, id: &'a str) -> Transaction<'a> {
        let mut transaction = Transaction::new(self, id).cost(self.cost).mode(self.mode);
        transaction.min_cost = self.min_cost;
        match self.no_wait {
            true => transaction.no_wait(),
            false => transaction,
        }
    }

    /// Charges the client if the cost fits.
    ///
    /// # Errors
    ///
    /// As [`Limiter::spend`].
    pub async fn spend(&self, id: &str) -> Result<Decision, LimiterError> {
        self.limiter().spend(&self.transaction(id)).await
    }

    /// Returns what [`spend`](Self::spend) would return, without charging.
    ///
    /// # Errors
    ///
    /// As [`Limiter::check`].
    pub async fn check(&self, id: &str) -> Result<Decision, LimiterError> {
        self.limiter().check(&self.transaction(id)).await
    }

    /// Refunds the cost to the client. See [`Limiter::refund`].
    ///
    /// # Errors
    ///
    /// As [`Limiter::refund`].
    pub async fn refund(&self, id: &str) -> Result<Decision, LimiterError> {
        self.limiter().refund(&self.transaction(id)).await
    }

    /// Refunds exactly one charge, even if it was decided locally while the store was down.
    ///
    /// The receipt must come from this limiter, or from another one on the same backend.
    ///
    /// The receipt is consumed. After an error, it is unknown whether anything was refunded, so a second attempt
    /// could refund twice.
    ///
    /// # Errors
    ///
    /// As [`Limiter::refund`], and if the receipt does not belong to this limit and client.
    pub async fn refund_receipt(
        &self,
        id: &str,
        receipt: Receipt,
    ) -> Result<Decision, LimiterError> {
        let transaction = Transaction::new(self, id).of_receipt(&receipt);
        self.limiter().refund(&transaction).await
    }

    /// Charges the client and waits until it is its turn. See [`Limiter::acquire`].
    ///
    /// # Errors
    ///
    /// As [`Limiter::spend`].
    ///
    /// # Panics
    ///
    /// As [`Limiter::acquire`].
    #[cfg(feature = "tokio")]
    pub async fn acquire(&self, id: &str) -> Result<Decision, LimiterError> {
        self.limiter().acquire(&self.transaction(id)).await
    }

    /// Fills the client's bucket.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reset`].
    pub async fn reset(&self, id: &str) -> Result<(), LimiterError> {
        let transaction = self.transaction(id);
        self.limiter().reset(slice::from_ref(&transaction)).await
    }

    /// Like [`spend`](Self::spend), but never waits. Returns `None`, without charging, if the backend has to wait.
    ///
    /// # Errors
    ///
    /// As [`Limiter::spend`].
    #[must_use = "`None` means that nothing has been decided"]
    pub fn try_spend(&self, id: &str) -> Option<Result<Decision, LimiterError>> {
        let transaction = self.transaction(id);
        self.limiter()
            .try_decide_one(Operation::Spend, &transaction)
    }
}

impl<'a> From<&'a LimitHandle> for LimitRef<'a> {
    #[inline]
    fn from(handle: &'a LimitHandle) -> Self {
        Self::remembered(&handle.limit.name, &handle.limit.place)
    }
}

/// The limit's name, for rules, which look it up when the layer is built.
impl From<&LimitHandle> for Arc<str> {
    fn from(handle: &LimitHandle) -> Self {
        handle.name().into()
    }
}

/// The limit's name.
impl From<LimitHandle> for Arc<str> {
    fn from(handle: LimitHandle) -> Self {
        handle.name().into()
    }
}

impl fmt::Debug for LimitHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitHandle")
            .field("name", &self.name())
            .field("cost", &self.cost)
            .field("min_cost", &self.min_cost)
            .field("mode", &self.mode)
            .field("no_wait", &self.no_wait)
            .finish_non_exhaustive()
    }
}
