//! The states of a circuit breaker, and the transitions between them.
//!
//! | from | event | to |
//! |---|---|---|
//! | closed | a call fails | closed with one failure more, or open from the threshold |
//! | closed | a call succeeds | closed without failures |
//! | open, from `retry_at` | a call asks | open during a probe, which carries this state |
//! | open | the probe fails | open, for a longer pause |
//! | open | the probe is dropped | open, and to be probed at once |
//! | open | any call succeeds | closed without failures |
//!
//! - The whole state is one word, and only [`Circuit::change`] changes it, so no thread can see half of a change.
//! - The probe is the call that carries the current state. No two calls that have not ended carry the same one, because each
//!   probe moves `retry_at` beyond the instant at which it began. So there is at most one.
//! - Other calls change an open breaker only by success: those that began while it was closed, and probes that were given up.
//!
//! In the tests below, a model checker tries all interleavings of threads.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The pause after which a store is tried again for the first time, and the longest.
pub(super) const PAUSES: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(1));

/// A probe is given up after the deadline of a decision, because its caller may have stopped polling it. This is the least
/// and the most of that time.
pub(super) const PROBE: (Duration, Duration) = (PAUSES.0, Duration::from_secs(5));

/// The state of a breaker. Times are microseconds since its creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CircuitState {
    /// Lets all calls through. `failures` of them have failed in a row.
    Closed { failures: u32 },
    /// Lets one call through after `retry_at`, as a probe. During a probe, `retry_at` is the time at which it is given up.
    Open {
        retry_at: u64,
        /// The number of times that the first pause has been doubled.
        doublings: u32,
    },
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Succeeded,
    Failed,
    /// It was dropped, which is neither a success nor a failure.
    Dropped,
}

/// A transition between closed and open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    Opened,
    Closed,
}

/// The time at which a call has ended, and the spread of the next pause.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) now: u64,
    /// The part of a pause to wait, in 1024ths.
    pub(super) part: u32,
}

/// A call that was let through. A probe carries the state that it has set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted(Option<CircuitState>);

impl Admitted {
    /// A call that was let through by a closed breaker.
    pub(super) const CLOSED: Self = Self(None);
}

/// Opens after a number of consecutive failures. While it is open, it lets one call at a time through, after growing
/// pauses, to find out whether the store is back.
#[derive(Debug)]
pub(super) struct Circuit<W = AtomicU64> {
    threshold: u32,
    /// The time in microseconds after which a probe is given up.
    probe: u64,
    word: W,
}

impl<W: Word> Circuit<W> {
    pub(super) fn new(threshold: u32, deadline: Duration) -> Self {
        Self {
            threshold,
            probe: micros(deadline.clamp(PROBE.0, PROBE.1)),
            word: W::new(CircuitState::CLOSED.encode()),
        }
    }

    /// Lets a call through, unless the store is known not to answer.
    #[inline]
    pub(super) fn admit(&self, now: impl FnOnce() -> u64) -> Option<Admitted> {
        if let CircuitState::Closed { .. } = self.state() {
            return Some(Admitted(None));
        }
        let now = now();
        let (before, after) = self.change(|state| state.probed(now, self.probe));
        match before {
            // It was closed since it was read above.
            CircuitState::Closed { .. } => Some(Admitted(None)),
            CircuitState::Open { .. } => (before != after).then_some(Admitted(Some(after))),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state(), CircuitState::Open { .. })
    }

    #[inline]
    pub(super) fn is_calm(&self) -> bool {
        self.state() == CircuitState::CLOSED
    }

    /// Counts the end of a call, and returns whether the breaker has opened or closed.
    #[inline]
    pub(super) fn ended(
        &self,
        call: Admitted,
        ended: Ended,
        at: impl FnOnce() -> End,
    ) -> Option<Turned> {
        let changes_nothing = match ended {
            // A failure beside it counts as a later one.
            Ended::Succeeded => self.is_calm(),
            Ended::Failed => false,
            Ended::Dropped => call.0.is_none(),
        };
        if changes_nothing {
            return None;
        }
        let at = at();
        let (before, after) = self.change(|state| state.after(call, ended, self.threshold, at));
        match (before, after) {
            (CircuitState::Closed { .. }, CircuitState::Open { .. }) => Some(Turned::Opened),
            (CircuitState::Open { .. }, CircuitState::Closed { .. }) => Some(Turned::Closed),
            _ => None,
        }
    }

    fn state(&self) -> CircuitState {
        CircuitState::decode(self.word.load())
    }

    /// Changes the state in one step, and returns the states before and after.
    fn change(&self, next: impl Fn(CircuitState) -> CircuitState) -> (CircuitState, CircuitState) {
        let mut word = self.word.load();
        loop {
            let before = CircuitState::decode(word);
            let after = next(before);
            if before == after {
                return (before, after);
            }
            match self.word.replace(word, after.encode()) {
                Ok(()) => return (before, after),
                Err(newer) => word = newer,
            }
        }
    }
}

impl CircuitState {
    const CLOSED: Self = Self::Closed { failures: 0 };

    /// Returns the state after a call has asked to be let through.
    fn probed(self, now: u64, probe: u64) -> Self {
        match self {
            Self::Open {
                retry_at,
                doublings,
            } if now >= retry_at => Self::Open {
                retry_at: now.saturating_add(probe),
                doublings,
            },
            state => state,
        }
    }

    /// Returns the state after the end of a call.
    fn after(self, call: Admitted, ended: Ended, threshold: u32, end: End) -> Self {
        match (self, ended) {
            (_, Ended::Succeeded) => Self::CLOSED,
            (Self::Closed { failures }, Ended::Failed) => {
                let failures = failures.saturating_add(1);
                match failures < threshold {
                    true => Self::Closed { failures },
                    false => Self::open(0, end),
                }
            }
            (Self::Open { doublings, .. }, ended) if call.0 == Some(self) => match ended {
                Ended::Failed => Self::open(doublings + 1, end),
                _ => Self::Open {
                    retry_at: end.now,
                    doublings,
                },
            },
            // It is closed, or another call is the probe.
            (state, _) => state,
        }
    }

    fn open(doublings: u32, end: End) -> Self {
        let longest = (micros(PAUSES.1) / micros(PAUSES.0)).ilog2() + 1;
        let doublings = doublings.min(longest);
        let pause = (micros(PAUSES.0) << doublings).min(micros(PAUSES.1));
        Self::Open {
            retry_at: end.now.saturating_add(pause * u64::from(end.part) / 1024),
            doublings,
        }
    }

    /// The highest bit is set if it is open, and the next three count the doublings.
    fn encode(self) -> u64 {
        match self {
            Self::Closed { failures } => failures.into(),
            Self::Open {
                retry_at,
                doublings,
            } => 1 << 63 | u64::from(doublings) << 60 | retry_at.min((1 << 60) - 1),
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "these are the bits that were put there"
    )]
    fn decode(word: u64) -> Self {
        match word >> 63 {
            0 => Self::Closed {
                failures: word as u32,
            },
            _ => Self::Open {
                retry_at: word & ((1 << 60) - 1),
                doublings: (word >> 60) as u32 & 7,
            },
        }
    }
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A word that threads share: the standard library's, or a model checker's.
pub(super) trait Word {
    fn new(word: u64) -> Self;
    fn load(&self) -> u64;

    /// Replaces `old`, or returns the current value if that is different.
    fn replace(&self, old: u64, new: u64) -> Result<(), u64>;
}

impl Word for AtomicU64 {
    fn new(word: u64) -> Self {
        Self::new(word)
    }

    #[inline]
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::{Arc, atomic::AtomicU64 as Modelled};

    use super::*;

    impl Word for Modelled {
        fn new(word: u64) -> Self {
            Self::new(word)
        }

        fn load(&self) -> u64 {
            self.load(Ordering::Acquire)
        }

        fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
            self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
                .map(drop)
        }
    }

    type SharedCircuit = Arc<Circuit<Modelled>>;

    const LATER: u64 = 60_000_000;

    /// Lets a call through and ends it.
    fn call(circuit: &Circuit<Modelled>, now: u64, ended: Ended) -> Option<Turned> {
        let admitted = circuit.admit(|| now)?;
        circuit.ended(admitted, ended, || End { now, part: 1024 })
    }

    /// Runs calls concurrently, in every possible interleaving. The count must then be right, and a store that
    /// answers later closes the breaker.
    fn model(failures_before: u32, threshold: u32, calls: &'static [(u64, Ended)]) {
        let mut builder = loom::model::Builder::new();
        // More than two threads have too many interleavings to try all of them.
        builder.preemption_bound = (calls.len() > 2).then_some(2);
        builder.check(move || {
            let circuit: SharedCircuit = Arc::new(Circuit::new(threshold, PROBE.1));
            let before = (0..failures_before).filter_map(|_| call(&circuit, 0, Ended::Failed));
            let mut turned: Vec<_> = before.collect();
            let threads: Vec<_> = calls
                .iter()
                .map(|(now, ended)| {
                    let circuit = Arc::clone(&circuit);
                    loom::thread::spawn(move || call(&circuit, *now, *ended))
                })
                .collect();
            turned.extend(
                threads
                    .into_iter()
                    .filter_map(|thread| thread.join().unwrap()),
            );
            let count = |one| turned.iter().filter(|turned| **turned == one).count();
            let (opened, closed) = (count(Turned::Opened), count(Turned::Closed));
            assert_eq!(opened - closed, usize::from(circuit.is_open()));
            let admitted = circuit.admit(|| LATER).expect("it is tried again");
            circuit.ended(admitted, Ended::Succeeded, || End {
                now: LATER,
                part: 512,
            });
            assert_eq!(circuit.state(), CircuitState::CLOSED);
        });
    }

    #[test]
    fn failure_that_opens_it_beside_a_success_leaves_it_able_to_close() {
        model(0, 1, &[(0, Ended::Failed), (0, Ended::Succeeded)]);
        model(1, 2, &[(0, Ended::Failed), (0, Ended::Succeeded)]);
        model(
            1,
            2,
            &[
                (0, Ended::Failed),
                (0, Ended::Succeeded),
                (0, Ended::Failed),
            ],
        );
    }

    #[test]
    fn probe_beside_other_calls_leaves_it_able_to_close() {
        const SOON: u64 = 100_000;
        const GIVEN_UP: u64 = 6_000_000;
        model(1, 1, &[(SOON, Ended::Failed), (SOON, Ended::Succeeded)]);
        model(1, 1, &[(SOON, Ended::Dropped), (2 * SOON, Ended::Failed)]);
        model(1, 1, &[(SOON, Ended::Failed), (GIVEN_UP, Ended::Succeeded)]);
    }

    #[test]
    fn one_probe_is_let_through_at_a_time() {
        loom::model(|| {
            let circuit: SharedCircuit = Arc::new(Circuit::new(1, PROBE.1));
            call(&circuit, 0, Ended::Failed);
            let threads = [(); 2].map(|()| {
                let circuit = Arc::clone(&circuit);
                loom::thread::spawn(move || circuit.admit(|| LATER).is_some())
            });
            let admitted = threads.map(|thread| thread.join().unwrap());
            assert_eq!(admitted.iter().filter(|admitted| **admitted).count(), 1);
        });
    }

    #[test]
    fn probe_that_was_given_up_changes_nothing_when_it_ends() {
        let circuit: Circuit = Circuit::new(1, PROBE.1);
        let end = |now| move || End { now, part: 1024 };
        let first = circuit.admit(|| 0).unwrap();
        assert_eq!(
            circuit.ended(first, Ended::Failed, end(0)),
            Some(Turned::Opened)
        );
        let given_up = circuit.admit(|| 100_000).unwrap();
        let now = 100_000 + micros(PROBE.1);
        let _current = circuit.admit(|| now).unwrap();
        for ended in [Ended::Dropped, Ended::Failed] {
            assert_eq!(circuit.ended(given_up, ended, end(now)), None);
            assert!(
                circuit.admit(|| now + 1).is_none(),
                "the other is under way"
            );
        }
    }

    #[test]
    fn every_state_is_read_as_it_was_written() {
        let open = |retry_at, doublings| CircuitState::Open {
            retry_at,
            doublings,
        };
        let closed = |failures| CircuitState::Closed { failures };
        for state in [
            CircuitState::CLOSED,
            closed(5),
            closed(u32::MAX),
            open(0, 0),
            open((1 << 60) - 1, 4),
        ] {
            assert_eq!(CircuitState::decode(state.encode()), state);
        }
        assert_eq!(
            CircuitState::open(u32::MAX, End { now: 0, part: 1024 }),
            open(1_000_000, 4)
        );
    }
}
