//! Replaced histories, compared with those of a naive model.

use std::{cmp::Ordering, collections::HashMap, time::Duration};

use super::{
    BYTES_PER_SHARD, Histories,
    tests::{NOW, SECOND, charge_window, check},
};
use crate::{
    backend::memory::random_numbers::{print, random_numbers},
    window::{Units, Window},
};

/// A history as the rule for replacing them sees it.
struct NaiveHistory {
    window: Window,
    units: Units,
}

impl NaiveHistory {
    fn used(&self, now: u64) -> u64 {
        u64::from(self.window.limit() - self.window.remaining(&self.units, now))
    }

    fn lapses(&self) -> u64 {
        let newest = self.units.instants().next_back().unwrap();
        newest + u64::try_from(self.window.window().as_micros()).unwrap()
    }

    /// Compares two by the used part of their limits, and then by the instant at which they lapse.
    fn compare(&self, other: &Self, now: u64) -> Ordering {
        let [ours, theirs] = [self, other].map(|one| u64::from(one.window.limit()));
        let part = (self.used(now) * theirs).cmp(&(other.used(now) * ours));
        part.then(self.lapses().cmp(&other.lapses()))
    }
}

/// All live histories, and the number of replaced ones.
#[derive(Default)]
struct NaiveHistories {
    all: HashMap<u64, NaiveHistory>,
    evicted: u64,
}

impl NaiveHistories {
    fn spend(&mut self, n: u64, window: Window, cost: u32, now: u64) -> bool {
        self.all.retain(|_, history| history.lapses() > now);
        let history = self.all.entry(n).or_insert_with(|| NaiveHistory {
            window,
            units: Units::default(),
        });
        let passes = window.spend(&mut history.units, now, cost);
        if history.used(now) == 0 {
            self.all.remove(&n);
        }
        passes
    }

    /// Replaces all that do not fit, except for the one that was just charged.
    fn fit(&mut self, max_bytes: usize, charged: u64, now: u64) {
        let bytes = |history: &NaiveHistory| Histories::largest(history.units.allocated_bytes());
        while self.all.values().map(bytes).sum::<usize>() > max_bytes {
            let others = self.all.iter().filter(|(n, _)| **n != charged);
            let least = others.min_by(|a, b| a.1.compare(b.1, now));
            let least = *least.unwrap().0;
            self.all.remove(&least);
            self.evicted += 1;
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "it takes too long")]
fn least_loss_goes_first_as_a_naive_model_says() {
    let mut random = random_numbers();
    // Different parts of these limits differ by more than a rank can be rounded.
    let limits = [(1, 60), (5, 900), (8, 600), (100, 300), (400, 3600)];
    let windows =
        limits.map(|(limit, secs)| Window::new(limit, Duration::from_secs(secs)).unwrap());
    let histories = Histories::new(BYTES_PER_SHARD);
    let mut model = NaiveHistories::default();
    let (mut now, mut passed) = (NOW, 0);
    for step in 0..8000 {
        // No two instants are the same, so that no two histories are equal.
        now += 1 + random(SECOND / 4);
        let n = random(1500);
        let window = windows[usize::try_from(n % 5).unwrap()];
        let cost = 1 + u32::try_from(random(u64::from(window.limit()).min(60))).unwrap();
        let passes = model.spend(n, window, cost, now);
        model.fit(histories.max_bytes, n, now);
        assert_eq!(charge_window(&histories, n, window, cost, now), passes);
        passed += u32::from(passes);
        let stored = |n: &u64| {
            let print = print(*n);
            histories.lock(histories.of(&print)).has(&print)
        };
        assert!(step % 16 > 0 || model.all.keys().all(stored));
        assert_eq!(histories.evictions(), model.evicted);
    }
    check(&histories);
    let evicted = model.evicted;
    assert!(passed > 3000 && evicted > 1000, "{passed}, {evicted}");
}
