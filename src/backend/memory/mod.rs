//! Buckets in this process: exact, bounded, and never swept.

mod batch;
mod blocks;
mod bucket;
mod decide;
mod histories;
mod index;
#[cfg(feature = "tokio")]
mod lines;
mod queue;
#[cfg(test)]
mod random_numbers;
mod records;
mod row;
mod shard;
mod standing;
mod table;

use std::fmt;
#[cfg(feature = "failure-policy")]
use std::iter;
#[cfg(feature = "tokio")]
use std::sync::Arc;

use async_trait::async_trait;

pub(crate) use self::batch::MemoryClaim;
#[cfg(feature = "tokio")]
pub(crate) use self::lines::LinePlace;
#[cfg(feature = "tokio")]
use self::lines::PermitLines;
use self::{histories::Histories, shard::Shards, table::Table};
use super::{Backend, BackendError, Stats, UnsupportedLimit};
#[cfg(feature = "failure-policy")]
use crate::{
    algorithm::State,
    decision::Answer,
    transaction::{Claim, Fingerprint},
};
use crate::{
    clock::{Clock, SystemClock, Timestamp},
    decision::Outcome,
    transaction::{Algorithm, Batch},
};

/// Keeps buckets in this process's memory.
///
/// - **Locks.** A batch locks the shards of its buckets, always in the same order, for the time of one decision. It
///   needs no runtime, and allocates nothing for up to four buckets.
/// - **Fingerprints.** The backend stores 96 bits of a keyed hash of each bucket key, whatever the length of the id.
///   Further bits, of the hash of the id alone, choose the shard: the buckets of one client by several limits share a lock. The
///   keys of the hash are random in each process, so no client can aim at the bucket of another.
/// - **Rows.** A bucket by GCRA or with a [quota](crate::quota) takes 24 bytes in a row of five that is 128 bytes long.
///   The rows of a shard are at least four fifths full while they grow, and nine tenths full at the cap: 32 and 28.5
///   bytes for each bucket. There are at most [`max_buckets`](Self::with_max_buckets) of them. A bucket that is full
///   again is a free place.
/// - **Histories.** A bucket with a [window](crate::window) or [tiers](crate::tiers) has a history, which takes 176 bytes,
///   48 for each tier if there are several, and 8 for each unit of a window that slides, with what the allocator adds: a
///   window with one unit takes 208. All histories together take at most
///   [`max_history_bytes`](Self::max_history_bytes), which is the memory of the process, to one per cent. A history that
///   nothing depends on any more is forgotten first.
/// - **Growth.** Each shard of rows grows on its own, by an eighth, so no request waits for a large table to be copied. With
///   its first bucket, a shard of rows reserves the addresses of all of them; the operating system provides memory as they
///   fill. A shard of histories grows in blocks, and nothing is copied. Nothing runs in the background. The backend keeps
///   the rows of a peak.
///
/// # At the cap
///
/// The two kinds have separate budgets, and neither evicts the other. A newcomer always gets in.
///
/// - A new bucket in a row replaces the one nearest to full of a random sample of 16. A client that is being throttled
///   outlives a flood of ids that have spent less of their own burst. If each id of a flood spends its whole burst, as
///   with a burst of 1, it frees clients that have waited longer, once it has filled the cap. Size the cap for that, or
///   add a rule by [`Ipv6Range`](crate::key::Ipv6Range) or [`Everyone`](crate::key::Everyone).
/// - A new or growing history replaces those that lose least, until the bytes suffice: the one that has used the smallest
///   part of its limit and, among several, the one that lapses soonest. It never replaces more bytes than it takes, apart
///   from what is left of the last one it replaces. While the budget suffices, no history is evicted.
/// - So a replaced history had used no larger part of its limit than any other, and its client gains at most that part. A
///   flood of ids that take one unit of five each frees nobody who has used two. If each id of a flood uses up its limit, it
///   frees clients whose histories lapse sooner: size the budget for that, or add a rule as above.
/// - The part is what has been used at that instant, to 1/1024 of the limit. A debt counts as the whole limit. With tiers,
///   it is the part of all their units that would not be granted. Threads that evict at the same time may each replace one
///   of the next histories in this order.
/// - A limit whose largest history exceeds the budget is rejected when a [`Limiter`](crate::Limiter) is built or
///   reloaded. The debt of a window can exceed it, by the 4096 units that a window remembers at most.
///
/// To share one backend between limiters, wrap it in an [`Arc`](std::sync::Arc).
pub struct MemoryBackend {
    rows: Shards<Table>,
    histories: Histories,
    clock: SystemClock,
    max_buckets: usize,
    /// The callers that wait for permits.
    #[cfg(feature = "tokio")]
    lines: Arc<PermitLines>,
}

/// Buckets for each shard of rows when all are there: few enough that a table grows in a fraction of a millisecond.
const BUCKETS_PER_SHARD: usize = 4096;
const MAX_SHARDS: usize = 65_536;
const HISTORY_BYTES_PER_BUCKET: usize = 32;

impl MemoryBackend {
    /// The default of [`with_max_buckets`](Self::with_max_buckets).
    pub const DEFAULT_MAX_BUCKETS: usize = 1_000_000;

    /// Creates a backend for at most [`DEFAULT_MAX_BUCKETS`](Self::DEFAULT_MAX_BUCKETS) buckets.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max_buckets(Self::DEFAULT_MAX_BUCKETS)
    }

    /// A backend for at most `max_buckets` buckets by GCRA or with quotas, and for 32 bytes of histories for each of them.
    ///
    /// The cap is divided evenly among the shards, so that eviction starts a few per cent before it is reached, and earlier if
    /// each client has buckets by many limits, which are in one shard. A shard has room for at least 4096 buckets, or for all of
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
        let shards = (max_buckets / BUCKETS_PER_SHARD).clamp(1, MAX_SHARDS);
        let history_bytes = max_buckets.saturating_mul(HISTORY_BYTES_PER_BUCKET);
        Self {
            rows: Shards::new(shards, || Table::new(max_buckets / shards)),
            histories: Histories::new(history_bytes),
            clock: SystemClock::new(),
            max_buckets,
            #[cfg(feature = "tokio")]
            lines: Arc::default(),
        }
    }

    /// Sets how many bytes the histories of buckets with a [window](crate::window) or [tiers](crate::tiers) may take, apart
    /// from all other buckets. If not set, 32 for each of `max_buckets`: 32 MB by default, enough for 150,000 windows with
    /// one unit each.
    ///
    /// Histories that the backend has already are forgotten.
    #[must_use]
    pub fn max_history_bytes(mut self, bytes: usize) -> Self {
        self.histories = Histories::new(bytes);
        self
    }

    /// Returns the number of stored buckets. Some of them can be full again, and wait to be replaced.
    ///
    /// Takes each shard's lock in turn: meant for a gauge, not for each request.
    #[must_use]
    pub fn buckets(&self) -> usize {
        let rows: usize = self.rows.iter().map(|rows| rows.occupied()).sum();
        rows + self.histories.len()
    }

    /// Returns the number of buckets evicted since the start. Takes the locks as
    /// [`buckets`](Self::buckets) does.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        let rows: u64 = self.rows.iter().map(|rows| rows.evictions()).sum();
        rows + self.histories.evictions()
    }

    /// Changes the state of a bucket in a row in one step, and returns it before and after. The row of a history is that of
    /// an unused bucket.
    #[cfg(feature = "failure-policy")]
    pub(super) fn change(
        &self,
        print: &Fingerprint,
        algorithm: &Algorithm,
        now: Timestamp,
        change: impl FnOnce(State) -> State,
    ) -> (State, State) {
        let mut rows = self.rows.lock(self.rows.of(print));
        let (value, place) = rows.look(print);
        let before = algorithm.state_in_row(value, now);
        let after = change(before);
        if after != before {
            let value = algorithm.row(&after);
            rows.put(place, print, value.unless_full(now), now);
        }
        (before, after)
    }

    /// Repeats the change of a history that another backend has made.
    #[cfg(feature = "failure-policy")]
    pub(super) fn learn_history(&self, claim: &Claim<'_>, answer: &Answer, now: Timestamp) {
        let print = &claim.fingerprint;
        let mut records = self.histories.lock(self.histories.of(print));
        let found = records.find(print);
        records.write(found, claim, answer, now);
        drop(records);
        self.histories.trim(iter::once(print), now);
    }

    /// Returns the most buckets that it can hold.
    #[cfg(feature = "failure-policy")]
    pub(super) fn max_buckets(&self) -> usize {
        self.max_buckets
    }

    /// The callers that wait for permits.
    #[cfg(feature = "tokio")]
    pub(crate) fn lines(&self) -> &Arc<PermitLines> {
        &self.lines
    }

    /// Returns the current time of this backend.
    #[inline(always)]
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
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
            .field("evictions", &self.evictions())
            .field("max_history_bytes", &self.histories.max_bytes())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.decide(batch)
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        Some(self.decide(batch))
    }

    fn admits(&self, algorithm: &Algorithm) -> Result<(), UnsupportedLimit> {
        let Some((needed, what)) = algorithm.largest_history() else {
            return Ok(());
        };
        let needed = Histories::largest(needed);
        match self.histories.max_bytes() {
            max if needed <= max => Ok(()),
            max => Err(UnsupportedLimit::new(format!(
                "the history of one bucket takes up to {needed} bytes, and the memory backend keeps at most {max} bytes \
                 of histories: raise `MemoryBackend::max_history_bytes`, or lower the {what}"
            ))),
        }
    }

    fn stats(&self) -> Stats {
        Stats {
            buckets: Some(self.buckets()),
            max_buckets: Some(self.max_buckets.saturating_add(self.histories.most())),
            evictions: Some(self.evictions()),
            ..Stats::default()
        }
    }
}

#[cfg(all(test, feature = "failure-policy"))]
mod tests {
    use super::*;
    use crate::{
        Limit,
        algorithm::Tat,
        transaction::{BucketKey, LimitKey, Member, Mode, Operation},
    };

    #[test]
    fn foreign_state_that_is_learned_neither_panics_at_the_cap_nor_keeps_newcomers_out() {
        let backend = MemoryBackend::with_max_buckets(2);
        let limit = Limit::per_second(1).burst(1);
        let now = Timestamp::from_micros(1_767_225_600_000_000);
        for (n, us) in [u64::MAX, 1 << 62, 1 << 58, 1 << 53, 5]
            .into_iter()
            .enumerate()
        {
            let id = n.to_string();
            let key = BucketKey::new(LimitKey::Number(1), &id);
            let member = Member::new(key, limit.algorithm().unwrap(), 1, Mode::CheckAndSpend);
            let tat = Tat { us, frac: u32::MAX };
            let state = |_| State::Gcra(tat);
            backend.change(&member.fingerprint, member.algorithm, now, state);
            let members = [member];
            let batch = Batch::new(Operation::Spend, &members).at(Some(now));
            let decided = backend.decide(&batch).unwrap();
            assert_eq!(decided.answers()[0].passed, us == 5, "{us}");
        }
        assert_eq!((backend.buckets(), backend.evictions()), (2, 3));
    }
}
