//! Buckets with a history, within a budget of bytes for all shards.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use parking_lot::MutexGuard;

use super::{
    records::{RECORD_BYTES, Records},
    shard::Shards,
};
use crate::{clock::Timestamp, transaction::Fingerprint};

const BYTES_PER_SHARD: usize = 128 * 1024;
const MAX_SHARDS: usize = 1024;

pub(super) struct Histories {
    shards: Shards<Records>,
    /// The state of each shard that an eviction reads without its lock.
    fronts: Box<[ShardFront]>,
    /// The bytes of all histories.
    bytes: AtomicUsize,
    max_bytes: usize,
}

/// The fronts of the queues of a shard.
#[derive(Debug)]
struct ShardFront {
    /// The least rank of its histories, or [`EMPTY`].
    least: AtomicU64,
    /// An instant before which the standing of none of them changes by itself, 0 if one has never been assessed, or
    /// [`EMPTY`].
    due: AtomicU64,
}

const EMPTY: u64 = u64::MAX;

/// The most histories that a charge assesses while the budget is nearly used. Each new history leaves one more to assess than
/// there were, so all are assessed when the budget is used up.
const ASSESSED_AHEAD: usize = 16;

/// The most histories that one eviction assesses again, because their loss may have changed by itself. It bounds the work
/// after a pause in which many have lapsed.
const ASSESSED: usize = 64;

impl Histories {
    pub(super) fn new(max_bytes: usize) -> Self {
        let shards = (max_bytes / BYTES_PER_SHARD).clamp(1, MAX_SHARDS);
        Self {
            shards: Shards::new(shards, Records::default),
            fronts: (0..shards).map(|_| ShardFront::new()).collect(),
            bytes: AtomicUsize::new(0),
            max_bytes,
        }
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Returns the size of a history in bytes, if it takes `heap_bytes` beyond its own size.
    pub(super) const fn largest(heap_bytes: usize) -> usize {
        RECORD_BYTES + heap_bytes
    }

    /// Returns the most histories that fit.
    pub(super) fn most(&self) -> usize {
        self.max_bytes / RECORD_BYTES
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|records| records.len()).sum()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.shards.iter().map(|records| records.evictions()).sum()
    }

    /// Returns the shard of a history.
    pub(super) fn of(&self, print: &Fingerprint) -> usize {
        self.shards.of(print)
    }

    /// Locks a shard, as [`Shards::lock`] does. The caller must unlock it and then call [`trim`](Self::trim).
    pub(super) fn lock(&self, shard: usize) -> LockedRecords<'_> {
        let records = self.shards.lock(shard);
        LockedRecords {
            bytes: records.bytes(),
            records,
            shard,
            histories: self,
        }
    }

    /// Evicts the histories that lose least until the rest fit into the budget. The `charged` histories are kept, because a
    /// batch has just charged them.
    ///
    /// The caller must not hold the lock of a shard.
    #[inline]
    pub(super) fn trim<'m>(
        &self,
        charged: impl Iterator<Item = &'m Fingerprint> + Clone,
        now: Timestamp,
    ) {
        if self.bytes.load(Ordering::Relaxed) > self.max_bytes - self.max_bytes / 8 {
            self.make_room(charged, now);
        }
    }

    /// Evicts histories if the budget is exceeded. If it is nearly used, this assesses some in advance.
    #[cold]
    fn make_room<'m>(
        &self,
        charged: impl Iterator<Item = &'m Fingerprint> + Clone,
        now: Timestamp,
    ) {
        for print in charged.clone() {
            self.lock(self.of(print)).assess_due(ASSESSED_AHEAD, now);
        }
        if self.bytes.load(Ordering::Relaxed) > self.max_bytes {
            for print in charged.clone() {
                self.lock(self.of(print)).spare(print);
            }
            self.evict(now);
            for print in charged {
                self.lock(self.of(print)).spare_no_more(print, now);
            }
        }
    }

    fn evict(&self, now: Timestamp) {
        let mut left = ASSESSED;
        while self.bytes.load(Ordering::Relaxed) > self.max_bytes {
            let least = self.least();
            // A history that has lapsed, or has units that have, loses less than its rank says.
            if (left > 0 || least.is_none())
                && let Some(shard) = self.due(now)
            {
                let assessed = self.lock(shard).assess_due(left.max(1), now);
                left = left.saturating_sub(assessed.max(1));
                continue;
            }
            let Some(shard) = least else {
                break;
            };
            self.lock(shard).evict(now);
        }
    }

    /// Returns a shard with histories that have to be assessed again.
    fn due(&self, now: Timestamp) -> Option<usize> {
        let is_due = |front: &ShardFront| front.due.load(Ordering::Relaxed) <= now.as_micros();
        self.fronts.iter().position(is_due)
    }

    /// Returns the shard with the history that loses least, unless all are spared. The ranks are read without locks. If
    /// one is out of date, a history that loses more may be evicted.
    fn least(&self) -> Option<usize> {
        let ranks = self.fronts.iter();
        let ranks = ranks.map(|front| front.least.load(Ordering::Relaxed));
        let (rank, shard) = ranks.zip(0..).min()?;
        (rank < EMPTY).then_some(shard)
    }

    /// Publishes the bytes of a shard, and the fronts of its queues.
    fn publish(&self, shard: usize, before: usize, records: &Records) {
        match records.bytes() {
            bytes if bytes > before => self.bytes.fetch_add(bytes - before, Ordering::Relaxed),
            bytes if bytes < before => self.bytes.fetch_sub(before - bytes, Ordering::Relaxed),
            _ => 0,
        };
        let front = &self.fronts[shard];
        for (published, now) in [(&front.least, records.least()), (&front.due, records.due())] {
            let now = now.unwrap_or(EMPTY);
            if published.load(Ordering::Relaxed) != now {
                published.store(now, Ordering::Relaxed);
            }
        }
    }
}

impl ShardFront {
    fn new() -> Self {
        Self {
            least: AtomicU64::new(EMPTY),
            due: AtomicU64::new(EMPTY),
        }
    }
}

impl fmt::Debug for Histories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histories")
            .field("bytes", &self.bytes)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

/// The histories of a shard, locked.
pub(super) struct LockedRecords<'a> {
    histories: &'a Histories,
    shard: usize,
    records: MutexGuard<'a, Records>,
    /// The bytes when the shard was locked.
    bytes: usize,
}

impl Deref for LockedRecords<'_> {
    type Target = Records;

    fn deref(&self) -> &Records {
        &self.records
    }
}

impl DerefMut for LockedRecords<'_> {
    fn deref_mut(&mut self) -> &mut Records {
        &mut self.records
    }
}

impl Drop for LockedRecords<'_> {
    fn drop(&mut self) {
        self.records.forget_lapsed();
        self.histories
            .publish(self.shard, self.bytes, &self.records);
    }
}

#[cfg(test)]
mod model;

#[cfg(test)]
mod tests {
    use std::{iter, time::Duration};

    use super::*;
    use crate::{
        backend::memory::random_numbers::{print, random_numbers},
        decision::Answer,
        tiers::{Tier, Tiers},
        transaction::{Algorithm, BucketKey, LimitKey, Member, Mode, Operation},
        window::Window,
    };

    pub(super) const NOW: u64 = 1_000_000_000;
    pub(super) const SECOND: u64 = 1_000_000;

    fn window(limit: u32, secs: u64) -> Tiers {
        Tiers::new([Tier::new(limit, Duration::from_secs(secs))]).unwrap()
    }

    fn largest(tiers: &Tiers) -> usize {
        Histories::largest(tiers.max_allocated_bytes())
    }

    /// Charges a history, and returns whether there was room in its limit.
    fn charge(histories: &Histories, n: u64, tiers: &Tiers, cost: u32, now: u64) -> bool {
        let passed = charge_beside_others(histories, n, tiers, cost, now);
        assert!(histories.bytes.load(Ordering::Relaxed) <= histories.max_bytes);
        passed
    }

    fn charge_beside_others(
        histories: &Histories,
        n: u64,
        tiers: &Tiers,
        cost: u32,
        now: u64,
    ) -> bool {
        charge_bucket(histories, n, &Algorithm::Tiers(tiers.clone()), cost, now)
    }

    fn charge_bucket(
        histories: &Histories,
        n: u64,
        algorithm: &Algorithm,
        cost: u32,
        now: u64,
    ) -> bool {
        let key = BucketKey::new(LimitKey::Number(1), "id");
        let (print, now) = (print(n), Timestamp::from_micros(now));
        let member = Member::known(key, print, algorithm, cost, Mode::CheckAndSpend);
        let claim = Operation::Spend.claim(&member);
        let mut records = histories.lock(histories.of(&print));
        let found = records.find(&print);
        let mut answer = Answer::UNKNOWN;
        records.judge(found, &claim, now, &mut answer);
        if answer.passed {
            records.write(found, &claim, &answer, now);
        }
        drop(records);
        histories.trim(iter::once(&print), now);
        answer.passed
    }

    /// The counted bytes must be the bytes of the histories.
    pub(super) fn check(histories: &Histories) {
        let bytes: usize = histories.shards.iter().map(|records| records.bytes()).sum();
        assert_eq!(histories.bytes.load(Ordering::Relaxed), bytes);
        for (records, front) in histories.shards.iter().zip(&histories.fronts) {
            records.check();
            let [least, due] =
                [&front.least, &front.due].map(|front| front.load(Ordering::Relaxed));
            assert_eq!(least, records.least().unwrap_or(EMPTY));
            assert_eq!(due, records.due().unwrap_or(EMPTY));
        }
    }

    #[test]
    fn soonest_to_lapse_of_those_that_lose_as_much_goes_first_over_all_shards() {
        let histories = Histories::new(8 * BYTES_PER_SHARD);
        let one = largest(&window(1, 1));
        let room = (8 * BYTES_PER_SHARD / one) as u64;
        for n in 0..room {
            assert!(charge(&histories, n, &window(1, 1000 + n), 1, NOW));
        }
        assert_eq!((histories.len() as u64, histories.evictions()), (room, 0));
        for n in 0..room / 2 {
            assert!(charge(&histories, room + n, &window(1, 100_000), 1, NOW));
        }
        check(&histories);
        assert_eq!(histories.evictions(), room / 2);
        for n in room / 2..room {
            let granted = charge(&histories, n, &window(1, 1000 + n), 1, NOW);
            assert!(!granted, "history {n} is in use");
        }
    }

    #[test]
    fn histories_are_queued_before_the_budget_is_used_up_but_not_earlier() {
        let histories = Histories::new(4 * BYTES_PER_SHARD);
        let hour = window(1, 3600);
        let room = (4 * BYTES_PER_SHARD / largest(&hour)) as u64;
        let queued = || -> usize {
            histories
                .shards
                .iter()
                .map(|records| records.queued())
                .sum()
        };
        for n in 0..room * 7 / 8 - 1 {
            assert!(charge(&histories, n, &hour, 1, NOW));
        }
        assert_eq!(queued(), 0);
        for n in room * 7 / 8 - 1..room {
            assert!(charge(&histories, n, &hour, 1, NOW));
        }
        assert_eq!((queued() as u64, histories.evictions()), (room, 0));
        check(&histories);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it takes too long")]
    fn threads_at_the_cap_keep_count_of_bytes() {
        let histories = &Histories::new(2 * BYTES_PER_SHARD);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for n in 0..2000 {
                        let tiers = window(8, 1 + n % 7);
                        charge_beside_others(histories, 100 * thread + n, &tiers, 5, NOW + n);
                    }
                });
            }
        });
        check(histories);
        assert!(histories.bytes.load(Ordering::Relaxed) <= histories.max_bytes);
        assert!(histories.evictions() > 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it takes too long")]
    fn history_that_threads_charge_at_the_cap_keeps_all_of_its_units() {
        const UNITS: u32 = 1000;
        for round in 0..20 {
            let histories = &Histories::new(BYTES_PER_SHARD);
            let room = (BYTES_PER_SHARD / largest(&window(1, 3600))) as u64;
            for n in 1..=room {
                assert!(charge(histories, n, &window(1, 3600), 1, NOW));
            }
            // It lapses first, and each time that it grows, another one has to go.
            let tiers = &window(4 * UNITS, 60);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(move || {
                        for _ in 0..UNITS {
                            charge_beside_others(histories, 0, tiers, 1, NOW);
                        }
                    });
                }
            });
            assert!(!charge(histories, 0, tiers, 1, NOW), "round {round}");
            check(histories);
        }
    }

    /// Charges a history with a window, and returns whether there was room in its limit.
    pub(super) fn charge_window(
        histories: &Histories,
        n: u64,
        window: Window,
        cost: u32,
        now: u64,
    ) -> bool {
        charge_bucket(histories, n, &Algorithm::Window(window), cost, now)
    }

    #[test]
    #[cfg_attr(miri, ignore = "it takes too long")]
    fn random_histories_stay_within_the_budget() {
        let mut random = random_numbers();
        let histories = Histories::new(3 * BYTES_PER_SHARD);
        let high = Tier::new(50, Duration::from_secs(60)).active(Duration::from_secs(3600));
        let prison = Tier::new(1, Tier::FOREVER).active(Tier::FOREVER);
        let limits = [
            window(1, 1),
            window(5, 60),
            window(4096, 60),
            Tiers::new([high, prison]).unwrap(),
            Tiers::new([high; 16]).unwrap(),
        ];
        let mut now = NOW;
        for _ in 0..20_000 {
            let tiers = &limits[usize::try_from(random(5)).unwrap()];
            let cost = 1 + u32::try_from(random(u64::from(tiers.max_units()).min(5000))).unwrap();
            charge(&histories, random(3000), tiers, cost, now);
            now += random(SECOND);
            if random(20) == 0 {
                let print = print(random(3000));
                histories.lock(histories.of(&print)).forget(&print);
            }
        }
        check(&histories);
        assert!(histories.evictions() > 100 && histories.len() > 10);
    }
}
