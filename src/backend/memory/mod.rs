//! Buckets in this process: exact, bounded, and never swept.

mod bucket;
pub(super) mod fingerprint;
mod histories;
mod shard;
mod table;

use self::{
    fingerprint::{Fingerprint, Fingerprints},
    shard::Shards,
};
use super::{Backend, BackendError, Stats};
#[cfg(feature = "failure-policy")]
use crate::gcra::Tat;
use crate::{
    clock::{Clock, SystemClock, Timestamp},
    decision::{Answer, Outcome, Seen, State, judge_gcra},
    gcra::Gcra,
    tiers::Tiers,
    transaction::{Algorithm, Batch, Member, Operation},
};
use async_trait::async_trait;
use smallvec::SmallVec;

/// Keeps buckets in this process's memory.
///
/// - A batch locks the shards of its buckets, always in the same order, for the time of one
///   decision; it waits for nothing else, needs no runtime, and allocates nothing for up to four
///   buckets.
/// - A bucket takes 24 bytes in a table that is at least half full while it grows, whatever the
///   length of its id: of a key, only 96 bits of a keyed hash are stored (its other bits choose the
///   shard), seeded anew in each backend, so that no client can aim at another's bucket. Memory is
///   not given back after a peak.
/// - There are at most [`max_buckets`](Self::with_max_buckets) buckets. A bucket that is full again
///   is as good as a free place and is taken by the next one that needs it. Nothing runs in the
///   background and nothing needs to be called.
/// - At the cap, the bucket nearest to full of a random sample goes, so that newcomers always get
///   in. A client that is being throttled outlives a flood of ids that have spent less of their own
///   burst than it has; a flood of ids that each spend all of theirs, as with a burst of 1, frees
///   those that have waited longer once it has filled the cap. Size the cap for that, or add a rule
///   by [`Ipv6Range`](crate::key::Ipv6Range) or [`Everyone`](crate::key::Everyone).
/// - A bucket with [tiers](crate::tiers) is kept apart, and counts against the cap as so many buckets as its bytes are
///   worth, at 32 bytes each. It is forgotten when nothing depends on it any more; at the cap, that of a sample which
///   would be forgotten soonest goes. Neither kind can take more than half of the cap from the other.
/// - Each shard grows on its own, by a quarter, so no request waits for a large table to be copied.
///
/// A limiter without a backend of its own process to share with others needs nothing more. To share
/// one backend between limiters, wrap it in an [`Arc`](std::sync::Arc).
#[derive(Debug)]
pub struct MemoryBackend {
    fingerprints: Fingerprints,
    shards: Shards,
    clock: SystemClock,
    #[cfg(feature = "failure-policy")]
    max_buckets: usize,
}

impl MemoryBackend {
    /// The default of [`with_max_buckets`](Self::with_max_buckets).
    pub const DEFAULT_MAX_BUCKETS: usize = 1_000_000;

    /// A backend for at most [`DEFAULT_MAX_BUCKETS`](Self::DEFAULT_MAX_BUCKETS) buckets.
    #[must_use]
    pub fn new() -> Self {
        Self::with_max_buckets(Self::DEFAULT_MAX_BUCKETS)
    }

    /// A backend for at most `max_buckets` buckets, at 30 to 40 bytes each when they are there.
    ///
    /// The cap is shared out evenly over shards, so that eviction begins a few per cent before it is
    /// reached.
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
        Self {
            fingerprints: Fingerprints::new(),
            shards: Shards::new(max_buckets),
            clock: SystemClock::new(),
            #[cfg(feature = "failure-policy")]
            max_buckets,
        }
    }

    /// How many buckets are held, among them such that are full again but not yet replaced.
    ///
    /// Takes each shard's lock in turn: meant for a gauge, not for each request.
    #[must_use]
    pub fn buckets(&self) -> usize {
        self.shards.buckets()
    }

    /// How many buckets were forgotten for want of room, since the start. Takes the locks as
    /// [`buckets`](Self::buckets) does.
    #[must_use]
    pub fn evictions(&self) -> u64 {
        self.shards.evictions()
    }

    /// Changes a bucket without tiers in one step, and returns its TAT before and after.
    #[cfg(feature = "failure-policy")]
    pub(super) fn change(
        &self,
        member: &Member<'_>,
        now: Timestamp,
        change: impl FnOnce(Tat) -> Tat,
    ) -> (Tat, Tat) {
        let print = self.fingerprints.of(&member.key);
        let mut buckets = self.shards.lock(&print);
        let place = buckets.table.find(&print);
        let before = buckets.table.tat(place);
        let after = change(before);
        if after != before {
            buckets.store(place, &print, member, State::Gcra(after), now);
        }
        (before, after)
    }

    /// Takes over what another backend has granted from a bucket with tiers, or that it was reset.
    #[cfg(feature = "failure-policy")]
    pub(super) fn learn_tiers(
        &self,
        operation: Operation,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        let print = self.fingerprints.of(&member.key);
        let mut buckets = self.shards.lock(&print);
        buckets.update(operation, &print, member, answer, now);
    }

    /// How many buckets it may hold.
    #[cfg(feature = "failure-policy")]
    pub(super) fn max_buckets(&self) -> usize {
        self.max_buckets
    }

    /// What time it is for this backend.
    #[cfg(feature = "failure-policy")]
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    #[inline]
    pub(super) fn decide(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let now = batch.now.unwrap_or_else(|| self.clock.now());
        now.validate()?;
        Ok(match batch.members {
            [member] if batch.operation != Operation::Reset => match member.algorithm {
                Algorithm::Gcra(gcra) => {
                    Outcome::of_one(now, self.decide_gcra(batch.operation, member, gcra, now))
                }
                Algorithm::Tiers(tiers) => {
                    Outcome::of_one(now, self.decide_tiers(batch.operation, member, tiers, now))
                }
            },
            _ => self.decide_all(batch, now),
        })
    }

    /// What [`decide_all`](Self::decide_all) does, for one bucket without tiers, in a third of the time.
    #[inline(always)]
    fn decide_gcra(
        &self,
        operation: Operation,
        member: &Member<'_>,
        gcra: &Gcra,
        now: Timestamp,
    ) -> Answer {
        let print = self.fingerprints.of(&member.key);
        let mut buckets = self.shards.lock(&print);
        let place = buckets.table.find(&print);
        let stored = buckets.table.tat(place);
        let answer = judge_gcra(
            Batch::new(operation, &[]).action(member),
            member,
            gcra,
            stored,
            now,
        );
        if answer.state != State::Gcra(stored) {
            buckets.store(place, &print, member, answer.state, now);
        }
        answer
    }

    /// The same for one bucket with tiers.
    #[inline(never)]
    fn decide_tiers(
        &self,
        operation: Operation,
        member: &Member<'_>,
        tiers: &Tiers,
        now: Timestamp,
    ) -> Answer {
        let print = self.fingerprints.of(&member.key);
        let mut buckets = self.shards.lock(&print);
        buckets.decide_tiers(operation, &print, member, tiers, now)
    }

    #[inline(never)]
    fn decide_all(&self, batch: &Batch<'_>, now: Timestamp) -> Outcome {
        let prints: SmallVec<[Fingerprint; 4]> = batch
            .members
            .iter()
            .map(|member| self.fingerprints.of(&member.key))
            .collect();
        let mut shards = self.shards.lock_all(&prints);
        let outcome = {
            let members = batch.members.iter().zip(&prints);
            let seen: SmallVec<[Seen<'_>; 4]> = members
                .map(|(member, print)| shards.of(print).see(print, member, now))
                .collect();
            Outcome::judge(batch, now, &seen)
        };
        let members = batch.members.iter().zip(outcome.answers());
        for ((member, answer), print) in members.zip(&prints) {
            shards
                .of_mut(print)
                .update(batch.operation, print, member, answer, now);
        }
        outcome
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
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

    fn stats(&self) -> Stats {
        Stats {
            buckets: Some(self.buckets()),
            evictions: Some(self.evictions()),
            ..Stats::default()
        }
    }
}
