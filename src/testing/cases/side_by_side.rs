//! Limiters on several backends that run the same history, by one clock.

use std::{sync::Arc, time::Duration};

use crate::{
    backend::Backend,
    clock::{Clock, ManualClock, Timestamp},
    limit::Limits,
    limiter::Limiter,
    testing::map_backend::MapBackend,
    transaction::Algorithm,
};

/// A map as the reference, and the backends that are compared with it.
pub(super) struct SideBySide {
    clock: ManualClock,
    map: Arc<MapBackend>,
    /// For each set of limits, the limiter on the map and those on the other backends.
    limiters: [(Limiter, Vec<Limiter>); 2],
    pace: Pace,
    latest: Timestamp,
    pub(super) steps_back: u32,
}

/// The distance that the clock moves in one step, in microseconds.
pub(super) struct Pace {
    /// The largest steps forward. Each applies to a quarter of them.
    pub(super) ahead: [u64; 4],
    pub(super) back: u64,
}

impl SideBySide {
    pub(super) fn new(limits: [Limits; 2], backends: &[Arc<dyn Backend>], pace: Pace) -> Self {
        let (clock, map) = (ManualClock::default(), Arc::new(MapBackend::default()));
        let limiters = limits.map(|limits| {
            let with_clock = |limiter: Limiter| limiter.with_clock(clock.clone());
            let others = backends
                .iter()
                .map(|backend| with_clock(Limiter::new(limits.clone(), Arc::clone(backend))));
            let others = others.collect();
            (with_clock(Limiter::new(limits, Arc::clone(&map))), others)
        });
        Self {
            latest: clock.now(),
            clock,
            map,
            limiters,
            pace,
            steps_back: 0,
        }
    }

    /// Moves the clock by a random distance, mostly forwards. It only steps back as far as no backend may have
    /// forgotten a full bucket.
    pub(super) fn step(&mut self, mut below: impl FnMut(u64) -> u64) {
        let now = self.clock.now();
        if below(8) == 0 {
            let limits = self.limiters[0].0.limits();
            let earliest = self
                .map
                .latest_full(self.latest, |name| algorithm(&limits, name))
                .as_micros();
            let reach = now.as_micros().saturating_sub(earliest);
            let back = below(reach.min(self.pace.back) + 1);
            self.clock
                .set(Timestamp::from_micros(now.as_micros() - back));
            self.steps_back += u32::from(back > 0);
        } else {
            let longest = self.pace.ahead[usize::try_from(below(4)).unwrap()];
            self.clock.advance(Duration::from_micros(below(longest)));
        }
        self.latest = self.latest.max(self.clock.now());
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns the limiter on the map, and those on the other backends.
    pub(super) fn limiters(&self, which: usize) -> (&Limiter, &[Limiter]) {
        let (map, others) = &self.limiters[which];
        (map, others)
    }
}

/// Returns the algorithm of a limit, if the limit is not off.
pub(super) fn algorithm<'a>(limits: &'a Limits, name: &str) -> Option<&'a Algorithm> {
    limits.get(name)?.limit.as_ref()?.algorithm()
}
