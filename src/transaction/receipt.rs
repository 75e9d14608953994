use serde::{Deserialize, Serialize};

use super::bucket_key::Fingerprint;
use crate::algorithm::{AlgorithmKey, Charge};

/// A receipt for one charge, which refunds exactly that charge, or renews it.
///
/// A receipt records who made the charge. If this process decided it locally, because the store did not answer, the refund goes to
/// the local bucket of this process and never to the store. It records its bucket, but not its limiter, so refund it with the
/// limiter that made the charge, or with another one on the same backend. If a reload has changed the algorithm of the limit since,
/// nothing is refunded, because the charge is in a bucket that is no longer used.
///
/// It can be kept elsewhere, and be refunded by another process: it implements [`Serialize`] and [`Deserialize`]. Keep it together
/// with its limit and its id, because another process cannot check that they belong together. Keep it where clients cannot change
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
    /// The process that has received the receipt, and the fingerprint of the bucket. Only that process can compute the fingerprint.
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
    /// While requests wait in line, only one part of a charge can be refunded.
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

    /// Returns another receipt of the same charge. It is for permits, whose refund can be repeated.
    pub(crate) fn copy(&self) -> Self {
        Self { ..*self }
    }

    /// Returns whether the charge can have been made to this bucket. Only the process that has received the receipt knows, so
    /// others return true.
    pub(crate) fn is_for(&self, print: Fingerprint) -> bool {
        self.process != Fingerprint::process() || self.bucket == print.short()
    }

    /// Returns the algorithm of the charged bucket.
    #[inline]
    pub(crate) const fn algorithm(&self) -> AlgorithmKey {
        self.algorithm
    }

    /// Returns whether another process has made the charge locally. Only that process can refund it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.is_local && self.process != Fingerprint::process()
    }

    #[inline]
    pub(crate) const fn charge(&self) -> &Charge {
        &self.charge
    }
}
