//! A backend around another backend that remembers its denials.

mod denied_bucket;
mod denied_buckets;
mod give_backs;

use std::{fmt, iter, time::Duration};

use async_trait::async_trait;
use smallvec::SmallVec;

use self::{
    denied_bucket::DeniedBucket,
    denied_buckets::DeniedBuckets,
    give_backs::{is_charged_first, may_give_back},
};
use super::{Backend, BackendError, Deciding, MaybeReady, StackPart, Wrapper};
use crate::{
    clock::{Clock, SystemClock, Timestamp},
    decision::{Answer, Outcome, Source, State},
    transaction::{Batch, Member, Operation},
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
/// effect at once, and so do the refunds of a store that decides the buckets of a batch one after the other, such as a
/// Redis Cluster. If their outcome is unknown, because the caller left or the store did not answer, the denials of these
/// buckets are not remembered for ten seconds.
///
/// For a bucket with a [window](crate::window), it remembers the denied cost and when that cost would pass. Until then,
/// the same cost is denied. The store is asked about any other cost, unless the wait is known to be the same. A charge or
/// refund through this cache removes the entry. For a [quota](crate::quota), it remembers the amount used until the
/// period ends.
///
/// For a bucket with [tiers](crate::tiers), it remembers the denied minimum cost and when that would be granted. Until
/// then, the same minimum is denied. A grant through this cache removes the entry. A grant to another process, for a
/// smaller request, can enter a tier that opens earlier, so a request for more than one unit may then be denied wrongly,
/// for no longer than the lifetime.
///
/// A batch is denied if any voting member is known to be denied. Its wait is then a lower bound: the other members
/// are not decided, and have no figures.
///
/// It never waits, and allocates nothing for up to four members. Put it directly around the store, inside a
/// `FailurePolicy`.
pub struct DenyCache<B> {
    inner: B,
    clock: SystemClock,
    denied: DeniedBuckets,
    lifetime: Duration,
}

/// The instant at which a batch was sent, and the give-backs before it for each member.
struct Sent {
    now: Timestamp,
    given_back: SmallVec<[u32; 4]>,
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
        let buckets = buckets.clamp(1, Self::MAX_CAPACITY);
        Self {
            inner,
            clock: SystemClock::new(),
            denied: DeniedBuckets::with_capacity(buckets),
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
        let is_clients = batch.now.is_some();
        self.denied.find(&member.fingerprint, |entry| {
            let holds = entry.until > ours && entry.is_clients == is_clients;
            let now = batch.now.unwrap_or(ours);
            let denial = || entry.denial(member.algorithm, &batch.ask(member), now);
            holds.then(denial).flatten()
        })
    }

    fn sent(&self, batch: &Batch<'_>, now: Timestamp) -> Sent {
        let prints = batch.members.iter().map(|member| member.fingerprint);
        Sent {
            now,
            given_back: prints.map(|print| self.denied.given_back(&print)).collect(),
        }
    }

    /// Remembers the members that are denied.
    fn remember(&self, batch: &Batch<'_>, outcome: &Outcome, sent: &Sent) {
        let gives_back = may_give_back(batch) && !outcome.passes(batch);
        let members = batch.members.iter().zip(outcome.answers());
        for ((member, answer), given_back) in members.zip(&sent.given_back) {
            let mut given_back = *given_back;
            if gives_back && is_charged_first(member) {
                // The store may have charged this member and refunded it. What it told others in between is outdated.
                let before = self.denied.forget(&member.fingerprint);
                given_back = given_back.wrapping_add(u32::from(before == given_back));
            }
            if !answer.known {
                continue;
            }
            if answer.passed {
                if self.is_outdated_by(batch, member, answer, outcome.now) {
                    self.denied.forget(&member.fingerprint);
                }
            } else if member.mode.votes()
                && let Some(entry) = self.entry(batch, member, answer, outcome.now, sent.now)
            {
                self.denied.put(entry, given_back, sent.now);
            }
        }
    }

    /// Returns whether a remembered denial no longer holds, because the store has let this member pass. That is so if the
    /// entry denies what has passed or what the bucket has left: a refund whose answer is not here yet has taken effect.
    fn is_outdated_by(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        answer: &Answer,
        decided: Timestamp,
    ) -> bool {
        if member.algorithm.grants_outdate_denials() {
            return member.mode.spends();
        }
        if !member.mode.votes() {
            return false;
        }
        let ours = self.clock.now();
        let at = batch.now.unwrap_or(ours);
        let state = answer.state.by_clock(decided, at);
        let cost = member.algorithm.left(state, at).max(member.cost);
        self.known(batch, &Member { cost, ..*member }, ours)
            .is_some()
    }

    /// Returns the entry of a denied member. It lasts until its lifetime is over, or the denial itself: as long after
    /// `sent`, by our clock, as by the store's clock after its decision.
    fn entry(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        answer: &Answer,
        decided: Timestamp,
        sent: Timestamp,
    ) -> Option<DeniedBucket> {
        let (algorithm, ask) = (member.algorithm, batch.ask(member));
        let at = batch.now.unwrap_or(sent);
        let denied = algorithm.denied(answer.state.by_clock(decided, at), &ask, at)?;
        let rest = algorithm.denied_for(answer.state, decided, member.cost);
        let rest = Timestamp::from_micros(sent.as_micros().saturating_add(rest));
        Some(DeniedBucket {
            print: member.fingerprint,
            denied: Some(denied),
            until: after(self.clock.now(), self.lifetime).min(rest),
            is_clients: batch.now.is_some(),
        })
    }

    fn forget(&self, batch: &Batch<'_>) {
        for member in batch.members {
            self.denied.forget(&member.fingerprint);
        }
    }

    /// Forgets the denials of a batch's buckets, and remembers none of them for a while, because the store may give them
    /// something back later.
    #[cold]
    fn leave_unsettled(&self, batch: &Batch<'_>) {
        let now = self.clock.now();
        for member in batch.members {
            self.denied.leave_unsettled(&member.fingerprint, now);
        }
    }
}

fn after(now: Timestamp, duration: Duration) -> Timestamp {
    let duration = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_add(duration))
}

/// A batch that gives something back, or may do so. If its outcome stays unknown, its buckets are left unsettled.
struct GivingBack<'a, B: Backend> {
    cache: &'a DenyCache<B>,
    batch: &'a Batch<'a>,
    is_settled: bool,
}

impl<'a, B: Backend> GivingBack<'a, B> {
    fn of(cache: &'a DenyCache<B>, batch: &'a Batch<'a>) -> Option<Self> {
        let gives = match batch.operation {
            Operation::Refund | Operation::Reset => true,
            Operation::Check | Operation::Spend => may_give_back(batch),
            Operation::Renew => false,
        };
        // Not `then_some`: its value would be dropped, which leaves the buckets unsettled.
        gives.then(|| Self {
            cache,
            batch,
            is_settled: false,
        })
    }

    fn ended(mut self, decided: &Result<Outcome, BackendError>) {
        self.is_settled = decided.is_ok();
    }
}

impl<B: Backend> Drop for GivingBack<'_, B> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.cache.leave_unsettled(self.batch);
        }
    }
}

#[async_trait]
impl<B: Backend> Backend for DenyCache<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.ask(batch, None).decided().await
    }

    fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
        self.ask(batch, None).ready()
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        Some(&self.inner)
    }

    fn ask<'a>(
        &'a self,
        batch: &'a Batch<'a>,
        deadline: Option<Duration>,
    ) -> MaybeReady<impl Future<Output = Result<Outcome, BackendError>> + Send + 'a> {
        let sent = match batch.operation {
            Operation::Refund | Operation::Reset => None,
            Operation::Check | Operation::Spend | Operation::Renew => {
                let now = self.clock.now();
                if let Some(denial) = self.denial(batch, now) {
                    return MaybeReady::Ready(Ok(denial));
                }
                Some(self.sent(batch, now))
            }
        };
        let asked = self.inner.ask(batch, deadline);
        // A backend that answers immediately needs no cache, so its answers are not remembered.
        if sent.is_none() && matches!(asked, MaybeReady::Ready(_)) {
            self.forget(batch);
        }
        asked.map_in_place(move || {
            if sent.is_none() {
                self.forget(batch);
            }
            let gives = GivingBack::of(self, batch);
            move |decided: &mut Result<Outcome, BackendError>| {
                if let Some(gives) = gives {
                    gives.ended(decided);
                }
                match (decided, sent) {
                    (Ok(outcome), Some(sent)) => self.remember(batch, outcome, &sent),
                    (Ok(_), None) => self.forget(batch),
                    (Err(_), _) => {}
                }
            }
        })
    }

    fn as_stack_part(&self) -> Option<StackPart<'_>> {
        Some(StackPart(self))
    }
}

impl<B: Backend> Wrapper for DenyCache<B> {
    fn ask_boxed<'a>(&'a self, batch: &'a Batch<'a>) -> MaybeReady<Deciding<'a>> {
        self.ask(batch, None).boxed()
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
