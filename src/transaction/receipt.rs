mod text;

use super::fingerprint::{ClientFingerprint, Fingerprint};
use crate::algorithm::{AlgorithmKey, Charge, Refund};

/// A receipt for one charge, which refunds exactly that charge.
///
/// A receipt records who made the charge. If this process decided it locally, because the store did not answer, the
/// refund goes to the local bucket and never to the store. Once the store has been charged for the outage, it refunds
/// nothing. A receipt also records the rate of the charge, so that a reload in between does not make the refund larger than
/// the charge.
///
/// A receipt records its bucket, but not its limiter. Refund it with the limiter that charged it, or with another one
/// on the same backend. A limiter on another backend cannot detect the mistake, and would refund a charge that was
/// never made there. If a reload has changed the algorithm of the limit since the charge, the receipt gives nothing back:
/// the charge is in a bucket that is no longer used.
///
/// A refund consumes the receipt. To refund a part now and keep the rest, use [`split`](Self::split).
///
/// ```
/// use tollgate::{Limit, Limiter, Limits, MemoryBackend};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limits = Limits::builder().limit("uploads", Limit::per_hour(100)).build()?;
/// let uploads = Limiter::new(limits, MemoryBackend::new()).limit("uploads")?;
///
/// let decision = uploads.cost(10).spend("alice").await?;
/// let mut receipt = decision.receipt().expect("it was charged");
/// let part = receipt.split(4);
/// let decision = uploads.refund_receipt("alice", part).await?;
/// assert_eq!(decision.remaining(), Some(94));
/// assert_eq!(receipt.cost(), 6);
/// # Ok::<_, Box<dyn std::error::Error>>(()) })?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, PartialEq, Eq, Hash)]
#[must_use = "a receipt gives nothing back until it is refunded"]
pub struct Receipt {
    bucket: Fingerprint,
    charge: Charge,
    cost: u32,
    is_local: bool,
}

impl Receipt {
    /// Returns the same receipt, as if the store had made the charge.
    #[cfg(feature = "failure-policy")]
    pub(crate) const fn as_stored(&self) -> Self {
        Self {
            is_local: false,
            ..*self
        }
    }

    /// Copies the receipt for another thread that decides its batch.
    pub(super) const fn copied(&self) -> Self {
        Self { ..*self }
    }

    pub(crate) const fn new(
        bucket: Fingerprint,
        charge: Charge,
        cost: u32,
        is_local: bool,
    ) -> Self {
        Self {
            bucket,
            charge,
            cost,
            is_local,
        }
    }

    /// The number of tokens that it can refund: those that were charged. A debit can have charged fewer tokens than its
    /// cost, if its bucket could not hold more debt.
    #[must_use]
    pub const fn cost(&self) -> u32 {
        self.cost
    }

    /// Returns whether this process made the charge locally, because the store did not answer.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }

    /// Splits off at most `cost` tokens, the ones that were charged last.
    ///
    /// The order matters to a caller that leaves a line. Only the last one in a line can give its slot back, so refund
    /// the part before the rest.
    pub fn split(&mut self, cost: u32) -> Self {
        let cost = cost.min(self.cost);
        self.cost -= cost;
        Self {
            cost,
            charge: self.charge.split(self.cost, cost),
            ..*self
        }
    }

    /// Returns whether the charge was made to a bucket of this client, which can be of another algorithm than the one in
    /// force now.
    pub(crate) fn is_for(&self, client: ClientFingerprint) -> bool {
        self.bucket == client.bucket(self.algorithm())
    }

    /// Returns the algorithm of the charged bucket.
    #[inline]
    pub(crate) fn algorithm(&self) -> AlgorithmKey {
        self.charge.key()
    }

    /// Returns what a refund gives back. For a charge that was decided elsewhere, it is nothing.
    #[inline(always)]
    pub(crate) fn refund(receipt: Option<&Self>) -> Refund<'_> {
        match receipt {
            None => Refund::Cost,
            Some(receipt) if receipt.is_local => Refund::Nothing,
            Some(receipt) => Refund::Charge(&receipt.charge),
        }
    }

    /// Returns the charge, if the store made it.
    #[cfg(any(feature = "failure-policy", all(test, feature = "tokio")))]
    pub(crate) fn stored_charge(&self) -> Option<Charge> {
        (!self.is_local).then_some(self.charge)
    }
}
