use std::fmt;

use super::{
    fingerprint::ClientFingerprint, limit_ref::LimitRef, mode::Mode, on_failure::OnFailure,
    receipt::Receipt,
};
use crate::id::Id;

/// One client's use of one limit, given by name or by [handle](crate::limiter::LimitHandle).
///
/// ```
/// use tollgate::{Transaction, transaction::Mode};
///
/// let one = Transaction::new("NewOrdersPerAccount", "12345678");
/// let five = Transaction::new("NewOrdersPerAccount", "12345678").cost(5);
/// let look = Transaction::new("CertificatesPerDomain", "example.com").mode(Mode::CheckOnly);
/// # assert_eq!((one.cost, five.cost, look.mode), (1, 5, Mode::CheckOnly));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Transaction<'a> {
    /// The limit.
    pub limit: LimitRef<'a>,
    /// The id of the client.
    pub id: &'a str,
    /// The cost, in tokens.
    pub cost: u32,
    /// The smallest acceptable grant, for a limit with tiers.
    pub min_cost: Option<u32>,
    /// The mode in a batch.
    pub mode: Mode,
    /// The policy while the store does not answer, if it overrides the limit's.
    pub on_failure: Option<OnFailure>,
    /// The least strict policy, if the limit's applies.
    floor: Option<OnFailure>,
    /// Whether the transaction uses the bucket that requests without an id share.
    missing: bool,
    /// Whether a cost that can never pass is denied. Otherwise, it is an error.
    lenient: bool,
    /// Whether it corrects a decision that was already recorded.
    correction: bool,
    /// The fingerprint of the client, if it is known. The id is canonical then.
    fingerprint: Option<ClientFingerprint>,
    /// The receipt of the charge to refund, if it is known.
    receipt: Option<&'a Receipt>,
    /// Whether the transaction is denied if it would have to wait in line.
    no_wait: bool,
    /// Whether texts for people must not contain the id.
    secret: bool,
}

impl<'a> Transaction<'a> {
    /// Creates a transaction of cost 1 that is checked and spent.
    #[must_use]
    pub fn new(limit: impl Into<LimitRef<'a>>, id: &'a str) -> Self {
        Self {
            limit: limit.into(),
            id,
            cost: 1,
            min_cost: None,
            mode: Mode::CheckAndSpend,
            on_failure: None,
            floor: None,
            missing: false,
            lenient: false,
            correction: false,
            fingerprint: None,
            receipt: None,
            no_wait: false,
            secret: false,
        }
    }

    /// Returns the same transaction for another limit and another client.
    pub(crate) const fn of<'b>(&self, limit: LimitRef<'b>, id: &'b str) -> Transaction<'b> {
        Transaction {
            limit,
            id,
            cost: self.cost,
            min_cost: self.min_cost,
            mode: self.mode,
            on_failure: self.on_failure,
            floor: self.floor,
            missing: self.missing,
            lenient: self.lenient,
            correction: self.correction,
            fingerprint: self.fingerprint,
            receipt: None,
            no_wait: self.no_wait,
            secret: self.secret,
        }
    }

    /// Marks the id as canonical, and sets the client's fingerprint.
    pub(crate) const fn canonical(mut self, fingerprint: ClientFingerprint) -> Self {
        self.fingerprint = Some(fingerprint);
        self
    }

    /// Returns whether the id is already canonical. A canonical id must not be normalized again: a hash in it would be
    /// read as a set of names.
    #[inline]
    pub(crate) const fn is_canonical(&self) -> bool {
        self.missing || self.fingerprint.is_some()
    }

    #[inline]
    pub(crate) const fn fingerprint(&self) -> Option<ClientFingerprint> {
        self.fingerprint
    }

    /// Names the charge to refund, and sets the cost to that of the receipt. Only a refund uses the receipt.
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

    #[inline]
    pub(crate) const fn receipt(&self) -> Option<&'a Receipt> {
        self.receipt
    }

    /// Creates a transaction for the bucket that requests without an id share
    /// ([`OnMissing::Shared`](crate::rule::OnMissing::Shared)), to look at it or reset it.
    #[must_use]
    pub fn missing(limit: impl Into<LimitRef<'a>>) -> Self {
        let mut transaction = Self::new(limit, Id::MISSING);
        transaction.missing = true;
        transaction
    }

    /// Denies a cost that can never pass. Otherwise, it is an error.
    pub(crate) const fn lenient(mut self) -> Self {
        self.lenient = true;
        self
    }

    pub(crate) const fn is_lenient(&self) -> bool {
        self.lenient
    }

    /// Marks the transaction as a correction of an earlier decision, which is not recorded again.
    pub(crate) const fn correction(mut self) -> Self {
        self.correction = true;
        self
    }

    pub(crate) const fn is_correction(&self) -> bool {
        self.correction
    }

    /// Sets the cost, in tokens. A cost of 0 is a probe: it is only denied on a bucket in debt. Tiers do not accept
    /// 0.
    #[must_use]
    pub const fn cost(mut self, cost: u32) -> Self {
        self.cost = cost;
        self
    }

    /// Makes this a group request, for a limit with [tiers](crate::tiers): as many units as available are granted,
    /// from `min_cost` up to the cost, or none. By default, it is the whole cost or nothing.
    ///
    /// A group request takes as much as available, and can enter a higher tier for units beyond its minimum.
    #[must_use]
    pub const fn min_cost(mut self, min_cost: u32) -> Self {
        self.min_cost = Some(min_cost);
        self
    }

    /// Denies the transaction where it would have to wait in line, on a limit with
    /// [`max_wait`](crate::Limit::max_wait). On other limits it changes nothing.
    #[must_use]
    pub const fn no_wait(mut self) -> Self {
        self.no_wait = true;
        self
    }

    #[inline]
    pub(crate) const fn no_wait_if(mut self, no_wait: bool) -> Self {
        self.no_wait = no_wait;
        self
    }

    #[inline]
    pub(crate) const fn declines_to_wait(&self) -> bool {
        self.no_wait
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
    pub const fn secret(self) -> Self {
        self.secret_if(true)
    }

    #[inline]
    pub(crate) const fn secret_if(mut self, is_secret: bool) -> Self {
        self.secret = is_secret;
        self
    }

    #[inline]
    pub(crate) const fn is_secret(&self) -> bool {
        self.secret
    }

    /// Sets how the transaction takes part in its batch.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets what happens while the store does not answer. It takes precedence over
    /// [`LimitName::on_failure`](crate::limit::LimitName::on_failure).
    #[must_use]
    pub const fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = Some(on_failure);
        self
    }

    /// Uses the limit's policy while the store does not answer, but none that is less strict than `floor`.
    pub(crate) const fn on_failure_at_least(mut self, floor: Option<OnFailure>) -> Self {
        self.floor = floor;
        self
    }

    pub(crate) const fn floor(&self) -> Option<OnFailure> {
        self.floor
    }
}

/// Writes a hash in place of a secret id.
impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("limit", &self.limit)
            .field("id", &Id::from(self.id).secret_if(self.secret))
            .field("cost", &self.cost)
            .field("min_cost", &self.min_cost)
            .field("mode", &self.mode)
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}
