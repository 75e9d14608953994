//! Random streams of requests.

use std::time::Duration;

use proptest::{collection::vec, prelude::*};

use super::{
    super::{
        History, Phase, Tier, TierState, Tiers,
        history::{ReportedTier, TierLog},
    },
    figures,
    model::{FOREVER, Model, Split, Time},
    request,
};
use crate::{
    algorithm::{Arithmetic, NEVER, Parameters, Wait},
    clock::Timestamp,
};

/// One request: how long after the one before (negative if the clock steps back), and of how many units.
type Step = (i64, u32, u32);

fn any_span(most: u64, zero: u32) -> impl Strategy<Value = Duration> {
    let finite = (1..most).prop_map(Duration::from_micros);
    prop_oneof![12 => finite, zero => Just(Duration::ZERO), 1 => Just(Tier::FOREVER)]
}

prop_compose! {
    fn any_tier()(
        limit in prop_oneof![8 => 1..7_u32, 1 => 7..120_u32], window in any_span(40, 0), active in any_span(40, 0),
        cooldown in any_span(60, 4), skippable in prop::bool::weighted(0.2),
    ) -> Tier {
        Tier { limit, window, active, cooldown, skippable }
    }
}

fn any_tiers() -> impl Strategy<Value = Vec<Tier>> {
    prop_oneof![15 => vec(any_tier(), 1..=4), 1 => vec(any_tier(), 5..=16)]
}

/// Most requests are of one unit and follow soon. Some are of a group of units, or follow after a pause.
fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![4 => Just(0), 8 => 0..6_i64, 4 => 0..40_i64, 1 => 0..400_i64];
    let group = prop_oneof![
        6 => Just((1, 1)),
        3 => (1..9_u32).prop_map(|units| (units, units)),
        3 => (1..5_u32, 0..20_u32).prop_map(|(least, more)| (least, least + more)),
        1 => (1..150_u32).prop_map(|units| (units, units)),
    ];
    vec(
        (gap, group).prop_map(|(gap, (least, most))| (gap, least, most)),
        1..80,
    )
}

/// A bucket, and the same in the model.
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

    /// Requests units from the bucket and the model, and compares their figures before and after that. Returns the granted units.
    fn step(&mut self, (gap, least, most): Step) -> Option<Split> {
        self.now = self.now.saturating_add_signed(gap);
        self.compare([1, least, most]);
        let split = request(&self.tiers, &mut self.history, self.now, least, most);
        assert_eq!(
            split,
            self.model.request(self.now, least, most),
            "{least} to {most}"
        );
        self.compare([1, least, most]);
        assert!(self.history.heap_bytes() <= self.tiers.largest_history());
        split
    }

    fn compare(&self, costs: [u32; 3]) {
        let Self {
            tiers,
            history,
            model,
            now,
        } = self;
        let at = model.now(*now);
        self.compare_phases(at);
        let instant = |at: Time| u64::try_from(at).unwrap_or(NEVER);
        let wait = |until: Time| {
            if until <= at {
                Wait::ZERO
            } else {
                Wait::until(instant(until), *now)
            }
        };
        for units in costs {
            let seen = figures(tiers, history, *now, units);
            let grants_at = model.grants_at(*now, units).unwrap_or(FOREVER);
            assert_eq!(seen.remaining, model.remaining(*now), "at {now}");
            assert_eq!(seen.next_after, wait(grants_at), "{units} at {now}");
            assert_eq!(
                seen.reset_after,
                wait(model.ends_at(|_, _| true)),
                "at {now}"
            );
            let reported = History::reported(history.last, self.report(units)).unwrap();
            assert_eq!(figures(tiers, &reported, *now, units), seen, "at {now}");
        }
        let outlasts_window = |i: usize, tier: &Tier| i > 0 || tier.active != Tier::FOREVER;
        assert_eq!(
            tiers.full_at(history),
            instant(model.ends_at(outlasts_window)),
            "at {now}"
        );
    }

    fn compare_phases(&self, at: Time) {
        for (i, tier) in self.history.tiers(&self.tiers, self.now).enumerate() {
            let TierState { phase, used, .. } = tier;
            let expected = (self.model.phase(i, at), self.model.entries[i]);
            let entered = tier.entered.map(|entered| Time::from(entered.as_micros()));
            assert_eq!((phase, entered), expected, "tier {i} at {at}");
            // A tier that only counts treats its units as granted on entry. That makes no difference once it cools down.
            assert!(
                phase != Phase::Active || used == self.model.used(i, at),
                "tier {i} at {at}"
            );
        }
    }

    /// Returns the report of a script for a request of this number of units.
    fn report(&self, units: u32) -> Vec<ReportedTier> {
        let seen = self.history.tiers(&self.tiers, self.now).enumerate();
        let reported = seen.map(|(i, tier)| {
            let units = if self.tiers.0[i].slides { units } else { 0 };
            let all = self.model.units[i]
                .iter()
                .map(|unit| u64::try_from(*unit).unwrap());
            let live: Vec<_> = all
                .skip(self.model.units[i].len() - tier.used as usize)
                .collect();
            ReportedTier {
                entry: tier.entered.map(Timestamp::as_micros),
                used: tier.used,
                newest: live.last().copied().unwrap_or_default(),
                oldest: live.into_iter().take(units as usize).collect(),
            }
        });
        reported.collect()
    }
}

fn cases() -> ProptestConfig {
    if cfg!(miri) {
        // Miri takes a thousand times as long, and has no files.
        return ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(2)
        };
    }
    ProptestConfig::with_cases(100)
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_stream_is_decided_as_by_the_model(tiers in any_tiers(), steps in any_steps(), start in 0..1_u64 << 51) {
        let mut pair = Pair::new(&tiers, start);
        for step in steps {
            pair.step(step);
        }
    }

    #[test]
    fn clock_that_steps_back_stands_still(tiers in any_tiers(), steps in any_steps(), back in vec(-60..30_i64, 80)) {
        let mut pair = Pair::new(&tiers, 10_000);
        for ((gap, least, most), back) in steps.into_iter().zip(back) {
            pair.step((gap + back.min(0), least, most));
        }
    }

    #[test]
    fn tiers_keep_to_charons_invariants(tiers in any_tiers(), steps in any_steps()) {
        let mut pair = Pair::new(&tiers, 0);
        let mut units = vec![Vec::new(); tiers.len()];
        for step in steps {
            let before = pair.history.clone();
            let Some(split) = pair.step(step) else { continue };
            let highest = split[split.len() - 1].0;
            let now = pair.now;
            for (tier, granted) in &split {
                let used = pair.history.tiers(&pair.tiers, now).nth(*tier).unwrap().used;
                prop_assert!(*tier == highest || used == tiers[*tier].limit, "tiers below the highest are filled");
                units[*tier].extend((0..*granted).map(|_| now));
            }
            let entries = before.tiers(&pair.tiers, now).zip(pair.history.tiers(&pair.tiers, now));
            for (i, (TierState { phase, entered, .. }, after)) in entries.enumerate() {
                prop_assert!(entered == after.entered || phase == Phase::Inactive, "tier {i} is entered again");
                prop_assert!(phase != Phase::Active || split[0].0 >= i, "a unit of a tier below {i}");
            }
        }
        for (i, (tier, units)) in tiers.iter().zip(units).enumerate() {
            let is_hard = i == 0 || tier.cooldown >= tier.window;
            for span in units.windows(tier.limit as usize + 1).filter(|_| is_hard) {
                prop_assert!(Duration::from_micros(span[span.len() - 1] - span[0]) > tier.window, "tier {i}: {span:?}");
            }
        }
    }

    #[test]
    fn nothing_depends_on_a_bucket_that_is_full_again(tiers in any_tiers(), steps in any_steps()) {
        let mut kept = Pair::new(&tiers, 0);
        let mut forgotten = History::default();
        for (gap, least, most) in steps {
            kept.step((gap, least, most));
            if kept.now >= kept.tiers.full_at(&forgotten) {
                forgotten = History::default();
            }
            request(&kept.tiers, &mut forgotten, kept.now, least, most);
            for units in [1, least, most] {
                let seen = |history| {
                    let figures = figures(&kept.tiers, history, kept.now, units);
                    (figures.remaining, figures.next_after)
                };
                prop_assert_eq!(seen(&kept.history), seen(&forgotten));
            }
        }
    }

    #[test]
    fn any_history_can_be_read(
        tiers in any_tiers(), last in any::<u64>(), now in any::<u64>(), most in 1..=u32::MAX,
        logs in vec((any::<Option<u64>>(), any::<u32>(), vec(any::<u64>(), 0..9)), 0..6),
    ) {
        let tiers = Tiers::new(tiers).unwrap();
        let logs = logs.into_iter().map(|(entry, counted, instants)| {
            let mut log = TierLog { entry, counted, ..TierLog::default() };
            for instant in instants {
                log.units.insert(instant, 1, 1);
            }
            log
        });
        let mut history = History { last, tiers: logs.collect() };
        for now in [0, now, last, NEVER] {
            tiers.full_at(&history);
            request(&tiers, &mut history, now, 1, most);
            prop_assert!(figures(&tiers, &history, now, 1).remaining <= tiers.capacity());
        }
    }
}
