use super::fingerprint::Fingerprint;
use crate::gcra::{Gcra, Tat, Ticks};

/// Proof of one charge: whoever holds it can refund exactly that charge.
///
/// A receipt names who decided. The refund of a charge that this process decided alone, because the store did not
/// answer, goes to the local bucket and never to the store; once the store has been charged for the outage, it gives nothing
/// back. A receipt also keeps the rate at which it was charged, so
/// that a reload in between gives back no more than was taken.
///
/// A receipt names its bucket, and not the limiter that charged it. Refund it by that limiter, or by another one on the same
/// backend: a limiter on another backend cannot tell the difference, and would give back what was never charged there.
///
/// A refund consumes what it gives back. [`split`](Self::split) divides a receipt, to refund a part now and keep the
/// rest.
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
    gcra: Gcra,
    /// The theoretical arrival time right after the charge.
    tat: Tat,
    cost: u32,
    is_local: bool,
}

impl Receipt {
    /// The same receipt on another thread, where the batch is decided that refunds it.
    pub(super) const fn copied(&self) -> Self {
        Self { ..*self }
    }

    pub(crate) const fn new(
        bucket: Fingerprint,
        gcra: Gcra,
        tat: Tat,
        cost: u32,
        is_local: bool,
    ) -> Self {
        Self {
            bucket,
            gcra,
            tat,
            cost,
            is_local,
        }
    }

    /// How many tokens it can give back.
    #[must_use]
    pub const fn cost(&self) -> u32 {
        self.cost
    }

    /// Whether this process decided the charge alone, because the store did not answer.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }

    /// Takes a part of at most `cost` tokens out of it.
    pub fn split(&mut self, cost: u32) -> Self {
        let cost = cost.min(self.cost);
        self.cost -= cost;
        Self { cost, ..*self }
    }

    /// The theoretical arrival time right after the charge.
    #[cfg(feature = "failure-policy")]
    pub(crate) const fn tat(&self) -> Tat {
        self.tat
    }

    pub(crate) fn is_for(&self, bucket: Fingerprint) -> bool {
        self.bucket == bucket
    }

    /// The time that a bucket of `gcra` gets back: no more than was charged, though tokens may cost more time by now.
    pub(crate) fn span(&self, gcra: &Gcra) -> Ticks {
        gcra.lesser_increment(&self.gcra, self.cost)
    }
}
