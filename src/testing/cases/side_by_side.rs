//! Limiters on several backends that run the same history, by one clock.

use std::{sync::Arc, time::Duration};

use crate::{
    backend::Backend,
    clock::{Clock, ManualClock, Timestamp},
    decision::{BatchDecision, Decision},
    limit::Limits,
    limiter::{Limiter, LimiterError},
    testing::map_backend::MapBackend,
    transaction::{Algorithm, Transaction},
};

/// A map as the reference, and the backends that are compared with it.
pub(super) struct SideBySide {
    clock: ManualClock,
    map: Arc<MapBackend>,
    /// For each set of limits, the limiter on the map and those on the other backends.
    limiters: [(Limiter, Vec<Limiter>); 2],
    pace: ClockSteps,
    latest: Timestamp,
    pub(super) steps_back: u32,
}

/// The distance that the clock moves in one step, in microseconds.
pub(super) struct ClockSteps {
    /// The largest steps forward. Each applies to a quarter of them.
    pub(super) ahead: [u64; 4],
    pub(super) back: u64,
}

impl SideBySide {
    pub(super) fn new(
        limits: [Limits; 2],
        backends: &[Arc<dyn Backend>],
        pace: ClockSteps,
    ) -> Self {
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
            let sets = [0, 1].map(|set| self.limiters[set].0.limits());
            let of_either = |key: &str| sets.iter().find_map(|limits| algorithm(limits, key));
            let earliest = self.map.latest_full(self.latest, of_either).as_micros();
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

    /// Runs a step under one of the two sets of limits. Each backend must give the map's answer, to the microsecond.
    pub(super) async fn run(&self, which: usize, step: Step, batch: &[Transaction<'_>]) -> Seen {
        let (map, others) = &self.limiters[which];
        let expected = seen(step.run(map, batch).await);
        for other in others {
            let found = seen(step.run(other, batch).await);
            let now = self.clock.now();
            assert_eq!(
                found,
                expected,
                "{step:?} at {now:?}: {batch:?} of {:?}",
                map.limits()
            );
        }
        expected
    }
}

/// One step of a history.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Spend,
    Check,
    Refund,
    /// Resets the first bucket, and looks at all.
    Reset,
}

impl Step {
    async fn run(
        self,
        limiter: &Limiter,
        batch: &[Transaction<'_>],
    ) -> Result<BatchDecision, LimiterError> {
        match self {
            Self::Spend => limiter.spend_batch(batch).await,
            Self::Check => limiter.check_batch(batch).await,
            Self::Refund => limiter.refund_batch(batch).await,
            Self::Reset => {
                limiter.reset(&batch[..1]).await?;
                limiter.check_batch(batch).await
            }
        }
    }
}

/// Everything that a caller can see, with errors as text. The raw state is left out, because a backend may forget a
/// full bucket.
pub(super) type Seen = Result<(bool, Option<usize>, Vec<SeenMember>), String>;

#[derive(Debug, PartialEq)]
pub(super) struct SeenMember {
    allowed: bool,
    granted: u32,
    tier: Option<usize>,
    split: Vec<(usize, u32)>,
    remaining: Option<u32>,
    waits: [Option<Duration>; 4],
}

fn seen(answer: Result<BatchDecision, LimiterError>) -> Seen {
    let batch = answer.map_err(|error| error.to_string())?;
    let member = |decision: &Decision| SeenMember {
        allowed: decision.allowed(),
        granted: decision.granted(),
        tier: decision.tier(),
        split: decision.split().collect(),
        remaining: decision.remaining(),
        waits: [
            Some(decision.retry_after()),
            Some(decision.next_after()),
            Some(decision.reset_after()).filter(|_| !may_be_forgotten(decision)),
            decision.next_token_after(),
        ],
    };
    let members = batch.members().iter().map(member).collect();
    Ok((batch.allowed(), batch.strictest(), members))
}

/// Returns whether a store may forget the bucket, although it is not as a new one. Only the time until a reset depends
/// on that.
fn may_be_forgotten(decision: &Decision) -> bool {
    let algorithm = decision.algorithm();
    algorithm.is_some_and(|algorithm| algorithm.may_be_forgotten())
}

/// Returns the algorithm of a limit, given by its key and that of the algorithm.
pub(super) fn algorithm<'a>(limits: &'a Limits, key: &str) -> Option<&'a Algorithm> {
    let name = key.split_once('~').map_or(key, |(name, _)| name);
    let algorithm = limits.get(name)?.limit.as_ref()?.algorithm()?;
    (format!("{name}{}", algorithm.key()) == key).then_some(algorithm)
}
