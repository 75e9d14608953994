use super::fingerprint::Fingerprint;
use crate::gcra::{Gcra, Tat, Ticks};

/// A receipt for one charge, which refunds exactly that charge.
///
/// A receipt records who made the charge. If this process decided it locally, because the store did not answer, the
/// refund goes to the local bucket and never to the store. A receipt also records the rate of the charge, so that a
/// reload in between does not make the refund larger than the charge.
///
/// A receipt records its bucket, but not the limiter that charged it. Refund it with that limiter, or with another
/// one on the same backend. A limiter on another backend cannot detect the mistake, and would refund what was never
/// charged there.
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

    /// The number of tokens that it can refund.
    #[must_use]
    pub const fn cost(&self) -> u32 {
        self.cost
    }

    /// Whether this process made the charge locally, because the store did not answer.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }

    /// Takes a part of at most `cost` tokens out of it: those that were charged last.
    ///
    /// The order matters to a caller that leaves a line. The last one in a line can give its slot back, so refund the
    /// part before the rest.
    pub fn split(&mut self, cost: u32) -> Self {
        let cost = cost.min(self.cost);
        let part = Self { cost, ..*self };
        self.cost -= cost;
        self.tat = self.gcra.before(self.tat, cost);
        part
    }

    /// Where the bucket was right after the charge.
    #[inline]
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
