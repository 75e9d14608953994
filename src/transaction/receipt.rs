use serde::{Deserialize, Serialize};

use super::bucket_key::Fingerprint;
use crate::algorithm::{AlgorithmKey, Charge};

/// A receipt for one charge, which refunds exactly that charge, or renews it.
///
/// A receipt records who made the charge. If this process decided it locally, because the store did not answer, the
/// refund goes to the local bucket of this process and never to the store. It records its bucket, but not its limiter: refund
/// it with the limiter that charged it, or with another one on the same backend. If a reload has changed the algorithm of
/// the limit since, the receipt gives nothing back, because the charge is in a bucket that is no longer used.
///
/// It can be kept elsewhere, and be refunded by another process: it implements [`Serialize`] and [`Deserialize`]. Keep it
/// with its limit and its id, because another process cannot check that they belong together, and where clients cannot change
/// it.
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
#[derive(Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[must_use = "a receipt gives nothing back until it is refunded"]
pub struct Receipt {
    algorithm: AlgorithmKey,
    charge: Charge,
    is_local: bool,
    /// The process that received the receipt, and the fingerprint of the bucket, which only this process can compute.
    process: u64,
    bucket: u32,
}

impl Receipt {
    pub(crate) fn new(
        algorithm: AlgorithmKey,
        charge: Charge,
        is_local: bool,
        bucket: u32,
    ) -> Self {
        Self {
            algorithm,
            charge,
            is_local,
            process: Fingerprint::process(),
            bucket,
        }
    }

    /// The number of tokens that it can refund: those that were charged. A debit that has reached the deepest debt of its
    /// bucket can refund none.
    #[must_use]
    pub const fn cost(&self) -> u32 {
        self.charge.units
    }

    /// Returns whether a process made the charge locally, because the store did not answer.
    #[must_use]
    pub const fn is_local(&self) -> bool {
        self.is_local
    }

    /// Splits off at most `cost` tokens.
    ///
    /// While requests wait in line, a charge can give back only one part.
    pub fn split(&mut self, cost: u32) -> Self {
        let cost = cost.min(self.charge.units);
        self.charge.units -= cost;
        Self {
            charge: Charge {
                units: cost,
                ..self.charge
            },
            ..*self
        }
    }

    /// Returns another receipt of the same charge, for a refund that can be repeated: that of permits.
    pub(crate) fn copy(&self) -> Self {
        Self { ..*self }
    }

    /// Returns whether the charge was made to this bucket, or cannot be known not to be. Only a process that has received the
    /// receipt can tell.
    pub(crate) fn is_for(&self, print: Fingerprint) -> bool {
        self.process != Fingerprint::process() || self.bucket == print.short()
    }

    /// Returns the algorithm of the charged bucket.
    #[inline]
    pub(crate) const fn algorithm(&self) -> AlgorithmKey {
        self.algorithm
    }

    /// Returns whether another process has decided the charge locally, so that nobody else can give it back.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_local && self.process != Fingerprint::process()
    }

    #[inline]
    pub(crate) const fn charge(&self) -> &Charge {
        &self.charge
    }
}
