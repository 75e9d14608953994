//! The buckets of a shard, and the locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::{
    fingerprint::{Fingerprint, pick},
    histories::Histories,
    table::{Place, Table},
};
use crate::{
    clock::Timestamp,
    decision::{Answer, Seen, State, judge_tiers},
    tiers::{Grant, History, Tiers},
    transaction::{Algorithm, Batch, Member, Operation},
};

/// Buckets per shard when all are there: few enough that a table grows in a fraction of a millisecond.
const BUCKETS_PER_SHARD: usize = 4096;
const MAX_SHARDS: usize = 4096;

#[derive(Debug)]
pub(super) struct Shards(Box<[Shard]>);

/// Buckets behind a lock, on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Shard(Mutex<Buckets>);

/// The buckets of a shard: those of GCRA in a table, and those with tiers, which share its cap. Each kind is sure
/// of a half of it.
#[derive(Debug)]
pub(super) struct Buckets {
    pub(super) table: Table,
    histories: Histories,
    cap: usize,
}

impl Shards {
    pub(super) fn new(max_buckets: usize) -> Self {
        let shards = (max_buckets / BUCKETS_PER_SHARD).clamp(1, MAX_SHARDS);
        let cap = max_buckets / shards;
        let buckets = || Buckets {
            table: Table::new(cap),
            histories: Histories::default(),
            cap,
        };
        let shards = (0..shards).map(|_| Shard(Mutex::new(buckets())));
        Self(shards.collect())
    }

    pub(super) fn buckets(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().len()).sum()
    }

    pub(super) fn evictions(&self) -> u64 {
        let shards = self.0.iter().map(Shard::lock);
        shards
            .map(|buckets| buckets.table.evictions() + buckets.histories.evictions())
            .sum()
    }

    /// Locks the shard of one bucket.
    #[inline]
    pub(super) fn lock(&self, print: &Fingerprint) -> MutexGuard<'_, Buckets> {
        self.0[self.place(print)].lock()
    }

    /// Locks the shards of all these buckets, in ascending order, so that two batches never wait
    /// for each other.
    pub(super) fn lock_all(&self, prints: &[Fingerprint]) -> Locked<'_> {
        let mut places: SmallVec<[usize; 4]> = prints.iter().map(|p| self.place(p)).collect();
        places.sort_unstable();
        places.dedup();
        let locked = places
            .into_iter()
            .map(|place| (place, self.0[place].lock()));
        Locked {
            shards: self,
            locked: locked.collect(),
        }
    }

    fn place(&self, print: &Fingerprint) -> usize {
        pick((print.high >> 32) as u32, self.0.len())
    }
}

impl Shard {
    /// What is behind the lock is whole between any two of its operations, so a poisoned lock says nothing.
    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shards of one batch, locked.
pub(super) struct Locked<'a> {
    shards: &'a Shards,
    locked: SmallVec<[(usize, MutexGuard<'a, Buckets>); 4]>,
}

impl Locked<'_> {
    /// The shard of one of the buckets that were locked.
    pub(super) fn of(&self, print: &Fingerprint) -> &Buckets {
        &self.locked[self.place(print)].1
    }

    pub(super) fn of_mut(&mut self, print: &Fingerprint) -> &mut Buckets {
        let place = self.place(print);
        &mut self.locked[place].1
    }

    fn place(&self, print: &Fingerprint) -> usize {
        let place = self.shards.place(print);
        self.locked.partition_point(|(locked, _)| *locked < place)
    }
}

impl Buckets {
    fn len(&self) -> usize {
        self.table.occupied() + self.histories.len()
    }

    /// What a batch needs to know of a member's bucket.
    pub(super) fn see(&self, print: &Fingerprint, member: &Member<'_>, now: Timestamp) -> Seen<'_> {
        match member.algorithm {
            Algorithm::Gcra(_) => Seen::Gcra(self.table.get(print)),
            Algorithm::Tiers(tiers) => {
                let history = self
                    .histories
                    .find(print)
                    .and_then(|place| self.histories.get(place));
                match history {
                    Some(history) => Seen::Tiers(history.view(tiers, now.as_micros())),
                    None => Seen::NOTHING,
                }
            }
        }
    }

    /// Writes down what has been decided of a member's bucket.
    pub(super) fn update(
        &mut self,
        operation: Operation,
        print: &Fingerprint,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
    ) {
        match (member.algorithm, answer.state) {
            (Algorithm::Gcra(_), State::Gcra(tat)) => {
                let place = self.table.find(print);
                if self.table.tat(place) != tat {
                    self.store(place, print, member, answer.state, now);
                }
            }
            (Algorithm::Tiers(tiers), State::Tiers(figures)) => {
                let takes = operation == Operation::Spend && member.mode.spends();
                if takes && figures.grant.units() > 0 {
                    let place = self.histories.find(print);
                    self.take(place, print, tiers, figures.grant, now);
                }
            }
            (Algorithm::Tiers(_), State::Gcra(_)) => {
                self.histories.forget(print);
                self.balance(None, now);
            }
            (Algorithm::Gcra(_), State::Tiers(_)) => {}
        }
    }

    /// Decides a batch of one member with tiers.
    pub(super) fn decide_tiers(
        &mut self,
        operation: Operation,
        print: &Fingerprint,
        member: &Member<'_>,
        tiers: &Tiers,
        now: Timestamp,
    ) -> Answer {
        let place = self.histories.find(print);
        let unused = History::default();
        let history = place.and_then(|place| self.histories.get(place));
        let view = history.unwrap_or(&unused).view(tiers, now.as_micros());
        let action = Batch::new(operation, &[]).action(member);
        let answer = judge_tiers(action, member, tiers, view);
        if let State::Tiers(figures) = answer.state
            && operation == Operation::Spend
            && member.mode.spends()
            && answer.passed
        {
            self.take(place, print, tiers, figures.grant, now);
        }
        answer
    }

    fn take(
        &mut self,
        place: Option<usize>,
        print: &Fingerprint,
        tiers: &Tiers,
        grant: Grant,
        now: Timestamp,
    ) {
        if self.histories.take(place, print, tiers, grant, now) {
            self.balance(Some(print), now);
        }
    }

    /// Stores the state of a bucket without tiers, which was found at `place`.
    #[inline]
    pub(super) fn store(
        &mut self,
        place: Option<Place>,
        print: &Fingerprint,
        member: &Member<'_>,
        state: State,
        now: Timestamp,
    ) {
        let (State::Gcra(tat), Algorithm::Gcra(gcra)) = (state, member.algorithm) else {
            return;
        };
        self.table.set(place, print, tat, gcra.tolerance(), now);
        if self.histories.len() > 0 {
            self.balance(None, now);
        }
    }

    /// Makes room where both kinds together are above the cap: at the cost of that which has more than its half.
    #[cold]
    fn balance(&mut self, spared: Option<&Fingerprint>, now: Timestamp) {
        let half = self.cap / 2;
        loop {
            let (ours, theirs) = (self.table.occupied(), self.histories.weight());
            if ours + theirs <= self.cap {
                break;
            }
            match theirs > half {
                true if self.histories.len() > usize::from(spared.is_some()) => {
                    self.histories.evict(spared);
                }
                _ if ours > 0 => self.table.shed(now),
                _ => break,
            }
        }
        let left = self.cap - self.histories.weight().min(half);
        self.table.set_cap(left, now);
    }
}
