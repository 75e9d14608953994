//! The arithmetic of [`SystemClock`](super::SystemClock), without any I/O: it computes the shown time from readings of
//! a fast counter and of the system's monotonic clock.
//!
//! The time is a chain of straight lines over the counter. A line holds for a tenth of a second. The next line begins
//! no earlier than this one ends, so the time never steps back. Its slope brings it back to the monotonic clock.

/// The length of a line, in nanoseconds.
const SPAN: u64 = 100_000_000;
/// A line exceeds the counter's nominal rate by at most one part in this many.
const MAX_HASTE: u64 = 2_000;
/// A clock that is further behind than this, in nanoseconds, is corrected in one step.
const MAX_LAG: u64 = 1_000_000;

/// Both clocks, read at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockSample {
    pub(super) counter: u64,
    /// Nanoseconds of the monotonic clock since the first sample.
    pub(super) elapsed: u64,
}

/// A stretch of the counter, and the time shown on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockLine {
    /// The counter where the line begins.
    pub(super) counter: u64,
    /// The number of ticks that it covers.
    pub(super) span: u64,
    /// The time at its beginning, in nanoseconds since the first sample.
    pub(super) time: u64,
    /// Its slope: nanoseconds in 2³² ticks.
    pub(super) rate: u64,
}

impl ClockLine {
    /// The first line, of a counter that makes 2³² ticks in `nominal` nanoseconds.
    pub(super) fn first(sample: ClockSample, nominal: u64) -> Self {
        Self {
            counter: sample.counter,
            span: ticks(nominal),
            time: sample.elapsed,
            rate: nominal,
        }
    }

    /// The time at a reading of the counter, or `None` where the line does not hold.
    #[inline]
    pub(super) fn at(&self, counter: u64) -> Option<u64> {
        let passed = counter.wrapping_sub(self.counter);
        // It cannot overflow: a line's ticks at its slope are about `SPAN << 32`.
        (passed < self.span).then(|| self.time + ((passed * self.rate) >> 32))
    }

    /// Returns the last time that the line shows.
    pub(super) fn end(&self) -> u64 {
        self.time + scale(self.span, self.rate)
    }

    /// Returns whether a reading of the counter is beyond the end of the line.
    pub(super) fn is_over_at(&self, counter: u64) -> bool {
        counter.wrapping_sub(self.counter) as i64 >= self.span as i64
    }

    /// Returns the next line, from a sample that this one does not cover.
    ///
    /// The next line begins at the sample's time, unless that would step back or run too fast.
    pub(super) fn next(&self, sample: ClockSample, nominal: u64) -> Self {
        let (end, due) = (self.end(), sample.elapsed);
        // Nobody has read a time beyond the end of this line, so the time may have passed at any rate since.
        let over = match self.is_over_at(sample.counter) {
            true => sample.counter.wrapping_sub(self.counter) - self.span,
            false => 0,
        };
        let latest = end.saturating_add(scale(over, hastened(nominal)));
        let is_lost = due > latest.saturating_add(MAX_LAG);
        let time = if is_lost { due } else { due.clamp(end, latest) };
        Self {
            counter: sample.counter,
            span: ticks(nominal),
            time,
            rate: slope(due, time, nominal),
        }
    }
}

/// Returns the slope of a line that begins at `time` instead of `due`, and is correct at its end.
fn slope(due: u64, time: u64, nominal: u64) -> u64 {
    let lag = i128::from(due) - i128::from(time);
    let rate = i128::from(nominal) + i128::from(nominal) * lag / i128::from(SPAN);
    let bounded = rate.clamp((nominal / 2).into(), hastened(nominal).into());
    u64::try_from(bounded).unwrap_or(nominal)
}

fn hastened(nominal: u64) -> u64 {
    nominal + nominal / MAX_HASTE
}

/// Returns the ticks of a line.
fn ticks(nominal: u64) -> u64 {
    saturate((u128::from(SPAN) << 32) / u128::from(nominal))
}

/// Returns the nanoseconds of a number of ticks.
pub(super) fn scale(ticks: u64, rate: u64) -> u64 {
    saturate((u128::from(ticks) * u128::from(rate)) >> 32)
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counter of one tick in a nanosecond.
    const NOMINAL: u64 = 1 << 32;

    fn sample(counter: u64, elapsed: u64) -> ClockSample {
        ClockSample { counter, elapsed }
    }

    fn first() -> ClockLine {
        ClockLine::first(sample(1_000, 0), NOMINAL)
    }

    #[test]
    fn line_holds_for_its_span_only() {
        let line = first();
        assert_eq!((line.at(999), line.at(1_000)), (None, Some(0)));
        assert_eq!(line.at(1_000 + SPAN - 1), Some(SPAN - 1));
        assert_eq!(line.at(1_000 + SPAN), None);
        assert_eq!(line.end(), SPAN);
        assert!(line.is_over_at(1_000 + SPAN));
        assert!(!line.is_over_at(999) && !line.is_over_at(0));
    }

    #[test]
    fn small_error_is_made_up_for_until_the_end() {
        for error in [-40_000, 0, 40_000] {
            let due = SPAN.saturating_add_signed(error);
            let line = first().next(sample(1_000 + SPAN, due), NOMINAL);
            assert_eq!(line.time, SPAN, "it goes on where the other one ended");
            let left = line.end().abs_diff(due + SPAN);
            assert!(left <= 1, "{error} becomes {left}");
        }
    }

    #[test]
    fn haste_and_slowness_are_bounded() {
        let late = first().next(sample(1_000 + SPAN, SPAN + MAX_LAG), NOMINAL);
        assert_eq!((late.time, late.rate), (SPAN, hastened(NOMINAL)));
        let early = first().next(sample(1_000 + SPAN, SPAN / 4), NOMINAL);
        assert_eq!((early.time, early.rate), (SPAN, NOMINAL / 2));
    }

    #[test]
    fn counter_that_leaps_is_not_believed() {
        // The machine was suspended. Its counter went on, and its monotonic clock did not.
        let line = first().next(sample(1_000 + 1_000 * SPAN, SPAN / 2), NOMINAL);
        assert_eq!((line.time, line.rate), (SPAN, NOMINAL / 2));
        assert_eq!(
            line.next(sample(line.counter + SPAN, SPAN * 3 / 2), NOMINAL)
                .rate,
            NOMINAL
        );
    }
}
