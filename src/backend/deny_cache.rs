//! A backend around another backend that remembers its denials.

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
/// Apart from refunds, resets and shortened blocks, nothing lets a denied request pass before the store said so. So the cache
/// denies requests of at least the same cost until then, for at most five seconds. Refunds, resets and blocks through this cache
/// take effect at once, and those of other processes within these five seconds. The same holds for what the store gives back
/// after its caller has left.
///
/// The wait of a higher cost than the one that was denied is a lower bound. A batch is denied if one of its voting members is,
/// and the others have no figures then. Permits are never cached, and of tiers only denials of a single unit.
///
/// It remembers 65,536 buckets, and nothing that is decided by another clock than the store's. Put it directly around the store, inside a `FailurePolicy`.
pub struct DenyCache<B> {
    inner: B,
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
}

const SHARDS: usize = 256;
const DENIALS_PER_SHARD: usize = 256;

/// The longest time for which a denial is remembered, and so for which a client can be denied wrongly.
const LIFETIME: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Shard {
    /// By the fingerprint of the bucket.
    denials: HashMap<u64, CachedDenial, RandomState>,
    /// How often units may have been given back.
    given_back: u64,
}

struct CachedDenial {
    /// A hash of the limit, and of whether the request could wait in line.
    terms: u64,
    cost: u32,
    figures: Figures,
    /// When the store was asked, so that the denial ends too early rather than too late.
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
            && denial.terms == self.terms(member);
        holds.then(|| Figures {
            next_after: denial.figures.next_after.minus(passed),
            more_after: denial.figures.more_after.minus(passed),
            reset_after: denial.figures.reset_after.minus(passed),
            ..denial.figures
        })
    }

    /// Remembers a denial of a member that the store was asked for at this time, when so much had been given back.
    fn remember(
        &self,
        batch: &Batch<'_>,
        member: &Member<'_>,
        answer: &Answer,
        (asked, given_back): (Instant, u64),
    ) {
        let lasts = match member.algorithm() {
            Algorithm::Concurrency(_) => false,
            // If not even one unit is left, nobody can enter the next tier.
            Algorithm::Tiers(_) => member.ask.min_cost == 1,
            _ => true,
        };
        let is_new = !answer.passed && lasts && votes(batch, member);
        let Some(figures) = answer.figures.filter(|_| is_new) else {
            return;
        };
        let wait = figures.next_after.duration().unwrap_or(LIFETIME);
        let denial = CachedDenial {
            terms: self.terms(member),
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

    /// Forgets the denials of a bucket, and those that are under way.
    fn forget(&self, member: &Member<'_>) {
        let mut shard = self.shard(member);
        shard.given_back += 1;
        shard.denials.remove(&member.print.bucket);
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn shard(&self, member: &Member<'_>) -> MutexGuard<'_, Shard> {
        self.shards[member.print.bucket as usize % SHARDS].lock()
    }

    fn terms(&self, member: &Member<'_>) -> u64 {
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
        let mut given_back = GivenBack {
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

    /// A store that answers at once is not slower than the cache, so its denials are not remembered.
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

/// Returns whether a member is one whose denials are remembered: by the store's clock, because another one can stand still.
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

/// The members of a call that may give units back: of a refund, a reset or a block, and of a batch that the store may decide in
/// parts. If it denies such a batch, it gives back what it has charged to the members that passed, and then answers.
///
/// Their denials are forgotten when the call ends. Whoever was denied because of these units has asked before that. The denial is
/// known by then and removed here, or its answer comes later and finds that the counter has moved since it was sent.
struct GivenBack<'a, B: Backend> {
    cache: &'a DenyCache<B>,
    members: SmallVec<[&'a Member<'a>; 4]>,
}

impl<B: Backend> Drop for GivenBack<'_, B> {
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
