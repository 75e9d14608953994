//! A circuit breaker. While a store keeps failing, it is only probed, by one decision at a time.

use std::{mem, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::random;

/// The number of failures in a row that opens the breaker.
const MOST_FAILURES: u32 = 5;

/// The first and the longest pause before a probe. Half of each is random, so that a fleet does not probe all at once.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Decides whether a store is asked. Clones are the same breaker.
///
/// A closed breaker lets all attempts pass. Five failures in a row open it. An open breaker lets one attempt pass at a time, as a
/// probe: the first after 50 to 100 ms, and each further one after twice the pause, up to a second. Any success closes it.
///
/// A failure counts if its attempt began after the failure before it. So decisions that a store makes together, in one call, fail
/// as one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaker(Arc<Mutex<BreakerState>>);

#[derive(Debug)]
enum BreakerState {
    Closed {
        /// The number of failures since the last success.
        failures: u32,
        /// The instant of the last of these.
        last: Option<Instant>,
    },
    Open {
        pause: Duration,
        probe_at: Instant,
        is_probed: bool,
    },
}

impl Default for BreakerState {
    fn default() -> Self {
        Self::Closed {
            failures: 0,
            last: None,
        }
    }
}

/// Permission to ask the store once. An attempt that is dropped without a result counts as neither success nor failure. If it was a
/// probe, another one can follow.
#[derive(Debug)]
#[must_use = "the breaker learns nothing from an attempt without a result"]
pub(crate) struct Attempt {
    breaker: Breaker,
    begun: Instant,
    is_probe: bool,
}

impl Breaker {
    /// Returns permission to ask the store, unless the breaker is open and no probe is due.
    pub(crate) fn attempt(&self) -> Option<Attempt> {
        let is_probe = match &mut *self.0.lock() {
            BreakerState::Closed { .. } => false,
            BreakerState::Open {
                probe_at,
                is_probed,
                ..
            } => {
                if *is_probed || Instant::now() < *probe_at {
                    return None;
                }
                *is_probed = true;
                true
            }
        };
        Some(Attempt {
            breaker: self.clone(),
            begun: Instant::now(),
            is_probe,
        })
    }

    /// Closes the breaker, for a store that has just shown that it answers.
    pub(crate) fn close(&self) {
        *self.0.lock() = BreakerState::default();
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.0.lock(), BreakerState::Open { .. })
    }
}

impl BreakerState {
    fn failed(&mut self, begun: Instant, is_probe: bool) {
        match self {
            // It was on its way with the one that has failed before.
            Self::Closed { last, .. } if last.is_some_and(|last| begun < last) => {}
            Self::Closed { failures, last } => {
                *failures += 1;
                *last = Some(Instant::now());
                if *failures >= MOST_FAILURES {
                    *self = Self::open(FIRST_PAUSE);
                }
            }
            Self::Open { pause, .. } if is_probe => {
                *self = Self::open(LONGEST_PAUSE.min(*pause * 2));
            }
            // The attempt began before the breaker opened.
            Self::Open { .. } => {}
        }
    }

    fn open(pause: Duration) -> Self {
        let half = pause / 2;
        let random = u32::try_from(random::number() % 1000).unwrap_or_default();
        Self::Open {
            pause,
            probe_at: Instant::now() + half + half * random / 1000,
            is_probed: false,
        }
    }
}

impl Attempt {
    /// Records that the store has answered.
    pub(crate) fn succeeded(mut self) {
        self.is_probe = false;
        self.breaker.close();
    }

    /// Records that the store has not answered.
    pub(crate) fn failed(mut self) {
        let is_probe = mem::take(&mut self.is_probe);
        self.breaker.0.lock().failed(self.begun, is_probe);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.is_probe
            && let BreakerState::Open { is_probed, .. } = &mut *self.breaker.0.lock()
        {
            *is_probed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tokio::time::advance;

    use super::*;

    fn fail(breaker: &Breaker, times: u32) {
        for _ in 0..times {
            breaker.attempt().unwrap().failed();
        }
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_in_between_does_not() {
        let breaker = Breaker::default();
        fail(&breaker, 4);
        breaker.attempt().unwrap().succeeded();
        fail(&breaker, 4);
        drop(breaker.attempt());
        assert!(!breaker.is_open());
        fail(&breaker, 1);
        assert!(breaker.is_open() && breaker.attempt().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_were_under_way_together_fail_once() {
        let breaker = Breaker::default();
        for _ in 0..4 {
            let together: Vec<_> = (0..9).map(|_| breaker.attempt().unwrap()).collect();
            advance(Duration::from_millis(1)).await;
            together.into_iter().for_each(Attempt::failed);
        }
        assert!(!breaker.is_open());
        fail(&breaker, 1);
        assert!(breaker.is_open());
    }

    #[tokio::test(start_paused = true)]
    async fn open_breaker_lets_one_probe_pass_at_a_time() {
        let breaker = Breaker::default();
        let [late, answered] = [(); 2].map(|()| breaker.attempt().unwrap());
        fail(&breaker, 5);
        for pause in [100, 200, 400, 800, 1000, 1000] {
            let half = Duration::from_millis(pause / 2);
            advance(half - Duration::from_millis(2)).await;
            assert!(breaker.attempt().is_none(), "{pause}");
            advance(half + Duration::from_millis(3)).await;
            let probe = breaker.attempt().unwrap();
            assert!(breaker.attempt().is_none(), "{pause}");
            drop(probe);
            let probe = breaker.attempt().unwrap();
            probe.failed();
            assert!(breaker.attempt().is_none(), "{pause}");
        }
        advance(LONGEST_PAUSE).await;
        late.failed();
        drop(
            breaker
                .attempt()
                .expect("a late failure postpones no probe"),
        );
        answered.succeeded();
        assert!(!breaker.is_open());
        fail(&breaker, 4);
        assert!(!breaker.is_open(), "it counts from the last success");
    }

    #[tokio::test(start_paused = true)]
    async fn probes_of_a_fleet_are_spread_over_half_a_pause() {
        let now = Instant::now();
        let pauses: HashSet<_> = (0..1000)
            .filter_map(|_| match BreakerState::open(FIRST_PAUSE) {
                BreakerState::Open { probe_at, .. } => Some(probe_at - now),
                BreakerState::Closed { .. } => None,
            })
            .collect();
        assert!(pauses.len() > 100);
        assert!(
            pauses
                .iter()
                .all(|pause| (FIRST_PAUSE / 2..FIRST_PAUSE).contains(pause))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn probe_that_succeeds_closes_it() {
        let breaker = Breaker::default();
        fail(&breaker, 5);
        advance(FIRST_PAUSE).await;
        breaker.attempt().unwrap().succeeded();
        let both = [breaker.attempt(), breaker.attempt()];
        assert!(both.iter().all(Option::is_some));
    }
}
