//! The units of all buckets that a process holds.

use std::{
    fmt, mem,
    sync::atomic::{AtomicBool, Ordering},
};

use ahash::RandomState;
use indexmap::IndexMap;
use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified};

use super::{
    bucket::{LeaseAnswer, LeasedBucket, Return},
    leased_member::{DecisionTime, LeasedMember},
    leased_units::{Holding, LeasedUnits},
};
use crate::{
    algorithm::Algorithm,
    backend::sharded::Sharded,
    clock::Timestamp,
    decision::State,
    transaction::{Fingerprint, Member},
};

/// The number of buckets that fit into a shard.
const ROOM: usize = 256;

/// The number of places that are searched to make room for another bucket.
const LOOKS: usize = 8;

type PoolShard = IndexMap<Fingerprint, LeasedBucket, RandomState>;

/// The buckets of a process, in shards that are locked one at a time.
///
/// - Each charge, loan and return belongs to one value: a [`ChargeAhead`](super::charge::ChargeAhead), a batch that is being
///   decided, or an [`UnsettledReturn`](super::returns). That value ends it by [`end`](Self::end) when it is dropped, and
///   exactly once.
/// - A bucket with a charge, a loan or a return is not removed. So each of them ends at the bucket at which it began.
/// - `is_closed` is set once, before [`close`](Self::close) locks the first shard. So a thread that locks a shard after
///   `close` sees that it is set: it adds no bucket, begins nothing, and gives up what ends.
#[derive(Default)]
pub(super) struct Pool {
    shards: Sharded<PoolShard>,
    /// Units to give back that no bucket holds any more.
    returns: Mutex<Vec<Return>>,
    is_closed: AtomicBool,
    /// Wakes the caller that closes, when a charge, a loan or a return has ended.
    ended: Notify,
}

impl Pool {
    /// Takes a member's cost from the held units, or returns where to get it.
    pub(super) fn attempt(&self, when: DecisionTime, leased: LeasedMember<'_>) -> LeaseAnswer {
        let mut shard = self.shards.lock(&leased.member.fingerprint);
        match self.bucket(&mut shard, when, leased) {
            Some(bucket) => bucket.attempt(leased.member.cost, when.now()),
            None => LeaseAnswer::Ask,
        }
    }

    /// Takes a member's cost, if enough is held. Returns the rest.
    pub(super) fn take(&self, when: DecisionTime, leased: LeasedMember<'_>) -> Option<Holding> {
        let mut shard = self.shards.lock(&leased.member.fingerprint);
        if !shard.contains_key(&leased.member.fingerprint) {
            return None;
        }
        let bucket = self.bucket(&mut shard, when, leased)?;
        bucket.take(leased.member.cost).then(|| bucket.holding())
    }

    /// Returns whether a charge is under way.
    pub(super) fn is_charging(&self, bucket: Fingerprint) -> bool {
        let shard = self.shards.lock(&bucket);
        shard.get(&bucket).is_some_and(LeasedBucket::is_charging)
    }

    /// Returns the held units, if they are enough for a member's cost.
    pub(super) fn enough(&self, when: DecisionTime, member: &Member<'_>) -> Option<Holding> {
        let mut shard = self.shards.lock(&member.fingerprint);
        let bucket = shard.get_mut(&member.fingerprint)?;
        bucket.expire(when);
        (bucket.held().units >= member.cost).then(|| bucket.holding())
    }

    /// Takes a member's cost for a batch that is not decided yet. Returns the rest.
    pub(super) fn lend(&self, when: DecisionTime, leased: LeasedMember<'_>) -> Option<Holding> {
        let mut shard = self.shards.lock(&leased.member.fingerprint);
        let bucket = self.bucket(&mut shard, when, leased)?;
        bucket.lend(leased.member.cost).then(|| bucket.holding())
    }

    /// Ends a loan from a limit. Returns the units held after it.
    pub(super) fn lent(
        &self,
        bucket: Fingerprint,
        loan: LeasedUnits,
        algorithm: &Algorithm,
        is_spent: bool,
    ) -> Holding {
        self.end(bucket, |bucket| bucket.lent(loan, algorithm, is_spent))
    }

    /// Returns how many units to charge ahead after a batch that the store has decided.
    pub(super) fn begin_to_charge(&self, when: DecisionTime, leased: LeasedMember<'_>) -> u32 {
        let mut shard = self.shards.lock(&leased.member.fingerprint);
        let bucket = self.bucket(&mut shard, when, leased);
        bucket.map_or(0, |bucket| {
            bucket.begin_to_charge(0, leased.member.cost, when.now())
        })
    }

    /// Records the state of a bucket, if the store has answered it, at this instant of its clock, and `now` by the clock of
    /// this process. Returns the held units that the state counts as charged.
    pub(super) fn hear(
        &self,
        bucket: Fingerprint,
        state: State,
        at: Option<Timestamp>,
        now: Timestamp,
    ) -> u32 {
        let mut shard = self.shards.lock(&bucket);
        let bucket = shard.get_mut(&bucket);
        bucket.map_or(0, |bucket| bucket.hear(state, at, now))
    }

    /// Ends a charge that has brought these units under a limit.
    pub(super) fn charged(&self, bucket: Fingerprint, come: LeasedUnits, algorithm: &Algorithm) {
        self.end(bucket, |bucket| bucket.charged(come, algorithm));
    }

    /// Ends the return of units. Units that were not returned are held again, unless the pool is closed.
    pub(super) fn returned(&self, units: &Return, is_done: bool) {
        self.end(units.member.as_member().fingerprint, |bucket| {
            let is_done = is_done || self.is_closed.load(Ordering::Acquire);
            bucket.returned(units, is_done);
            None
        });
    }

    /// Ends a charge, a loan or a return. Returns the units held after it.
    fn end(
        &self,
        bucket: Fingerprint,
        end: impl FnOnce(&mut LeasedBucket) -> Option<Return>,
    ) -> Holding {
        let mut shard = self.shards.lock(&bucket);
        let Some(bucket) = shard.get_mut(&bucket) else {
            return Holding::default();
        };
        let excess = end(bucket);
        // Read under the lock of the shard. If it is not set, `close` has yet to empty this shard, and finds the units there.
        let is_closed = self.is_closed.load(Ordering::Acquire);
        let rest = is_closed.then(|| bucket.close()).flatten();
        if excess.is_some() || rest.is_some() {
            self.returns
                .lock()
                .extend([excess, rest].into_iter().flatten());
        }
        if is_closed {
            self.ended.notify_waiters();
        }
        bucket.holding()
    }

    /// Takes a member's cost back, if there is room for it. Returns the units held after it.
    pub(super) fn take_back(&self, when: DecisionTime, member: &Member<'_>) -> Option<Holding> {
        let mut shard = self.shards.lock(&member.fingerprint);
        if self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        let bucket = shard.get_mut(&member.fingerprint)?;
        bucket.expire(when);
        bucket
            .take_back(when.now(), member)
            .then(|| bucket.holding())
    }

    /// Adapts to the use since the last sweep, and returns the units to give back.
    pub(super) fn sweep(&self) -> Vec<Return> {
        let mut returns = mem::take(&mut *self.returns.lock());
        for mut shard in self.shards.iter() {
            shard.retain(|_, bucket| {
                let was_idle = bucket.is_idle() && bucket.uses() == 0;
                returns.extend(bucket.sweep());
                !was_idle
            });
        }
        returns
    }

    /// Stops charging ahead, and returns all held units.
    pub(super) fn close(&self) -> Vec<Return> {
        self.is_closed.store(true, Ordering::Release);
        // What ends meanwhile is added to `returns`. Its bucket is unsettled as long as it is there, so it is not forgotten.
        let mut returns = mem::take(&mut *self.returns.lock());
        for mut shard in self.shards.iter() {
            returns.extend(shard.values_mut().filter_map(LeasedBucket::close));
        }
        returns
    }

    /// Wakes when a charge, a loan or a return has ended after the pool was closed.
    pub(super) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }

    /// Returns whether a charge, a loan or a return is under way.
    pub(super) fn is_unsettled(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.any(|shard| shard.values().any(LeasedBucket::is_unsettled))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_empty()) && self.returns.lock().is_empty()
    }

    /// Returns the bucket of a member, adapted to its limit. Creates a new one if there is room.
    fn bucket<'a>(
        &self,
        shard: &'a mut PoolShard,
        when: DecisionTime,
        leased: LeasedMember<'_>,
    ) -> Option<&'a mut LeasedBucket> {
        if self.is_closed.load(Ordering::Acquire) {
            return None;
        }
        let print = leased.member.fingerprint;
        let Some(place) = shard.get_index_of(&print) else {
            make_room(shard, print);
            if shard.len() < ROOM {
                shard.insert(print, LeasedBucket::new(leased));
            }
            return None;
        };
        let (_, bucket) = shard.get_index_mut(place)?;
        if let Some(excess) = bucket.adapt(when, leased) {
            self.returns.lock().push(excess);
        }
        Some(bucket)
    }
}

/// Prints the number of buckets only, because their ids can be personal data.
impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let buckets: usize = self.shards.iter().map(|shard| shard.len()).sum();
        f.debug_struct("Pool")
            .field("buckets", &buckets)
            .field("is_closed", &self.is_closed)
            .finish_non_exhaustive()
    }
}

/// Removes a bucket that is hardly used, if there is no room for another one.
#[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
fn make_room(shard: &mut PoolShard, newcomer: Fingerprint) {
    if shard.len() < ROOM {
        return;
    }
    let mut places = (0..LOOKS).map(|look| (newcomer.low as usize).wrapping_add(look) % ROOM);
    let idle = |place: &usize| {
        let bucket = shard.get_index(*place);
        bucket.is_some_and(|(_, bucket)| bucket.is_idle())
    };
    if let Some(place) = places.find(idle) {
        shard.swap_remove_index(place);
    }
}
