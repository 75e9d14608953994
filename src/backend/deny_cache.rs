//! A wrapper that remembers the denials of its backend.

use std::{collections::HashMap, fmt, iter::zip, time::Duration};

use ahash::RandomState;
use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::{Backend, BackendError};
use crate::{
    algorithm::{Algorithm, Figures, Verb},
    batch::{Batch, Member},
    decision::{Answer, Outcome, Source},
    transaction::Operation,
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
/// A denial says when the request would pass. Only refunds, resets and shortened blocks can make that sooner. So the cache denies
/// requests of at least the same cost until then, for at most five seconds. Refunds, resets and blocks through this cache take
/// effect at once. Those of other processes, and refunds that the store makes after its caller has left, take effect within the
/// five seconds.
///
/// For a higher cost than the denied one, the wait is a lower bound. If one voting member of a batch is denied, the batch is
/// denied, and its other members have no figures. Denials of permits are never cached. Of tiers, only denials of a single unit are.
///
/// It remembers at most 65,536 buckets. It ignores decisions by another clock than the store's. Put it directly around the store,
/// inside a `FailurePolicy`.
pub struct DenyCache<B> {
    inner: B,
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

const SHARDS: usize = 256;
const DENIALS_PER_SHARD: usize = 256;

/// The longest time for which a denial is remembered. A client can be denied wrongly for as long.
const LIFETIME: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Shard {
    /// The denials by the fingerprints of their buckets.
    denials: HashMap<u64, CachedDenial, RandomState>,
    /// Counts the calls that may have given units back.
    given_back: u64,
}

struct CachedDenial {
    /// A hash of the limit, and of whether the request could wait in line.
    limit_hash: u64,
    cost: u32,
    figures: Figures,
    /// When the store was asked. The wait counts from then, so that the denial ends too early rather than too late.
    asked: Instant,
    until: Instant,
}

impl<B: Backend> DenyCache<B> {
    /// Remembers the denials of a store.
    #[must_use]
    pub fn new(inner: B) -> Self {
        Self {
            inner,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// Returns whether a batch is denied, and writes the answers for it.
    #[inline]
    fn denies(&self, batch: &Batch<'_>, answers: &mut [Answer]) -> bool {
        let now = Instant::now();
        for (member, answer) in zip(batch.members, &mut *answers) {
            *answer = Answer::default();
            if votes(batch, member) {
                answer.figures = self.denied(member, now);
            }
        }
        answers.iter().any(|answer| answer.figures.is_some())
    }

    /// Returns the figures of a member that is known to be denied.
    fn denied(&self, member: &Member<'_>, now: Instant) -> Option<Figures> {
        let shard = self.shard(member);
        let denial = shard.denials.get(&member.print.bucket)?;
        let passed = now.duration_since(denial.asked);
        let holds = now < denial.until
            && denial.cost <= member.ask.min_cost
            && denial.limit_hash == self.limit_hash(member);
        holds.then(|| Figures {
            next_after: denial.figures.next_after.minus(passed),
            more_after: denial.figures.more_after.minus(passed),
            reset_after: denial.figures.reset_after.minus(passed),
            ..denial.figures
        })
    }

    /// Remembers the denial of a member. The store was asked at `asked`, and `given_back` is the counter's value at that time.
    fn remember(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        answer: &Answer,
        (asked, given_back): (Instant, u64),
    ) {
        let lasts = match member.algorithm() {
            Algorithm::Concurrency(_) => false,
            // If not even one unit passes, no other request can enter the next tier and so make room for this one.
            Algorithm::Tiers(_) => member.ask.min_cost == 1,
            _ => true,
        };
        let is_new = !answer.passed && lasts && votes(batch, member);
        let Some(figures) = answer.figures.filter(|_| is_new) else {
            return;
        };
        let wait = figures.next_after.duration().unwrap_or(LIFETIME);
        let denial = CachedDenial {
            limit_hash: self.limit_hash(member),
            cost: member.ask.min_cost,
            figures,
            asked,
            until: asked + wait.min(LIFETIME),
        };
        let mut shard = self.shard(member);
        if shard.denials.len() >= DENIALS_PER_SHARD {
            shard.denials.retain(|_, old| asked < old.until);
        }
        if shard.given_back == given_back && shard.denials.len() < DENIALS_PER_SHARD {
            shard.denials.insert(member.print.bucket, denial);
        }
    }

    /// Forgets the denial of a bucket, and lets answers that are on their way add none.
    fn forget(&self, member: &Member<'_>) {
        let mut shard = self.shard(member);
        shard.given_back += 1;
        shard.denials.remove(&member.print.bucket);
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn shard(&self, member: &Member<'_>) -> MutexGuard<'_, Shard> {
        self.shards[member.print.bucket as usize % SHARDS].lock()
    }

    fn limit_hash(&self, member: &Member<'_>) -> u64 {
        let waits = member.ask.waits && member.algorithm().has_line();
        self.hasher.hash_one((member.algorithm(), waits))
    }
}

#[async_trait]
impl<B: Backend> Backend for DenyCache<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut denial = Outcome::unanswered(batch);
        if self.denies(batch, &mut denial.answers) {
            return Ok(denial.by(Source::Cache));
        }
        let asked = Instant::now();
        let members = batch.members.iter();
        let counts: SmallVec<[u64; 4]> = members
            .clone()
            .map(|member| self.shard(member).given_back)
            .collect();
        let may_be_split = batch.operation == Operation::Spend && batch.members.len() > 1;
        let mut given_back = DenialRemoval {
            cache: self,
            members: members
                .filter(|_| may_be_split || gives_back(batch))
                .collect(),
        };
        let outcome = self.inner.apply(batch).await?;
        if outcome.source == Source::Store {
            for ((member, count), answer) in zip(zip(batch.members, counts), &outcome.answers) {
                self.remember(batch, member, answer, (asked, count));
            }
        }
        if may_be_split {
            let answered = zip(batch.members, &outcome.answers);
            let passed = answered.filter(|(member, answer)| answer.passed || !batch.votes(member));
            given_back.members = passed.map(|(member, _)| member).collect();
            // The batch has passed as a whole.
            if given_back.members.len() == batch.members.len() {
                given_back.members.clear();
            }
        }
        Ok(outcome)
    }

    /// Does not remember denials: a store that answers at once is as fast as the cache.
    #[inline]
    fn try_apply(
        &self,
        batch: &Batch<'_>,
        answers: &mut [Answer],
    ) -> Option<Result<Source, BackendError>> {
        if self.denies(batch, answers) {
            return Some(Ok(Source::Cache));
        }
        let decided = self.inner.try_apply(batch, answers)?;
        if gives_back(batch) {
            batch.members.iter().for_each(|member| self.forget(member));
        }
        Some(decided)
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        Some(&self.inner)
    }
}

/// Returns whether denials of a member are remembered. It must be decided by the store's clock, because another clock can stand
/// still.
fn votes(batch: &Batch<'_>, member: &Member<'_>) -> bool {
    batch.votes(member) && batch.now.is_none()
}

/// Returns whether a batch can let a denied client pass earlier. A block can be replaced by a shorter one.
fn gives_back(batch: &Batch<'_>) -> bool {
    let sets_block = |member: &Member<'_>| {
        member.ask.verb == Verb::Debit && matches!(member.algorithm(), Algorithm::Block(_))
    };
    matches!(batch.operation, Operation::Refund | Operation::Reset)
        || batch.members.iter().any(sets_block)
}

/// The members of a call that may give units back. That is a refund, a reset or a block, or a batch that the store may decide in
/// parts. If the store denies such a batch, it first refunds the members that it has charged, and then answers.
///
/// Their denials are forgotten when the call ends. A client that was denied because of these units has asked before that. Either
/// its denial is cached by then, and is removed here, or its answer comes later, and is not cached because the counter has moved
/// since the question was sent.
struct DenialRemoval<'a, B: Backend> {
    cache: &'a DenyCache<B>,
    members: SmallVec<[&'a Member<'a>; 4]>,
}

impl<B: Backend> Drop for DenialRemoval<'_, B> {
    fn drop(&mut self) {
        for member in &self.members {
            self.cache.forget(member);
        }
    }
}

impl<B: fmt::Debug> fmt::Debug for DenyCache<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenyCache")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
