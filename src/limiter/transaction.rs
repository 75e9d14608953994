use std::fmt;

use crate::{
    id::Id,
    limit::Limit,
    transaction::{Mode, OnFailure, Receipt},
};

/// One client's use of one limit.
///
/// ```
/// use tollgate::{Transaction, transaction::Mode};
///
/// let one = Transaction::new("NewOrdersPerAccount", "12345678");
/// let five = Transaction::new("NewOrdersPerAccount", "12345678").cost(5);
/// let look = Transaction::new("CertificatesPerDomain", "example.com").mode(Mode::CheckOnly);
/// # let _ = (one, five, look);
/// ```
#[derive(Clone, Copy)]
pub struct Transaction<'a> {
    pub(crate) limit: &'a str,
    /// The id of the client; `None` for the bucket that requests without an id share.
    pub(crate) id: Option<&'a str>,
    pub(crate) cost: u32,
    pub(crate) min_cost: Option<u32>,
    pub(crate) mode: Mode,
    pub(crate) on_failure: Option<OnFailure>,
    /// The limit that holds where no override does, instead of the default.
    pub(crate) values: Option<&'a Limit>,
    pub(crate) receipt: Option<&'a Receipt>,
    pub(crate) no_wait: bool,
    /// Whether texts for people must not contain the id.
    pub(crate) is_secret: bool,
}

impl<'a> Transaction<'a> {
    /// Creates a transaction of cost 1 that is checked and spent.
    #[must_use]
    #[inline]
    pub const fn new(limit: &'a str, id: &'a str) -> Self {
        Self {
            limit,
            id: Some(id),
            cost: 1,
            min_cost: None,
            mode: Mode::CheckAndSpend,
            on_failure: None,
            values: None,
            receipt: None,
            no_wait: false,
            is_secret: false,
        }
    }

    /// Creates a transaction for the bucket that requests without an id share
    /// ([`OnMissing::Shared`](crate::rule::OnMissing::Shared)), to look at it or reset it.
    #[must_use]
    pub const fn missing(limit: &'a str) -> Self {
        Self {
            id: None,
            ..Self::new(limit, "")
        }
    }

    /// Sets the cost, in tokens. A cost of 0 is a probe, which is denied only if the bucket is in debt. Tiers do not accept 0.
    #[must_use]
    pub const fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Makes this a group request, for a limit with [tiers](crate::tiers): as many units as available are granted, from `min_cost`
    /// up to the cost, or none. By default, the whole cost is granted or nothing.
    ///
    /// A group request takes as many units as are available, and can enter a higher tier for units beyond its minimum.
    #[must_use]
    pub const fn min_cost(mut self, min_cost: u32) -> Self {
        self.min_cost = Some(min_cost);
        self
    }

    /// Sets how the transaction takes part in its batch.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Denies the transaction where it would have to wait in line, on a limit with
    /// [`max_wait`](crate::Limit::max_wait). On other limits it changes nothing.
    #[must_use]
    pub const fn no_wait(mut self) -> Self {
        self.no_wait = true;
        self
    }

    /// Uses this limit in place of the default of the named limit, for values that are not in files, such as those of a customer's
    /// row in a database. Name, number and id format stay those of the named limit. An override of this client takes precedence,
    /// because operators write it.
    #[must_use]
    pub const fn limit_values(mut self, limit: &'a Limit) -> Self {
        self.values = Some(limit);
        self
    }

    /// Names the charge to refund or to renew, and sets the cost to that of the receipt. To refund a part of it, set a
    /// lower cost afterwards.
    ///
    /// The receipt is borrowed, because a batch may refund several. Drop it afterwards: a second refund would give the
    /// charge back twice. [`LimitHandle::refund_receipt`](crate::limiter::LimitHandle::refund_receipt) consumes the
    /// receipt.
    #[must_use]
    pub const fn of_receipt(mut self, receipt: &'a Receipt) -> Self {
        self.receipt = Some(receipt);
        self.cost = receipt.cost();
        self
    }

    /// Marks the id as a secret, such as an API key, like [`Id::secret`]: events and errors contain a hash of it.
    ///
    /// ```
    /// use tollgate::Transaction;
    ///
    /// let transaction = Transaction::new("requests", "sk-123").secret();
    /// assert!(!format!("{transaction:?}").contains("123"));
    /// ```
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Sets what happens while the store does not answer. It takes precedence over
    /// [`LimitName::on_failure`](crate::limit::LimitName::on_failure).
    #[must_use]
    pub const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }
}

/// Writes a hash in place of a secret id.
impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id.map(|id| Id::from(id).secret_if(self.is_secret));
        f.debug_struct("Transaction")
            .field("limit", &self.limit)
            .field("id", &id)
            .field("cost", &self.cost)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}
