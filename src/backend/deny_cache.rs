//! A backend around another backend that remembers its denials.

mod denied_bucket;

use std::{
    fmt, iter,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use smallvec::SmallVec;

use self::denied_bucket::{DeniedBucket, DeniedBy};
use super::{Backend, BackendError, Begun, Deciding, LeaseTerms, NotAdmitted, Servers, Stats};
use crate::{
    clock::{Clock, SystemClock, Timestamp},
    decision::{Answer, Outcome, Source, State},
    transaction::{Algorithm, Batch, Fingerprint, LeaseShare, Member, Operation},
};

/// Caches denials, so that clients who keep retrying never reach the store.
///
/// ```
/// use tollgate::{MemoryBackend, backend::{Backend, DenyCache}};
///
/// // In practice, `store` is a `RedisBackend`.
/// fn cached(store: impl Backend) -> impl Backend {
///     DenyCache::new(store)
/// }
/// # let _ = cached(MemoryBackend::new());
/// ```
///
/// Apart from refunds and resets, the theoretical arrival time of a bucket only grows. A denied client therefore
/// stays denied until a known time, and the store need not be asked before. Each cost is judged under the current
/// limit. The known time is counted from the moment at which the store was asked, so the store may be asked a little
/// too early, but a client is never denied for too long.
///
/// Nobody is denied wrongly, except after a refund, a reset, a failover or a flush of the store by **another
/// process**, and then for no longer than the [lifetime](Self::lifetime). Refunds and resets through this cache take
/// effect at once.
///
/// For a bucket with a [window](crate::window), it remembers the denied cost and when that cost would pass. Until then,
/// the same or a higher cost is denied. A charge or refund through this cache removes the entry. For a
/// [quota](crate::quota), it remembers the amount used until the period ends.
///
/// For a bucket with [tiers](crate::tiers), it remembers the smallest denied cost and when that would be granted.
/// Until then, the same or a higher cost is denied. A grant through this cache removes the entry. A grant to another
/// process, for a smaller request, can enter a tier that opens earlier, so a request for more than one unit may then
/// be denied wrongly, for no longer than the lifetime.
///
/// A batch is denied if any voting member is known to be denied. Its wait is then a lower bound: the other members
/// are not decided, and have no figures.
///
/// It never waits, and allocates nothing for up to four members. Put it directly around the store, inside a
/// `FailurePolicy`.
pub struct DenyCache<B> {
    inner: B,
    clock: SystemClock,
    sets: Box<[Mutex<Set>]>,
    /// For each set, a byte of the fingerprint of each entry, or 0 if there is none. Almost all buckets are not there, which
    /// these words show without touching the much larger sets. They change under the lock of their set.
    tags: Box<[AtomicU64]>,
    /// Counters that each refund or reset increments. An answer is only remembered if its counter has not changed since
    /// the question.
    epochs: Box<[AtomicU32]>,
    lifetime: Duration,
}

/// The entries that can hold the same bucket.
type Set = [DeniedBucket; WAYS];

/// The number of entries in a set, one for each byte of its tags.
const WAYS: usize = 8;

/// Large enough that a refund of one bucket rarely prevents others from being remembered.
const EPOCHS: usize = 1024;

/// The instant at which a batch was sent.
struct Sent {
    now: Timestamp,
    epochs: SmallVec<[u32; 4]>,
}

impl<B: Backend> DenyCache<B> {
    /// The default of [`with_capacity`](Self::with_capacity).
    pub const DEFAULT_CAPACITY: usize = 65_536;

    /// The most buckets that a cache holds, which take 126 MB. It allocates all of them at once.
    pub const MAX_CAPACITY: usize = 1 << 20;

    /// The default of [`lifetime`](Self::lifetime).
    pub const DEFAULT_LIFETIME: Duration = Duration::from_secs(5);

    /// Creates a cache of [`DEFAULT_CAPACITY`](Self::DEFAULT_CAPACITY) buckets.
    #[must_use]
    pub fn new(inner: B) -> Self {
        Self::with_capacity(inner, Self::DEFAULT_CAPACITY)
    }

    /// Creates a cache of about `buckets` buckets, at 120 bytes each. When it is full, the entries that expire
    /// soonest are replaced.
    ///
    /// The number is rounded up to a multiple of 8, and is at least 8, also for 0, and at most
    /// [`MAX_CAPACITY`](Self::MAX_CAPACITY). For no cache, leave the `DenyCache` out.
    #[must_use]
    pub fn with_capacity(inner: B, buckets: usize) -> Self {
        let sets = buckets.clamp(1, Self::MAX_CAPACITY).div_ceil(WAYS);
        Self {
            inner,
            clock: SystemClock::new(),
            sets: (0..sets)
                .map(|_| Mutex::new([const { DeniedBucket::NOBODY }; WAYS]))
                .collect(),
            tags: (0..sets).map(|_| AtomicU64::new(0)).collect(),
            epochs: (0..EPOCHS).map(|_| AtomicU32::new(0)).collect(),
            lifetime: Self::DEFAULT_LIFETIME,
        }
    }

    /// Sets how long a denial is remembered at most, which bounds how long a client can be denied wrongly.
    #[must_use]
    pub fn lifetime(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// The wrapped backend.
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// Returns the denial of a batch, if a voting member is known to be denied.
    fn denial(&self, batch: &Batch<'_>, ours: Timestamp) -> Option<Outcome> {
        let known = |member: &Member<'_>| match member.mode.votes() {
            true => self.known(batch, member, ours),
            false => None,
        };
        let mut members = batch.members.iter().enumerate();
        // Almost always, nothing is known, and there is no answer to build.
        let (first, state) = members.find_map(|(place, member)| Some((place, known(member)?)))?;
        let denied = |state| Answer::new(state, false);
        let before = iter::repeat_n(Answer::UNKNOWN, first);
        let others = members.map(|(_, member)| known(member).map_or(Answer::UNKNOWN, denied));
        let answers = before.chain([denied(state)]).chain(others);
        Some(Outcome::new(batch.now.unwrap_or(ours), answers).by(Source::Cache))
    }

    /// Returns the state of a member's bucket, if it is known to deny the member.
    fn known(&self, batch: &Batch<'_>, member: &Member<'_>, ours: Timestamp) -> Option<State> {
        let print = member.fingerprint;
        if !has_tag(self.tags_of(&print).load(Ordering::Relaxed), tag(&print)) {
            return None;
        }
        let set = self.lock(&print);
        let entry = set.iter().find(|entry| entry.print == print)?;
        let holds = entry.until > ours && entry.is_clients == batch.now.is_some();
        entry
            .denial(member, batch.now.unwrap_or(ours))
            .filter(|_| holds)
    }

    fn sent(&self, batch: &Batch<'_>, now: Timestamp) -> Sent {
        let prints = batch.members.iter().map(|member| member.fingerprint);
        Sent {
            now,
            epochs: prints
                .map(|print| self.epoch(&print).load(Ordering::Acquire))
                .collect(),
        }
    }

    /// Remembers the members that are denied.
    fn remember(&self, batch: &Batch<'_>, outcome: &Outcome, sent: &Sent) {
        let members = batch
            .members
            .iter()
            .zip(outcome.answers())
            .zip(&sent.epochs);
        for ((member, answer), epoch) in members {
            if !answer.known {
                continue;
            }
            if answer.passed {
                // A grant can enter a tier, which opens the next one. After a grant from a window, less is left than an
                // entry would say.
                let has_figures =
                    matches!(member.algorithm, Algorithm::Tiers(_) | Algorithm::Window(_));
                if has_figures && member.mode.spends() {
                    self.forget_one(member);
                }
            } else if member.mode.votes() {
                let at = batch.now.unwrap_or(sent.now);
                let entry = DeniedBucket {
                    print: member.fingerprint,
                    state: answer.state.by_clock(outcome.now, at),
                    at,
                    least: member.min_cost,
                    by: DeniedBy::new(member.algorithm),
                    until: self.until(member, answer.state, outcome.now, sent.now),
                    is_clients: batch.now.is_some(),
                };
                let mut set = self.lock(&entry.print);
                if self.epoch(&entry.print).load(Ordering::Acquire) == *epoch {
                    self.put(&mut set, entry);
                }
            }
        }
    }

    /// Returns the time until which a denial is remembered, by our clock. For a quota, it is the end of the period: as
    /// long after sending as the rest of the period by the store's clock.
    fn until(
        &self,
        member: &Member<'_>,
        state: State,
        now: Timestamp,
        sent: Timestamp,
    ) -> Timestamp {
        let lifetime = after(self.clock.now(), self.lifetime);
        match (member.algorithm, state) {
            (Algorithm::Quota(quota), State::Quota(usage)) => {
                let rest = quota.wait(usage, now.as_micros(), member.cost);
                let rest = sent.as_micros().saturating_add(rest);
                lifetime.min(Timestamp::from_micros(rest))
            }
            _ => lifetime,
        }
    }

    fn forget(&self, batch: &Batch<'_>) {
        for member in batch.members {
            self.forget_one(member);
        }
    }

    fn forget_one(&self, member: &Member<'_>) {
        let print = member.fingerprint;
        let mut set = self.lock(&print);
        self.epoch(&print).fetch_add(1, Ordering::AcqRel);
        if let Some(place) = set.iter().position(|entry| entry.print == print) {
            self.set(&mut set, place, &print, DeniedBucket::NOBODY);
        }
    }

    /// Replaces the entry of the same bucket, or else the one that expires first.
    fn put(&self, set: &mut Set, entry: DeniedBucket) {
        let print = entry.print;
        let same = set.iter().position(|old| old.print == print);
        let place = same.unwrap_or_else(|| {
            let soonest = set.iter().enumerate().min_by_key(|(_, old)| old.until);
            soonest.map_or(0, |(place, _)| place)
        });
        self.set(set, place, &print, entry);
    }

    /// Changes an entry in the set of a fingerprint.
    fn set(&self, set: &mut Set, place: usize, print: &Fingerprint, entry: DeniedBucket) {
        let tags = self.tags_of(print);
        let mut bytes = tags.load(Ordering::Relaxed).to_le_bytes();
        bytes[place] = match entry.print == *print {
            true => tag(print),
            false => 0,
        };
        tags.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        set[place] = entry;
    }

    fn lock(&self, print: &Fingerprint) -> std::sync::MutexGuard<'_, Set> {
        let set = &self.sets[self.place(print)];
        set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tags_of(&self, print: &Fingerprint) -> &AtomicU64 {
        &self.tags[self.place(print)]
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn place(&self, print: &Fingerprint) -> usize {
        print.low as usize % self.sets.len()
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn epoch(&self, print: &Fingerprint) -> &AtomicU32 {
        &self.epochs[print.high as usize % EPOCHS]
    }
}

/// Returns the byte that represents a fingerprint in its set.
const fn tag(print: &Fingerprint) -> u8 {
    match print.high.to_le_bytes()[7] {
        0 => 1,
        tag => tag,
    }
}

fn has_tag(tags: u64, tag: u8) -> bool {
    tags.to_le_bytes().contains(&tag)
}

fn after(now: Timestamp, duration: Duration) -> Timestamp {
    let duration = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_add(duration))
}

/// Forgets a batch's buckets when it is dropped: after an answer, or after the caller has left.
struct Forget<'a, B: Backend>(&'a DenyCache<B>, &'a Batch<'a>);

impl<B: Backend> Drop for Forget<'_, B> {
    fn drop(&mut self) {
        self.0.forget(self.1);
    }
}

#[async_trait]
impl<B: Backend> Backend for DenyCache<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.begin_unboxed(batch, None).decided().await
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        match batch.operation {
            Operation::Check | Operation::Spend => match self.denial(batch, self.clock.now()) {
                Some(denial) => Some(Ok(denial)),
                // A backend that answers immediately needs no cache, so its answers are not remembered.
                None => self.inner.try_apply(batch),
            },
            Operation::Refund | Operation::Reset => {
                let answer = self.inner.try_apply(batch)?;
                self.forget(batch);
                Some(answer)
            }
        }
    }

    fn begin<'a>(&'a self, batch: &'a Batch<'a>) -> Begun<Deciding<'a>> {
        self.begin_unboxed(batch, None).boxed()
    }

    fn begin_unboxed<'a>(
        &'a self,
        batch: &'a Batch<'a>,
        deadline: Option<Duration>,
    ) -> Begun<impl Future<Output = Result<Outcome, BackendError>> + Send + 'a> {
        let (mut sent, mut forget) = (None, None);
        if matches!(batch.operation, Operation::Refund | Operation::Reset) {
            self.forget(batch);
            forget = Some(Forget(self, batch));
        } else {
            let now = self.clock.now();
            if let Some(denial) = self.denial(batch, now) {
                return Begun::Decided(Ok(denial));
            }
            sent = Some(self.sent(batch, now));
        }
        // A backend that answers immediately needs no cache, so its answers are not remembered.
        let begun = self.inner.begin_unboxed(batch, deadline);
        begun.then(move |decided| {
            drop(forget);
            if let (Ok(outcome), Some(sent)) = (decided, sent) {
                self.remember(batch, outcome, &sent);
            }
        })
    }

    fn admits(&self, algorithm: &Algorithm) -> Result<(), NotAdmitted> {
        self.inner.admits(algorithm)
    }

    fn lease(
        &self,
        algorithm: &Algorithm,
        share: LeaseShare,
    ) -> Result<Option<LeaseTerms>, NotAdmitted> {
        self.inner.lease(algorithm, share)
    }

    async fn close(&self) -> Result<(), BackendError> {
        self.inner.close().await
    }

    fn servers(&self) -> Option<&dyn Servers> {
        self.inner.servers()
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

impl<B: fmt::Debug> fmt::Debug for DenyCache<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCache")
            .field("inner", &self.inner)
            .field("lifetime", &self.lifetime)
            .finish_non_exhaustive()
    }
}
