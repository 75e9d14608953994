use std::sync::{
    LazyLock,
    atomic::{AtomicU64, Ordering},
};

use super::{Clock, Timestamp};

/// The time of day of the system, as one clock for the whole process. It never shows an earlier time than it has shown
/// before, on any thread.
///
/// It follows the system's time of day, which it reads twice a second: after a step forward, and after the machine was
/// suspended, it shows the true time within half a second. After a step back, it stands still until the time of day has
/// caught up, so that until then no token, unit or quota comes back, and a client that has used up its limit waits for as
/// long as the step.
///
/// Between two readings of the time of day, it goes on by the processor's counter, which is read in a fraction of the time.
/// The [module docs](super) have an example of a clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock(());

impl SystemClock {
    /// The clock of the process.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        static CLOCK: LazyLock<(quanta::Clock, SteadyTime)> = LazyLock::new(Default::default);
        #[cfg(feature = "testing")]
        if let Some(us) = crate::random::simulated::now() {
            return Timestamp(us);
        }
        let (counter, time) = &*CLOCK;
        let count = || counter.delta_as_nanos(0, counter.raw()) / 1000;
        Timestamp(time.now(count, || Timestamp::from(std::time::SystemTime::now()).0))
    }
}

/// How long the time goes on by the counter alone, in microseconds.
const SPAN_US: u64 = 500_000;

/// A time of day that never runs backwards. All numbers are microseconds.
#[derive(Debug, Default)]
struct SteadyTime {
    /// The time of day when the counter is at 0.
    offset: AtomicU64,
    /// The counter at which the offset has to be measured again.
    until: AtomicU64,
    /// The latest time that was shown. It holds for all threads, however their counters differ.
    latest: AtomicU64,
}

impl SteadyTime {
    #[inline]
    fn now(&self, counter: impl Fn() -> u64, time_of_day: impl Fn() -> u64) -> u64 {
        let until = self.until.load(Ordering::Acquire);
        let offset = self.offset.load(Ordering::Acquire);
        let count = counter();
        let time = match (1..=SPAN_US).contains(&until.wrapping_sub(count)) {
            true => offset.wrapping_add(count),
            false => self.measure(counter, time_of_day),
        };
        let latest = self.latest.load(Ordering::Relaxed);
        match time > latest {
            true => self.latest.fetch_max(time, Ordering::Relaxed).max(time),
            false => latest,
        }
    }

    #[cold]
    fn measure(&self, counter: impl Fn() -> u64, time_of_day: impl Fn() -> u64) -> u64 {
        // In this order, a thread that is stopped in between makes the time late, and never early.
        let time = time_of_day();
        let count = counter();
        self.offset
            .store(time.wrapping_sub(count), Ordering::Release);
        self.until
            .store(count.wrapping_add(SPAN_US), Ordering::Release);
        time
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        thread,
        time::{Duration, SystemTime},
    };

    use super::*;

    const MS: u64 = 1000;
    const SECOND: u64 = 1000 * MS;
    const HOUR: u64 = 3600 * SECOND;

    /// A machine with a counter and a time of day, and the clock on it.
    struct Machine {
        counter: Cell<u64>,
        time_of_day: Cell<u64>,
        time: SteadyTime,
    }

    /// What happens to a machine: by how much its counter moves, and its time of day.
    type Event = (&'static str, i64, i64);

    const EVENTS: [Event; 8] = [
        ("nothing", 0, 0),
        ("step forward", 0, HOUR as i64),
        ("suspended, while its counter stood still", 5, HOUR as i64),
        (
            "suspended, while its counter went on",
            HOUR as i64,
            HOUR as i64,
        ),
        (
            "counter that begins again",
            -(100 * HOUR as i64),
            HOUR as i64,
        ),
        ("counter that leaps ahead", HOUR as i64, 0),
        ("counter that leaps ahead a little", 300 * MS as i64, 0),
        ("small step forward", 0, 5),
    ];

    impl Machine {
        fn new() -> Self {
            let machine = Self {
                counter: Cell::new(100 * HOUR),
                time_of_day: Cell::new(1_767_225_600 * SECOND),
                time: SteadyTime::default(),
            };
            assert_eq!(machine.run(2 * SECOND), 0);
            machine
        }

        fn now(&self) -> u64 {
            self.time
                .now(|| self.counter.get(), || self.time_of_day.get())
        }

        fn happen(&self, (_, counter, time_of_day): Event) {
            let moved = |cell: &Cell<u64>, by| cell.set(cell.get().checked_add_signed(by).unwrap());
            moved(&self.counter, counter);
            moved(&self.time_of_day, time_of_day);
        }

        fn pass(&self, us: u64) {
            self.happen(("time passes", us as i64, us as i64));
        }

        /// Reads the clock regularly for this long, and returns its greatest error. It never runs backwards.
        fn run(&self, us: u64) -> u64 {
            let mut last = self.now();
            let errors = (0..us / (10 * MS)).map(|_| {
                self.pass(10 * MS);
                let shown = self.now();
                assert!(shown >= last, "{shown} after {last}");
                last = shown;
                shown.abs_diff(self.time_of_day.get())
            });
            errors.max().unwrap_or(0)
        }
    }

    #[test]
    fn true_time_is_shown_within_half_a_second() {
        for event in EVENTS {
            let machine = Machine::new();
            machine.happen(event);
            machine.run(SPAN_US);
            assert_eq!(machine.run(60 * SECOND), 0, "after {}", event.0);
        }
    }

    #[test]
    fn time_stands_still_after_a_step_back_until_it_has_been_caught_up_with() {
        for step in [20 * MS, 700 * MS, 10 * SECOND, HOUR] {
            let machine = Machine::new();
            let before = machine.now();
            machine.happen(("step back", 0, -(step as i64)));
            let error = machine.run(step);
            assert!((step..=step + SPAN_US).contains(&error), "{step}: {error}");
            assert!(machine.now() <= before + step.min(SPAN_US) + 10 * MS);
            machine.run(SPAN_US);
            assert_eq!(machine.run(60 * SECOND), 0, "{step}");
        }
    }

    #[test]
    fn counter_that_drifts_is_corrected_twice_a_second() {
        for drift in [-300, 300_i64] {
            let machine = Machine::new();
            for _ in 0..6000 {
                machine.happen(("drift", 10 * MS as i64 + drift / 100, 10 * MS as i64));
                let error = machine.now().abs_diff(machine.time_of_day.get());
                assert!(
                    error <= drift.unsigned_abs() / 2 + 10,
                    "{error} by {drift} ppm"
                );
            }
        }
    }

    /// Stops a thread when it reads a clock for the nth time, and returns what it shows. `None` if it reads fewer times.
    fn stopped(machine: &Machine, nth: usize, meanwhile: impl Fn()) -> Option<u64> {
        let (readings, was_stopped) = (Cell::new(0), Cell::new(false));
        let reading = |cell: &Cell<u64>| {
            let read = cell.get();
            if readings.replace(readings.get() + 1) == nth {
                was_stopped.set(true);
                meanwhile();
            }
            read
        };
        let now = || {
            machine.time.now(
                || reading(&machine.counter),
                || reading(&machine.time_of_day),
            )
        };
        let shown = now();
        was_stopped.get().then_some(shown)
    }

    #[test]
    fn thread_that_is_stopped_between_two_readings_does_no_harm() {
        const GAPS: [u64; 4] = [0, 10 * MS, SPAN_US, HOUR];
        let pauses = |gap| GAPS.map(|pause| (gap, pause));
        let mut stops = 0;
        for (event, (gap, pause)) in EVENTS.into_iter().flat_map(|event| {
            GAPS.map(pauses)
                .concat()
                .into_iter()
                .map(move |gaps| (event, gaps))
        }) {
            for nth in 0.. {
                let machine = Machine::new();
                machine.pass(gap);
                let seen = Cell::new(machine.now());
                machine.pass(gap);
                let others = || {
                    machine.happen(event);
                    machine.run(10 * MS);
                    machine.pass(pause);
                    seen.set(machine.now());
                };
                let Some(shown) = stopped(&machine, nth, others) else {
                    break;
                };
                stops += 1;
                assert!(shown >= seen.get() && machine.now() >= shown);
                let is_ahead = machine.now() > machine.time_of_day.get();
                assert!(!is_ahead || event.1 > event.2, "ahead after {}", event.0);
                machine.run(SPAN_US);
                assert_eq!(machine.run(SECOND), 0, "stopped at {nth} by {}", event.0);
            }
        }
        // With a gap, a thread reads the counter, the time of day and the counter again.
        let readings = 1 + 1 + 3 + 3;
        assert!(stops >= EVENTS.len() * GAPS.len() * readings, "{stops}");
    }

    #[test]
    fn no_thread_sees_a_time_before_one_that_another_has_seen() {
        let (time, latest) = (SteadyTime::default(), AtomicU64::new(0));
        let (ticks, time_of_day) = (AtomicU64::new(HOUR), AtomicU64::new(100 * HOUR));
        let look = |ahead: u64| {
            for i in 0..50_000 {
                let seen = latest.load(Ordering::SeqCst);
                let counter = || ticks.fetch_add(20, Ordering::Relaxed) + ahead;
                let shown = time.now(counter, || {
                    time_of_day.load(Ordering::Relaxed) + ticks.load(Ordering::Relaxed)
                });
                assert!(shown >= seen, "{shown} after {seen}");
                latest.fetch_max(shown, Ordering::SeqCst);
                if i % 1000 == 0 {
                    // The time of day steps forward, and back twice as often.
                    let step =
                        [MS, 0_u64.wrapping_sub(MS / 2), 0_u64.wrapping_sub(MS / 2)][i / 1000 % 3];
                    time_of_day.fetch_add(step, Ordering::Relaxed);
                }
            }
        };
        thread::scope(|scope| {
            let look = &look;
            for ahead in [0, 3, 50, 400] {
                scope.spawn(move || look(ahead));
            }
        });
        assert!(latest.load(Ordering::Relaxed) > 101 * HOUR);
    }

    #[test]
    fn all_clocks_of_the_process_show_the_time_of_day_in_one_order() {
        let (one, other) = (SystemClock::new(), SystemClock::default());
        let before = Timestamp::from(SystemTime::now());
        let times: Vec<_> = (0..1000).map(|i| [one, other][i % 2].now()).collect();
        let after = Timestamp::from(SystemTime::now());
        assert!(times.is_sorted());
        // A clock that was set in the meantime is no mistake.
        if before <= after {
            let off = Duration::from_secs(60);
            assert!(
                times[0].saturating_add(off) >= before && times[999] <= after.saturating_add(off)
            );
        }
    }
}
