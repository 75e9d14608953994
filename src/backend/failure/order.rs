//! The order of the store's answers, for buckets whose state can go down.
//!
//! Charges only raise a state. So the answers to charges can be learnt in any order, because the highest one counts. A
//! refund or a reset lowers the state. Learnt after the answer to a later charge, it would hide that charge; and the
//! answer to an earlier charge, learnt after it, would take it back. So from the start of a refund or a reset until no
//! earlier answer can be on its way, the answers for its bucket are put in order by the time of the store.
//!
//! An answer is overtaken if a newer one was learnt first. Answers of the same microsecond count as in order, as do
//! answers that arrive more than a deadline after each other: the second call was begun after the first one had ended. So
//! a store whose clock steps back is misjudged for at most one deadline.

use std::{
    collections::HashMap,
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use ahash::RandomState;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::{
    clock::Timestamp,
    decision::State,
    transaction::{Batch, Fingerprint, Operation},
};

/// The number of shards, each with its own lock, and the number of buckets that fit into a shard. The answers for other
/// buckets are learnt as they arrive.
const SHARDS: usize = 16;
const ROOM: usize = 1024;

/// The longest that a bucket is watched after a refund, whatever the deadline.
const LONGEST: Duration = Duration::from_secs(10);

/// The pause between two times at which buckets are forgotten that are no longer watched.
const PAUSE: Duration = Duration::from_millis(100);

/// The buckets whose answers are put in order.
pub(super) struct Order {
    shards: [OrderShard; SHARDS],
}

#[derive(Default)]
struct OrderShard {
    /// The number of buckets, so that answers for others need no lock. A refund is counted before it is sent, and
    /// therefore before the answer to any decision that was made after it.
    len: AtomicUsize,
    watched: Mutex<WatchedBuckets>,
}

#[derive(Default)]
struct WatchedBuckets {
    buckets: HashMap<Fingerprint, WatchedBucket, RandomState>,
    /// The instant at which the buckets without a watcher are forgotten.
    forget_at: Option<Instant>,
}

/// The newest answers of a bucket.
pub(super) struct WatchedBucket {
    /// The number of refunds and resets that are under way.
    under_way: usize,
    /// The instant from which no earlier answer can be on its way, unless a refund or a reset is.
    until: Instant,
    /// How long an answer can be on its way.
    longest: Duration,
    newest: Option<LearntAnswer>,
    /// The newest refund or reset.
    lowered: Option<LearntAnswer>,
}

#[derive(Clone, Copy)]
struct LearntAnswer {
    /// The time of the store.
    at: Timestamp,
    arrived: Instant,
    /// The state, by the clock of this process.
    state: State,
}

impl Order {
    /// Watches the buckets of a refund or a reset, until the returned value is dropped, and then as long as an answer can
    /// be on its way.
    #[inline]
    pub(super) fn watch<'a>(
        &'a self,
        batch: &'a Batch<'a>,
        deadline: Duration,
    ) -> Option<Watching<'a>> {
        match batch.operation {
            Operation::Refund | Operation::Reset => Some(self.begin(batch, deadline)),
            _ => None,
        }
    }

    #[cold]
    fn begin<'a>(&'a self, batch: &'a Batch<'a>, deadline: Duration) -> Watching<'a> {
        let (now, longest) = (Instant::now(), deadline.min(LONGEST));
        for member in batch.members {
            let shard = self.shard(member.fingerprint);
            let mut watched = shard.lock();
            watched.forget(now);
            let buckets = &mut watched.buckets;
            if buckets.len() < ROOM || buckets.contains_key(&member.fingerprint) {
                let new = || WatchedBucket::new(now + longest, longest);
                let bucket = buckets.entry(member.fingerprint).or_insert_with(new);
                bucket.under_way += 1;
            }
            shard.len.store(buckets.len(), Ordering::Release);
        }
        Watching { order: self, batch }
    }

    fn end(&self, batch: &Batch<'_>) {
        let now = Instant::now();
        for member in batch.members {
            let mut watched = self.shard(member.fingerprint).lock();
            if let Some(bucket) = watched.buckets.get_mut(&member.fingerprint) {
                // A bucket for which there was no room when another refund began is not counted for it.
                bucket.under_way = bucket.under_way.saturating_sub(1);
                bucket.until = bucket.until.max(now + bucket.longest);
            }
        }
    }

    /// Passes a bucket that is watched to a function that learns an answer. No other answer for it is learnt meanwhile.
    #[inline]
    pub(super) fn with<T>(
        &self,
        bucket: Fingerprint,
        learn: impl FnOnce(Option<&mut WatchedBucket>) -> T,
    ) -> T {
        let shard = self.shard(bucket);
        if shard.len.load(Ordering::Acquire) == 0 {
            return learn(None);
        }
        let (mut watched, now) = (shard.lock(), Instant::now());
        watched.forget(now);
        shard.len.store(watched.buckets.len(), Ordering::Release);
        match watched.buckets.get_mut(&bucket) {
            Some(bucket) if !bucket.is_over(now) => learn(Some(bucket)),
            _ => {
                drop(watched);
                learn(None)
            }
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn shard(&self, bucket: Fingerprint) -> &OrderShard {
        &self.shards[bucket.high as usize % SHARDS]
    }
}

impl Default for Order {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| OrderShard::default()),
        }
    }
}

/// Prints no buckets, because there can be many.
impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Order").finish_non_exhaustive()
    }
}

impl OrderShard {
    fn lock(&self) -> MutexGuard<'_, WatchedBuckets> {
        self.watched.lock()
    }
}

impl WatchedBuckets {
    /// Forgets the buckets that are no longer watched, once in a while.
    fn forget(&mut self, now: Instant) {
        let forget_at = *self.forget_at.get_or_insert(now + PAUSE);
        if now >= forget_at || self.buckets.len() >= ROOM {
            self.buckets.retain(|_, bucket| !bucket.is_over(now));
            self.forget_at = None;
        }
    }
}

impl WatchedBucket {
    const fn new(until: Instant, longest: Duration) -> Self {
        Self {
            under_way: 0,
            until,
            longest,
            newest: None,
            lowered: None,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        self.under_way == 0 && self.until < now
    }

    /// Records the answer to a charge or a check. Returns false if a refund or a reset has overtaken it.
    pub(super) fn saw(&mut self, at: Timestamp, state: State) -> bool {
        let now = Instant::now();
        if self.overtakes(self.lowered, at, now).is_some() {
            return false;
        }
        self.record(at, state, now);
        true
    }

    /// Records the answer to a refund or a reset. Returns the newest state, if that has overtaken it.
    pub(super) fn lowered(&mut self, at: Timestamp, state: State) -> Option<State> {
        let now = Instant::now();
        let newer = self.overtakes(self.newest, at, now);
        if self.overtakes(self.lowered, at, now).is_none() {
            let arrived = now;
            self.lowered = Some(LearntAnswer { at, arrived, state });
        }
        self.record(at, state, now);
        newer.map(|newer| newer.state)
    }

    fn record(&mut self, at: Timestamp, state: State, arrived: Instant) {
        if self.overtakes(self.newest, at, arrived).is_none() {
            self.newest = Some(LearntAnswer { at, arrived, state });
        }
    }

    /// Returns `learnt` if it is newer than an answer that arrives now.
    fn overtakes(
        &self,
        learnt: Option<LearntAnswer>,
        at: Timestamp,
        now: Instant,
    ) -> Option<LearntAnswer> {
        learnt.filter(|learnt| at < learnt.at && now <= learnt.arrived + self.longest)
    }
}

/// A refund or a reset that is under way.
pub(super) struct Watching<'a> {
    order: &'a Order,
    batch: &'a Batch<'a>,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.order.end(self.batch);
    }
}
