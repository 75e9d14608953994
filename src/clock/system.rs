use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use super::{Clock, Timestamp};

/// The time of day of the system, as one clock for the whole process.
///
/// It reads the time of day twice a second, so it shows the true time within half a second after a step, and after the machine was
/// suspended. In between, it continues with the processor's counter, which takes a fraction of the time to read. A step back gives
/// no units back: a client that has used up its limit waits longer, by the length of the step. The [module docs](super) have an
/// example of a clock.
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
        static CLOCK: LazyLock<(quanta::Clock, TimeOfDay)> = LazyLock::new(Default::default);
        #[cfg(feature = "testing")]
        if let Some(us) = crate::random::simulated::now() {
            return Timestamp(us);
        }
        let (counter, time) = &*CLOCK;
        let count = || counter.delta_as_nanos(0, counter.raw()) / 1000;
        Timestamp(time.now(count, || Timestamp::from(SystemTime::now()).0))
    }
}

/// The longest time that is taken from the counter alone, in microseconds.
const SPAN_US: u64 = 500_000;

/// The time of day, computed from a counter. All numbers are microseconds.
#[derive(Debug, Default)]
struct TimeOfDay {
    /// The time of day when the counter is at 0.
    offset: AtomicU64,
    /// The value of the counter at which the offset has to be measured again.
    until: AtomicU64,
}

impl TimeOfDay {
    #[inline]
    fn now(&self, counter: impl Fn() -> u64, time_of_day: impl Fn() -> u64) -> u64 {
        let until = self.until.load(Ordering::Acquire);
        let offset = self.offset.load(Ordering::Acquire);
        let count = counter();
        if (1..=SPAN_US).contains(&until.wrapping_sub(count)) {
            offset.wrapping_add(count)
        } else {
            self.measure(counter, time_of_day)
        }
    }

    #[cold]
    fn measure(&self, counter: impl Fn() -> u64, time_of_day: impl Fn() -> u64) -> u64 {
        // The time of day is read first. If the thread is stopped in between, the clock is late, and never early.
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
        time: TimeOfDay,
    }

    /// An event of a machine: its name, the step of the counter, and the step of the time of day.
    type Event = (&'static str, i64, i64);

    const EVENTS: [Event; 9] = [
        ("nothing", 0, 0),
        ("step forward", 0, HOUR as i64),
        ("step back", 0, -(HOUR as i64)),
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
                time: TimeOfDay::default(),
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

        /// Reads the clock regularly for this long, and returns its greatest error.
        fn run(&self, us: u64) -> u64 {
            let errors = (0..us / (10 * MS)).map(|_| {
                self.pass(10 * MS);
                self.now().abs_diff(self.time_of_day.get())
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

    #[test]
    fn thread_that_is_stopped_between_two_readings_makes_the_time_late_for_half_a_second() {
        let machine = Machine::new();
        machine.pass(SECOND);
        let time_of_day = || machine.time_of_day.get();
        let readings = Cell::new(0);
        let counter = || {
            readings.set(readings.get() + 1);
            if readings.get() == 2 {
                machine.pass(HOUR);
            }
            machine.counter.get()
        };
        let before = time_of_day();
        assert_eq!(machine.time.now(counter, time_of_day), before);
        assert_eq!((readings.get(), machine.run(SPAN_US)), (2, HOUR));
        assert_eq!(machine.run(SECOND), 0);
    }

    #[test]
    fn all_clocks_of_the_process_show_the_time_of_day() {
        let one = SystemClock::new();
        let other = SystemClock::default();
        let time_of_day = || Timestamp::from(SystemTime::now());
        let off = Duration::from_secs(60);
        // Tries again if the machine's clock was set in the meantime.
        let is_shown = || {
            let before = time_of_day();
            let times: Vec<_> = (0..1000).map(|i| [one, other][i % 2].now()).collect();
            times[0].saturating_add(off) >= before
                && times[999] <= time_of_day().saturating_add(off)
        };
        assert!(is_shown() || is_shown());
    }
}
