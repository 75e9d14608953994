use std::{collections::VecDeque, fmt, mem, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use super::{
    kept_refusal::{KeptRefusal, RefusedCharge},
    refusal_id::RefusalId,
};
use crate::limit::Limits;

/// The last refusals of layers, in memory, so that operators can tell a client why it was refused.
///
/// [`RateLimitLayer::keep_refusals`](crate::RateLimitLayer::keep_refusals) fills it. Clones share the refusals, so several
/// layers can have one log. It keeps the refusals of this process only. The example `inspect` shows them to operators.
///
/// It keeps 1,000 refusals, or as many as [`with_capacity`](Self::with_capacity) says, and forgets the oldest. Texts from
/// clients have a maximal length: an id 128 bytes, all others 256. A refusal with one limit takes about 500 bytes, and at
/// most about 3 kB.
///
/// ```
/// use tollgate::{ClientIp, Limit, RateLimitLayer, response::RefusalLog};
///
/// let refusals = RefusalLog::new();
/// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer()).keep_refusals(&refusals);
/// # let _ = layer;
/// assert!(refusals.latest().is_empty());
/// ```
#[derive(Clone)]
pub struct RefusalLog(Arc<Ring>);

struct Ring {
    capacity: usize,
    /// Refusals are built before the lock is taken, and dropped after it is released.
    kept: Mutex<VecDeque<Arc<KeptRefusal>>>,
}

impl RefusalLog {
    /// Creates a log of the last 1,000 refusals.
    #[must_use]
    pub fn new() -> Self {
        Self::with_capacity(1000)
    }

    /// Creates a log of the last `capacity` refusals. With 0, it keeps none.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let kept = Mutex::default();
        Self(Arc::new(Ring { capacity, kept }))
    }

    /// The refusals that are kept, latest first.
    #[must_use]
    pub fn latest(&self) -> Vec<Arc<KeptRefusal>> {
        self.lock().iter().rev().cloned().collect()
    }

    /// The refusal with this reference, if it is still kept.
    #[must_use]
    pub fn get(&self, id: RefusalId) -> Option<Arc<KeptRefusal>> {
        let kept = self.lock();
        kept.iter().rev().find(|refusal| refusal.id == id).cloned()
    }

    /// The refusals of a client, latest first. The id is read in the format of each limit, and can be a secret. Refusals without
    /// a limit, such as those by deny lists, belong to no client.
    #[must_use]
    pub fn of_client(&self, limits: &Limits, id: &str) -> Vec<Arc<KeptRefusal>> {
        let is_client = |charge: &RefusedCharge| {
            let named = limits.get(&charge.limit);
            let folded = named.and_then(|named| named.name.format().fold(id).ok());
            folded.is_some_and(|folded| charge.is_of(folded.as_str()))
        };
        let mut latest = self.latest();
        latest.retain(|refusal| refusal.charges.iter().any(is_client));
        latest
    }

    pub(super) fn keep(&self, refusal: KeptRefusal) {
        let refusal = Arc::new(refusal);
        let mut kept = self.lock();
        kept.push_back(refusal);
        let oldest = (kept.len() > self.0.capacity).then(|| kept.pop_front());
        mem::drop(kept);
        mem::drop(oldest);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<KeptRefusal>>> {
        self.0.kept.lock()
    }
}

impl Default for RefusalLog {
    fn default() -> Self {
        Self::new()
    }
}

/// Leaves out the refusals, because they contain ids of clients.
impl fmt::Debug for RefusalLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalLog")
            .field("capacity", &self.0.capacity)
            .field("len", &self.lock().len())
            .finish()
    }
}
