//! Burst tiers against a naive model of them, and what must hold of any stream of requests.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod model;
mod streams;

use proptest::prelude::{ProptestConfig, any, proptest};
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{ManualClock, Timestamp},
    tiers::{Grant, History, Phase, Tier, Tiers},
};

use self::{
    model::{Model, NEVER, Split, Time},
    streams::{Step, start, steps, tiers},
};
use crate::support::scale::scaled;

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        // Miri takes a thousand times as long.
        cases: if cfg!(miri) { 2 } else { scaled(cases) },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Tiers, what they have granted, and the same by the model.
struct Pair {
    tiers: Tiers,
    history: History,
    model: Model,
    now: u64,
}

impl Pair {
    fn new(tiers: &[Tier], now: u64) -> Self {
        Self {
            tiers: Tiers::new(tiers.iter().copied()).unwrap(),
            history: History::default(),
            model: Model::new(tiers),
            now,
        }
    }

    /// Requests, and compares all there is to see before and after it.
    fn step(&mut self, step: Step) {
        self.now += step.gap;
        self.compare(step);
        let (units, before) = (step.least..=step.most, self.history.clone());
        let grant = self.tiers.request(&mut self.history, self.now, units);
        let expected = self.model.request(self.now, step.least, step.most);
        let Some(split) = expected else {
            assert_eq!(grant, None);
            assert_eq!(self.history, before, "a rejection changes nothing");
            return;
        };
        let grant = grant.expect("the model grants");
        assert_eq!(self.taken(&grant), seen(&split), "{step:?}");
        assert_eq!(grant.tier(), split.last().map(|(tier, _)| *tier));
        assert_eq!(
            grant.units(),
            split.iter().map(|(_, units)| units).sum::<u32>()
        );
        self.compare(step);
    }

    fn taken(&self, grant: &Grant) -> Split {
        grant.split(&self.tiers).collect()
    }

    fn compare(&self, step: Step) {
        let Self { history, model, .. } = self;
        let at = model.effective(self.now);
        for (i, (phase, entry, used)) in history.tiers(&self.tiers, self.now).enumerate() {
            assert_eq!(entry.map(Time::from), model.entries[i], "tier {i}");
            assert_eq!(phase, model.phase(i, at), "tier {i}");
            if phase == Phase::Active {
                assert_eq!(used, model.used(i, at), "tier {i}");
            }
        }
        assert_eq!(
            self.tiers.remaining(history, self.now),
            model.remaining(self.now)
        );
        for units in [1, step.least, step.most] {
            let wait = self.tiers.wait(history, self.now, units);
            let expected = match model.granted_at(self.now, units) {
                NEVER => None,
                granted_at if granted_at == at => Some(0),
                granted_at => Some(granted_at - Time::from(self.now)),
            };
            assert_eq!(wait.map(Time::from), expected, "{units} at {}", self.now);
        }
        let lapses = history
            .lapses_at(&self.tiers)
            .max(u64::try_from(at).unwrap());
        let expected = u64::try_from(model.lapses_at(self.now)).unwrap_or(u64::MAX);
        assert_eq!(lapses, expected, "at {}", self.now);
    }
}

/// The tiers that have given something.
fn seen(split: &Split) -> Split {
    let given = split.iter().copied();
    given.filter(|(_, units)| *units > 0).collect()
}

proptest! {
    #![proptest_config(cases(50))]

    #[test]
    fn any_stream_is_decided_as_the_model_has_it(
        tiers in tiers(), steps in steps(), start in start(),
    ) {
        let mut pair = Pair::new(&tiers, start);
        for step in steps {
            pair.step(step);
        }
    }

    #[test]
    fn clock_that_steps_back_stands_still(
        tiers in tiers(), steps in steps(), back in proptest::collection::vec(0..60_u64, 120),
    ) {
        let mut pair = Pair::new(&tiers, 10_000);
        for (step, back) in steps.into_iter().zip(back) {
            pair.now -= if back < 30 { back } else { 0 };
            pair.step(step);
        }
    }

    #[test]
    fn memory_is_bounded_by_the_limits(tiers in tiers(), steps in steps()) {
        let mut pair = Pair::new(&tiers, 0);
        let units = tiers.iter().map(|tier| 8 * tier.limit as usize + 64);
        let bound = units.sum::<usize>();
        for step in steps {
            pair.step(step);
            let taken = pair.history.heap_bytes();
            assert!(taken <= bound, "{taken} bytes for {tiers:?}");
        }
    }

    #[test]
    fn nothing_depends_on_what_has_lapsed(tiers in tiers(), steps in steps()) {
        let (mut kept, mut forgotten) = (Pair::new(&tiers, 0), History::default());
        for step in steps {
            kept.step(step);
            let (tiers, now) = (&kept.tiers, kept.now);
            if now >= forgotten.lapses_at(tiers) {
                forgotten = History::default();
            }
            tiers.request(&mut forgotten, now, step.least..=step.most);
            for units in [1, step.least, step.most] {
                let wait = tiers.wait(&forgotten, now, units);
                assert_eq!(wait, tiers.wait(&kept.history, now, units), "at {now}");
            }
            assert_eq!(
                tiers.remaining(&forgotten, now),
                tiers.remaining(&kept.history, now)
            );
        }
    }

    #[test]
    fn waits_are_minimal_and_long_enough(
        tiers in tiers(), steps in steps(), earlier in any::<u64>(),
    ) {
        let mut pair = Pair::new(&tiers, 0);
        for step in steps {
            pair.step(step);
            let grants = |now: u64| {
                let mut history = pair.history.clone();
                let units = step.least..=step.least;
                pair.tiers.request(&mut history, now, units).is_some()
            };
            match pair.tiers.wait(&pair.history, pair.now, step.least) {
                Some(0) => assert!(grants(pair.now)),
                Some(wait) => {
                    assert!(grants(pair.now + wait), "{wait}");
                    assert!(!grants(pair.now + wait - 1), "{wait}");
                    assert!(!grants(pair.now + earlier % wait), "{wait}");
                }
                None => assert!(!grants(pair.now + earlier % (1 << 50))),
            }
        }
    }

}

/// A limiter, and the model of its only bucket.
struct Limited {
    limiter: Limiter,
    clock: ManualClock,
    model: Model,
}

impl Limited {
    fn new(tiers: &[Tier], now: u64) -> Self {
        let clock = ManualClock::new(Timestamp::from_micros(now));
        let limit = Limit::tiers(tiers.iter().copied()).unwrap();
        let limits = Limits::builder().limit("tiers", limit).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::with_max_buckets(1000));
        Self {
            limiter: limiter.with_clock(clock.clone()),
            clock,
            model: Model::new(tiers),
        }
    }

    fn step(&mut self, Step { gap, least, most }: Step) {
        self.clock.advance(std::time::Duration::from_micros(gap));
        let now = tollgate::clock::Clock::now(&self.clock).as_micros();
        let request = Transaction::new("tiers", "id").cost(most).min_cost(least);
        let decision = self.limiter.try_spend(&request).unwrap().unwrap();
        let granted = self.model.request(now, least, most);
        assert_eq!(decision.allowed(), granted.is_some());
        let split = granted.unwrap_or_default();
        assert_eq!(decision.split().collect::<Split>(), seen(&split));
        assert_eq!(decision.tier(), split.last().map(|(tier, _)| *tier));
        assert_eq!(decision.remaining(), Some(self.model.remaining(now)));
        let waits = [
            (decision.next_after(), self.model.granted_at(now, least)),
            (decision.reset_after(), self.model.reset_at(now)),
        ];
        for (wait, until) in waits {
            match until {
                NEVER => assert_eq!(wait, Decision::NEVER),
                until => assert_eq!(wait.as_micros(), until - Time::from(now)),
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(50))]

    #[test]
    fn figures_of_a_decision_are_the_models(
        tiers in tiers(), steps in steps(), start in start(),
    ) {
        let mut limited = Limited::new(&tiers, start);
        for step in steps {
            limited.step(step);
        }
    }
}
