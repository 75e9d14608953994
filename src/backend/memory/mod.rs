//! The backend in the memory of one process: one sharded table of buckets, bounded by count and by bytes.
//!
//! The buckets of one client are in one shard, so a request takes one lock. There is no task that cleans up: full buckets are
//! removed when a table grows or has reached its cap.

mod buckets;
mod histories;
mod table;

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use self::{buckets::LockedShards, table::Table};
use super::{Backend, BackendError, Stats, async_trait, decide::decide};
use crate::{
    algorithm::LimitError,
    batch::{Batch, Member},
    clock::{Clock, SystemClock},
    decision::{Answer, Outcome, Source},
};

/// Keeps buckets in this process's memory.
///
/// - **Locks.** A batch locks the shards of its buckets, always in the same order, for the time of one decision. The buckets
///   of one client by several limits share a lock. It needs no runtime.
/// - **Fingerprints.** The backend stores 64 bits of a keyed hash of each bucket key, whatever the length of the id. The
///   keys of the hash are random in each process, so no client can aim at the bucket of another.
/// - **Memory.** A bucket takes 24 to 30 bytes. A bucket with a [window](crate::Limit::window), permits or [tiers](crate::tiers)
///   also has a history of some 80 bytes, and 8 more for each unit. Full buckets are removed when a shard grows.
///
/// # At the cap
///
/// There are at most [`max_buckets`](Self::with_max_buckets) buckets, and their histories take at most
/// [`max_history_bytes`](Self::max_history_bytes). At the cap, a new bucket replaces a full one. If there is none, it replaces the
/// bucket that has used the smallest share of its limit, in thousandths, out of a sample of 16. So a throttled client keeps its
/// bucket during a flood of ids that have each used less of their own limit. A flood in which each id uses its whole limit, as with
/// a burst of 1, evicts such buckets once it has filled the cap. Size the cap for that, or add a rule by
/// [`Ipv6Range`](crate::key::Ipv6Range) or [`Everyone`](crate::key::Everyone).
///
/// To share one backend between limiters, wrap it in an [`Arc`](std::sync::Arc).
pub struct MemoryBackend {
    shards: Box<[Mutex<Table>]>,
    max_buckets: usize,
    max_history_bytes: usize,
    evictions: AtomicU64,
    clock: SystemClock,
}

/// The most shards. With this number, a growing shard holds its lock for less than a millisecond, even with ten million buckets in
/// all.
const MAX_SHARDS: usize = 256;
/// The number of buckets that a shard should at least have room for, and the number of bytes of histories.
const BUCKETS_PER_SHARD: usize = 1024;
const HISTORY_BYTES_PER_SHARD: usize = 1 << 19;
const HISTORY_BYTES_PER_BUCKET: usize = 32;

impl MemoryBackend {
    /// The default of [`with_max_buckets`](Self::with_max_buckets).
    pub const DEFAULT_MAX_BUCKETS: usize = 1_000_000;

    /// Creates a backend for at most [`DEFAULT_MAX_BUCKETS`](Self::DEFAULT_MAX_BUCKETS) buckets.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max_buckets(Self::DEFAULT_MAX_BUCKETS)
    }

    /// Creates a backend for at most `max_buckets` buckets, and for 32 bytes of histories for each of them.
    ///
    /// The cap is divided evenly among the shards, so that eviction starts a few per cent before it is reached, and earlier if
    /// each client has buckets by many limits, which are in one shard. A shard has room for at least 1024 buckets, or for all of
    /// them if the cap is lower.
    ///
    /// # Panics
    ///
    /// If `max_buckets` is 0.
    #[must_use]
    #[track_caller]
    pub fn with_max_buckets(max_buckets: usize) -> Self {
        assert!(
            max_buckets > 0,
            "a backend for 0 buckets would limit nobody: use at least 1"
        );
        let history_bytes = max_buckets.saturating_mul(HISTORY_BYTES_PER_BUCKET);
        Self::bounded(max_buckets, history_bytes)
    }

    /// Sets how many bytes the histories of windows, permits and [tiers](crate::tiers) may take, apart from the buckets
    /// themselves. If not set, 32 for each of `max_buckets`.
    ///
    /// Call it first: the backend starts empty after it.
    #[must_use]
    pub fn max_history_bytes(self, bytes: usize) -> Self {
        Self::bounded(self.max_buckets, bytes)
    }

    fn bounded(max_buckets: usize, max_history_bytes: usize) -> Self {
        let shards = max_buckets / BUCKETS_PER_SHARD;
        let shards = shards.min(max_history_bytes / HISTORY_BYTES_PER_SHARD);
        let shards = shards.clamp(1, MAX_SHARDS);
        let buckets = max_buckets.div_ceil(shards);
        let bytes = max_history_bytes / shards;
        let shard = |_| Mutex::new(Table::new(buckets, bytes));
        Self {
            shards: (0..shards).map(shard).collect(),
            max_buckets,
            max_history_bytes,
            evictions: AtomicU64::new(0),
            clock: SystemClock::new(),
        }
    }

    fn buckets(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    #[inline]
    fn decide(&self, batch: &Batch<'_>, answers: &mut [Answer]) -> Result<Source, BackendError> {
        let now = match batch.now {
            Some(now) => now,
            None => self.clock.now(),
        };
        if !now.is_valid() {
            return Err(BackendError::InvalidNow(now));
        }
        let Some((first, others)) = batch.members.split_first() else {
            return Ok(Source::Store);
        };
        let others = others.iter().map(|member| self.shard_of(member));
        let shard = others.fold(self.shard_of(first), usize::min);
        let mut locked = LockedShards {
            backend: self,
            members: batch.members,
            table: self.shards[shard].lock(),
            others: Vec::new(),
        };
        if batch.members.len() > 1 {
            locked.lock_others(shard);
        }
        let decided = decide(batch, answers, &mut locked, now.as_micros());
        drop(locked);
        decided.map(|()| Source::Store)
    }

    #[inline]
    fn shard_of(&self, member: &Member<'_>) -> usize {
        (((member.print.client >> 32) * self.shards.len() as u64) >> 32) as usize
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

/// Prints counts, because a list of a million buckets would be useless.
impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend")
            .field("buckets", &self.buckets())
            .field("max_buckets", &self.max_buckets)
            .field("max_history_bytes", &self.max_history_bytes)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut outcome = Outcome::new(batch.members.iter().map(|_| Answer::default()));
        outcome.source = self.decide(batch, &mut outcome.answers)?;
        Ok(outcome)
    }

    #[inline]
    fn try_apply(
        &self,
        batch: &Batch<'_>,
        answers: &mut [Answer],
    ) -> Option<Result<Source, BackendError>> {
        Some(self.decide(batch, answers))
    }

    fn admits(&self, member: &Member<'_>) -> Result<(), LimitError> {
        let needed = member.algorithm().parameters().largest_history();
        let most = self.max_history_bytes / self.shards.len();
        if needed <= most {
            return Ok(());
        }
        Err(LimitError::new(format!(
            "the history of one bucket takes up to {needed} bytes, and a shard of the memory backend keeps at most {most} \
             bytes of histories: raise `MemoryBackend::max_history_bytes` to {}, or lower the limit",
            needed.saturating_mul(self.shards.len())
        )))
    }

    fn stats(&self) -> Stats {
        Stats {
            buckets: Some(self.buckets()),
            max_buckets: Some(self.max_buckets),
            evictions: Some(self.evictions.load(Ordering::Relaxed)),
            ..Stats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_as_many_as_have_room_for_buckets_and_histories() {
        for (max_buckets, history_bytes, shards) in [
            (1, usize::MAX, 1),
            (2047, usize::MAX, 1),
            (2048, usize::MAX, 2),
            (1_000_000, usize::MAX, 256),
            (1_000_000, 3 << 19, 3),
        ] {
            let backend = MemoryBackend::bounded(max_buckets, history_bytes);
            assert_eq!(backend.shards.len(), shards, "{max_buckets}");
            assert_eq!(backend.stats().max_buckets, Some(max_buckets));
        }
    }
}
