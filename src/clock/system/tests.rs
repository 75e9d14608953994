//! The clock on counters that drift, begin again, stand still and leap.

mod machine;

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use self::machine::{Machine, Stop};
use super::*;
use crate::{Limit, Limiter, Limits, MemoryBackend, Transaction};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;
const DAY: u64 = 86_400 * SECOND;

/// Calls the clock in steps, and returns its greatest error in nanoseconds. It never steps back.
fn run(clock: &Corrected<Machine>, steps: impl Iterator<Item = u64>) -> u64 {
    let mut last = clock.elapsed();
    let errors = steps.map(|step| {
        clock.clocks.pass(step);
        let shown = clock.elapsed();
        assert!(shown >= last, "{shown} after {last}");
        last = shown;
        shown.abs_diff(clock.clocks.now())
    });
    errors.max().unwrap_or(0)
}

/// Steps of irregular lengths around `mean`, for as long as `total`.
fn steps(mean: u64, total: u64) -> impl Iterator<Item = u64> {
    (0..total / mean).map(move |i| mean / 2 + i.wrapping_mul(7_919) * 1_000 % mean)
}

#[test]
fn drifting_counter_stays_within_a_millisecond_for_a_month() {
    for drift in [-300, -36, 17, 300] {
        let clock = Corrected::new(Machine::drifting(drift));
        let busy = run(&clock, steps(40 * MILLISECOND, DAY / 24));
        let error = busy.max(run(&clock, steps(10 * SECOND, 30 * DAY)));
        assert!(error < MILLISECOND / 10, "{error} ns by {drift} ppm");
    }
}

#[test]
fn gaps_without_calls_do_no_harm() {
    for drift in [-36, 36] {
        let clock = Corrected::new(Machine::drifting(drift));
        let error = run(&clock, [SECOND, DAY, 5 * DAY, 30 * DAY].into_iter());
        assert!(error < MILLISECOND / 10, "{error} ns by {drift} ppm");
    }
}

#[test]
fn counter_that_begins_again_costs_nothing() {
    let clock = Corrected::new(Machine::drifting(36));
    run(&clock, steps(SECOND, DAY));
    let counted = i64::try_from(clock.clocks.counter()).unwrap();
    clock.clocks.leap(100 - counted);
    // No time may be shown twice, so the clock may be ahead by the rest of the line.
    let ahead = run(&clock, steps(10 * MILLISECOND, SECOND / 10));
    assert!(ahead <= 101 * MILLISECOND, "{ahead}");
    run(&clock, steps(10 * MILLISECOND, SECOND));
    let error = run(&clock, steps(10 * MILLISECOND, DAY / 24));
    assert!(error < MILLISECOND, "{error}");
}

#[test]
fn machine_that_was_suspended_goes_on() {
    // Either the counter has stood still for an hour of the monotonic clock, or it has gone on for an hour that the
    // monotonic clock did not count.
    let hour = 3 * i64::try_from(3_600 * SECOND).unwrap();
    for leap in [-hour, hour] {
        let clock = Corrected::new(Machine::drifting(36));
        run(&clock, steps(SECOND, DAY));
        if leap < 0 {
            clock.clocks.pass(3_600 * SECOND);
        }
        clock.clocks.leap(leap);
        let error = run(&clock, steps(10 * MILLISECOND, SECOND));
        let bound = if leap < 0 {
            3_600 * SECOND
        } else {
            SECOND / 10
        };
        assert!(error <= bound + MILLISECOND, "{error} after {leap}");
        run(&clock, steps(10 * MILLISECOND, SECOND));
        let error = run(&clock, steps(10 * MILLISECOND, SECOND));
        assert!(error < MILLISECOND, "{error} after {leap}");
    }
}

#[test]
fn leap_within_a_line_is_made_up_for_by_slowness() {
    let mut furthest = 0;
    for phase in 0..10 {
        let clock = Corrected::new(Machine::drifting(0));
        run(
            &clock,
            steps(MILLISECOND, SECOND + phase * 10 * MILLISECOND),
        );
        clock.clocks.leap(3 * 60_000_000);
        furthest = furthest.max(run(&clock, steps(MILLISECOND, SECOND / 10)));
        run(&clock, steps(MILLISECOND, SECOND / 4));
        let error = run(&clock, steps(MILLISECOND, SECOND));
        assert!(error < MILLISECOND, "{error}");
    }
    let furthest = furthest / MILLISECOND;
    assert!((20..=100).contains(&furthest), "{furthest}");
}

#[test]
fn it_never_runs_much_faster_than_the_counter() {
    let clock = Corrected::new(Machine::drifting(-400));
    let mut last = (clock.elapsed(), clock.clocks.now());
    for step in steps(3 * MILLISECOND, 60 * SECOND) {
        clock.clocks.pass(step);
        let (shown, now) = (clock.elapsed(), clock.clocks.now());
        let (gained, passed) = (shown - last.0, now - last.1);
        assert!(
            gained <= passed + passed / 1_000 + 100,
            "{gained} in {passed}"
        );
        last = (shown, now);
    }
}

#[test]
fn threads_that_are_kept_waiting_between_the_clocks_do_not_mislead_it() {
    let machine = Machine::drifting(36).interrupted(7);
    let clock = Corrected::new(machine);
    let mut last = 0;
    for step in steps(10 * MILLISECOND, 600 * SECOND) {
        clock.clocks.pass(step);
        let before = clock.clocks.now();
        let shown = clock.elapsed();
        let after = clock.clocks.now();
        assert!(shown >= last);
        let (earliest, latest) = (before - before.min(MILLISECOND), after + MILLISECOND);
        assert!(
            (earliest..=latest).contains(&shown),
            "{shown} in {before}..{after}"
        );
        last = shown;
    }
}

#[test]
fn no_thread_sees_a_time_before_one_that_another_has_seen() {
    const ROUNDS: u64 = 50_000;
    let machine = Machine::drifting(300).reading(20_000);
    let clock = Corrected::new(machine);
    let latest = AtomicU64::new(0);
    let look = || {
        for _ in 0..ROUNDS {
            let seen = latest.load(Ordering::SeqCst);
            let shown = clock.elapsed();
            assert!(shown >= seen, "{shown} after {seen}");
            latest.fetch_max(shown, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(look);
        }
    });
    // Each of some 40 lines in a second was another correction.
    assert!(clock.elapsed() >= 4 * ROUNDS * 20_000 / 2);
}

/// Gaps without calls: within a line, just beyond it, and long ones.
const GAPS: [u64; 6] = [
    0,
    99 * MILLISECOND,
    101 * MILLISECOND,
    300 * MILLISECOND,
    5 * SECOND,
    DAY,
];

#[test]
fn thread_sees_the_time_while_another_one_is_stopped_in_a_correction() {
    let mut stops = 0;
    for gap in GAPS {
        for pause in [0, 300_000, 8 * MILLISECOND, 300 * MILLISECOND] {
            for nth in 0.. {
                let clock = Arc::new(Corrected::new(Machine::drifting(36)));
                run(&clock, steps(10 * MILLISECOND, SECOND));
                clock.clocks.pass(gap);
                let before = clock.clocks.now();
                let seen = Arc::new(AtomicU64::new(0));
                let others = {
                    let (clock, seen) = (Arc::clone(&clock), Arc::clone(&seen));
                    move || {
                        let error = run(&clock, [pause, 0, pause, 0].into_iter());
                        assert!(
                            error < MILLISECOND,
                            "{error} ns at reading {nth} after {gap}"
                        );
                        seen.store(clock.elapsed(), Ordering::SeqCst);
                    }
                };
                let Some(shown) = Stop::during(nth, others, || clock.elapsed()) else {
                    break;
                };
                stops += 1;
                let latest = clock.clocks.now() + MILLISECOND;
                assert!((before - MILLISECOND..=latest).contains(&shown), "{shown}");
                let later = clock.elapsed();
                assert!(later >= shown.max(seen.load(Ordering::SeqCst)), "{later}");
            }
        }
    }
    assert!(
        stops > 60,
        "{stops}: a correction reads a clock three times"
    );
}

/// A limiter that admits one request in a tenth of a second, by a clock of the machine.
fn one_per_window(clock: &Arc<Corrected<Machine>>) -> Limiter {
    struct MachineClock(Arc<Corrected<Machine>>);
    impl Clock for MachineClock {
        fn now(&self) -> Timestamp {
            Timestamp(1_767_225_600_000_000 + self.0.elapsed() / 1000)
        }
    }
    impl fmt::Debug for MachineClock {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("MachineClock").finish_non_exhaustive()
        }
    }
    let window = Limit::window(1, Duration::from_millis(100));
    let limits = Limits::builder().limit("logins", window).build().unwrap();
    Limiter::new(limits, MemoryBackend::new()).with_clock(MachineClock(Arc::clone(clock)))
}

fn is_admitted(limiter: &Limiter) -> usize {
    let decided = limiter.try_spend(&Transaction::new("logins", "alice"));
    let decision = decided.expect("memory never waits").unwrap();
    usize::from(decision.allowed())
}

#[test]
fn window_of_one_admits_one_of_two_threads_after_idleness_wherever_one_is_stopped() {
    let mut stops = 0;
    for gap in GAPS {
        for nth in 0.. {
            let clock = Arc::new(Corrected::new(Machine::drifting(36)));
            let limiter = one_per_window(&clock);
            run(&clock, steps(10 * MILLISECOND, SECOND));
            clock.clocks.pass(gap);
            let admitted = Arc::new(AtomicUsize::new(0));
            let others = {
                let (limiter, admitted) = (limiter.clone(), Arc::clone(&admitted));
                move || admitted.store(is_admitted(&limiter), Ordering::SeqCst)
            };
            let Some(own) = Stop::during(nth, others, || is_admitted(&limiter)) else {
                break;
            };
            stops += 1;
            let others = admitted.load(Ordering::SeqCst);
            assert_eq!(own + others, 1, "stopped at reading {nth} after {gap}");
        }
    }
    assert!(stops > 15, "{stops}");
}

#[test]
fn clones_show_the_same_time() {
    let clock = SystemClock::new();
    let clone = clock.clone();
    let times = [clock.now(), clone.now(), clock.now(), clone.now()];
    assert!(times.is_sorted(), "{times:?}");
}
