use std::{fmt, sync::LazyLock, time::Duration};

use jiff::{
    ToSpan,
    civil::{Date, Time},
    tz::Offset,
};

use super::{
    quota_error::{PerError, QuotaError},
    utc_offset::UtcOffset,
};
use crate::{
    algorithm::{limit_error::LimitError, ticks::MAX_TICKS_US},
    clock::Timestamp as Instant,
};

const HOUR_US: u64 = 3_600_000_000;
const DAY_US: u64 = 24 * HOUR_US;

/// The period of a [`Quota`](super::Quota): a calendar hour, day, week or month, or a span that starts with the client's
/// first request.
///
/// Calendar periods are in UTC, unless [`at_offset`](Self::at_offset) says otherwise. A week starts on Monday.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, quota::{Per, UtcOffset}};
///
/// let per_month = Limit::quota(10_000, Per::Month);
/// // Days that start at midnight in a place two hours ahead of UTC.
/// let per_local_day = Limit::quota(1000, Per::Day.at_offset(UtcOffset::hours(2)));
/// // Within the 24 hours that start with the client's first request.
/// let per_day_of_use = Limit::quota(1000, Per::first_use(Duration::from_secs(24 * 60 * 60)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Per(PeriodKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PeriodKind {
    Calendar(CalendarUnit, UtcOffset),
    /// A length in microseconds.
    FirstUse(u64),
}

/// The unit of a calendar period. See [`Per`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CalendarUnit {
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
    /// Seven days, starting on Monday.
    Week,
    /// 28 to 31 days, starting on the first.
    Month,
}

#[expect(
    non_upper_case_globals,
    reason = "they are used like the variants of an enum"
)]
impl Per {
    /// Each hour of the day.
    pub const Hour: Self = Self::calendar(CalendarUnit::Hour);
    /// Each day.
    pub const Day: Self = Self::calendar(CalendarUnit::Day);
    /// Each week, starting on Monday.
    pub const Week: Self = Self::calendar(CalendarUnit::Week);
    /// Each month.
    pub const Month: Self = Self::calendar(CalendarUnit::Month);
}

impl Per {
    /// A span of this length that starts with the client's first request. The next span starts with the first request
    /// after that.
    ///
    /// # Panics
    ///
    /// If the length is 0, has a fraction of a microsecond, or is more than 2⁵¹ µs (71 years).
    #[must_use]
    #[track_caller]
    pub const fn first_use(length: Duration) -> Self {
        match Self::checked(length) {
            Ok(per) => per,
            Err(PerError::Zero) => panic!("a period of 0 limits nothing: use at least 1 µs"),
            Err(PerError::TooFine) => {
                panic!("a period is a whole number of microseconds: round it to one")
            }
            Err(PerError::TooLong) => panic!("a period is at most 71 years: shorten it"),
        }
    }

    /// Does what [`first_use`](Self::first_use) does, for lengths that are not constants, such as those from a file.
    ///
    /// # Errors
    ///
    /// If the length is 0, has a fraction of a microsecond, or is more than 2⁵¹ µs (71 years).
    pub const fn checked_first_use(length: Duration) -> Result<Self, LimitError> {
        match Self::checked(length) {
            Ok(per) => Ok(per),
            Err(error) => Err(LimitError::quota(QuotaError::Length(error))),
        }
    }

    pub(super) const fn checked(length: Duration) -> Result<Self, PerError> {
        if length.is_zero() {
            return Err(PerError::Zero);
        }
        if !length.subsec_nanos().is_multiple_of(1000) {
            return Err(PerError::TooFine);
        }
        if length.as_micros() > MAX_TICKS_US as u128 {
            return Err(PerError::TooLong);
        }
        let us = length.as_secs() * 1_000_000 + length.subsec_micros() as u64;
        Ok(Self(PeriodKind::FirstUse(us)))
    }

    /// The calendar period of this unit, in UTC.
    #[must_use]
    pub const fn calendar(unit: CalendarUnit) -> Self {
        Self(PeriodKind::Calendar(unit, UtcOffset::UTC))
    }

    /// Moves a calendar period to an offset from UTC: at `+02:00`, a day starts two hours before it does in UTC.
    ///
    /// # Panics
    ///
    /// If the period starts with the first request, because that has no calendar.
    #[must_use]
    #[track_caller]
    pub const fn at_offset(self, offset: UtcOffset) -> Self {
        match self.0 {
            PeriodKind::Calendar(unit, _) => Self(PeriodKind::Calendar(unit, offset)),
            PeriodKind::FirstUse(_) => {
                panic!(
                    "a period that starts with the first request has no offset from UTC: leave it out"
                )
            }
        }
    }

    /// The calendar unit and its offset from UTC, or `None` for a period from first use.
    #[must_use]
    pub const fn calendar_unit(self) -> Option<(CalendarUnit, UtcOffset)> {
        match self.0 {
            PeriodKind::Calendar(unit, offset) => Some((unit, offset)),
            PeriodKind::FirstUse(_) => None,
        }
    }

    /// The length of a period that starts with the first request, or `None` for a calendar period.
    #[must_use]
    pub const fn first_use_length(self) -> Option<Duration> {
        match self.0 {
            PeriodKind::Calendar(..) => None,
            PeriodKind::FirstUse(us) => Some(Duration::from_micros(us)),
        }
    }

    /// Returns whether the periods of this kind have different lengths.
    pub(crate) const fn is_month(self) -> bool {
        matches!(self.0, PeriodKind::Calendar(CalendarUnit::Month, _))
    }

    /// Returns the longest length of a period, in µs.
    pub(crate) const fn longest(self) -> u64 {
        match self.0 {
            PeriodKind::Calendar(unit, _) => unit.longest(),
            PeriodKind::FirstUse(us) => us,
        }
    }

    /// Returns the start of the period that contains `now` (µs since the epoch), which is at least 0.
    #[inline]
    pub(crate) fn start(self, now: u64) -> u64 {
        match self.0 {
            PeriodKind::Calendar(unit, offset) => unit.bounds(offset, now).0,
            PeriodKind::FirstUse(_) => now,
        }
    }

    /// Returns the end of the period that contains `start` (µs since the epoch).
    #[inline]
    pub(crate) fn end(self, start: u64) -> u64 {
        match self.0 {
            PeriodKind::Calendar(unit, offset) => unit.bounds(offset, start).1,
            PeriodKind::FirstUse(us) => start.saturating_add(us),
        }
    }

    /// Returns the length of the period that contains `start`, in µs.
    pub(crate) fn length(self, start: u64) -> u64 {
        match self.0 {
            PeriodKind::Calendar(CalendarUnit::Month, offset) => {
                let [first, next] = months(offset, start);
                next.saturating_sub(first).cast_unsigned()
            }
            _ => self.longest(),
        }
    }
}

impl CalendarUnit {
    pub(crate) const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    /// Returns the unit that [`Display`](fmt::Display) writes as this word.
    pub(crate) fn named(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|unit| unit.word() == word)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Returns the longest length, in µs.
    pub(crate) const fn longest(self) -> u64 {
        match self {
            Self::Hour => HOUR_US,
            Self::Day => DAY_US,
            Self::Week => 7 * DAY_US,
            Self::Month => 31 * DAY_US,
        }
    }

    /// Returns the start and the end of the period that contains an instant.
    #[inline]
    fn bounds(self, offset: UtcOffset, at: u64) -> (u64, u64) {
        /// The epoch was a Thursday: three days after a Monday.
        const SINCE_MONDAY: u64 = 3 * DAY_US;
        /// Keeps local time above zero, and is a whole number of hours, days and weeks.
        const WEEK: u64 = 7 * DAY_US;
        let at = at.min(LATEST);
        let local = (at + WEEK).saturating_add_signed(offset.micros());
        let around = |since_start: u64, length: u64| {
            let start = at.saturating_sub(since_start);
            (start, at + (length - since_start))
        };
        match self {
            Self::Hour => around(local % HOUR_US, HOUR_US),
            Self::Day => around(local % DAY_US, DAY_US),
            Self::Week => around((local + SINCE_MONDAY) % WEEK, WEEK),
            Self::Month => {
                let [start, end] = months(offset, at);
                (micros(start), micros(end))
            }
        }
    }
}

/// An instant after every decision.
const LATEST: u64 = Instant::END.as_micros();

const fn micros(us: i64) -> u64 {
    if us < 0 { 0 } else { us.cast_unsigned() }
}

/// Returns the starts of the month that contains an instant, and of the next one.
#[inline]
fn months(offset: UtcOffset, at: u64) -> [i64; 2] {
    /// The average month: a 4800th of 400 years, after which the calendar repeats itself.
    const AVERAGE_US: i64 = 2_629_746_000_000;
    let starts = &*MONTHS;
    let local = at.min(LATEST).cast_signed() + offset.micros();
    let since = (local - starts[0]).max(0) / AVERAGE_US;
    let mut month = usize::try_from(since).unwrap_or(0);
    // The estimate assumes equally long months, so it is off by little.
    while starts[month] > local {
        month -= 1;
    }
    while starts[month + 1] <= local {
        month += 1;
    }
    [starts[month], starts[month + 1]].map(|start| start - offset.micros())
}

/// The start of each month in local time, beginning with the month before the epoch. A division and a lookup are faster
/// than the library, which would halve the speed on hot buckets.
static MONTHS: LazyLock<Box<[i64]>> = LazyLock::new(|| {
    let first = Date::constant(1969, 12, 1);
    let months = first.series(1.month());
    let starts = months.map(|month| {
        let midnight = Offset::UTC.to_timestamp(month.to_datetime(Time::midnight()));
        midnight
            .expect("a date of this century or the next")
            .as_microsecond()
    });
    let latest = LATEST.cast_signed();
    let month = 31 * DAY_US.cast_signed();
    starts
        .take_while(|start| *start < latest + 3 * month)
        .collect()
});

impl fmt::Display for CalendarUnit {
    /// Writes `hour`, `day`, `week` or `month`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use jiff::{
        Timestamp, Unit,
        civil::{DateTime, DateTimeRound, Weekday, date},
    };

    use super::*;

    fn local(offset: UtcOffset, at: u64) -> DateTime {
        let offset = Offset::from_seconds(i32::from(offset.as_minutes()) * 60).unwrap();
        offset.to_datetime(Timestamp::from_microsecond(at.cast_signed()).unwrap())
    }

    fn global(offset: UtcOffset, at: DateTime) -> i64 {
        let offset = Offset::from_seconds(i32::from(offset.as_minutes()) * 60).unwrap();
        offset.to_timestamp(at).unwrap().as_microsecond()
    }

    /// Computes the bounds with the library, independently of the code.
    fn expected(unit: CalendarUnit, offset: UtcOffset, at: u64) -> (u64, u64) {
        let local = local(offset, at);
        let floor = |unit| {
            let floor = DateTimeRound::new()
                .smallest(unit)
                .mode(jiff::RoundMode::Floor);
            local.round(floor).unwrap()
        };
        let (start, end) = match unit {
            CalendarUnit::Hour => (floor(Unit::Hour), floor(Unit::Hour) + 1.hour()),
            CalendarUnit::Day => (floor(Unit::Day), floor(Unit::Day) + 1.day()),
            CalendarUnit::Week => {
                let start = local
                    .date()
                    .tomorrow()
                    .unwrap()
                    .nth_weekday(-1, Weekday::Monday);
                let start = start.unwrap().at(0, 0, 0, 0);
                (start, start + 1.week())
            }
            CalendarUnit::Month => {
                let start = date(local.year(), local.month(), 1).at(0, 0, 0, 0);
                (start, start + 1.month())
            }
        };
        (micros(global(offset, start)), micros(global(offset, end)))
    }

    fn assert_bounds(unit: CalendarUnit, offset: UtcOffset, at: u64) {
        let found = unit.bounds(offset, at);
        assert_eq!(
            found,
            expected(unit, offset, at),
            "{unit} of {at} at {offset}"
        );
        assert!((found.0..found.1).contains(&at));
    }

    #[test]
    fn bounds_of_every_month_until_2112_are_those_of_the_library() {
        for offset in [
            UtcOffset::minutes(-1439),
            UtcOffset::UTC,
            UtcOffset::minutes(1439),
        ] {
            let mut at = 0;
            while at < Instant::END.as_micros() {
                for unit in CalendarUnit::ALL {
                    for at in [at.saturating_sub(1), at, at + 1] {
                        assert_bounds(unit, offset, at);
                    }
                }
                at = CalendarUnit::Month.bounds(offset, at).1;
            }
        }
    }

    #[test]
    fn bounds_are_those_of_the_library_at_all_offsets_and_around_leap_days() {
        let days = [
            (1970, 1, 1),
            (2000, 2, 29),
            (2024, 2, 29),
            (2026, 12, 31),
            (2100, 2, 28),
        ];
        for (year, month, day) in days {
            for minutes in -1439..=1439 {
                let offset = UtcOffset::minutes(minutes);
                let midnight = global(offset, date(year, month, day).at(0, 0, 0, 0));
                for later in [-1, 0, 1, 86_400_000_000 - 1, 86_400_000_000] {
                    for unit in CalendarUnit::ALL {
                        assert_bounds(unit, offset, micros(midnight + later));
                    }
                }
            }
        }
    }

    #[test]
    fn length_of_a_month_is_that_of_its_days() {
        let days = |year, month, day| {
            let at = global(UtcOffset::UTC, date(year, month, day).at(23, 59, 59, 0));
            Per::Month.length(micros(at)) / DAY_US
        };
        assert_eq!(
            (days(2026, 1, 31), days(2026, 2, 28), days(2026, 4, 1)),
            (31, 28, 30)
        );
        assert_eq!(
            (days(2024, 2, 29), days(2100, 2, 28), days(1970, 1, 1)),
            (29, 28, 31)
        );
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for (length, error) in [
            (Duration::ZERO, PerError::Zero),
            (Duration::from_nanos(1), PerError::TooFine),
            (Duration::from_micros((1 << 51) + 1), PerError::TooLong),
            (Duration::MAX, PerError::TooFine),
        ] {
            assert_eq!(Per::checked(length), Err(error));
        }
        let longest = Duration::from_micros(1 << 51);
        assert_eq!(Per::first_use(longest).first_use_length(), Some(longest));
    }

    #[test]
    #[should_panic(expected = "has no offset from UTC")]
    fn first_use_has_no_offset() {
        let _ = Per::first_use(Duration::from_secs(1)).at_offset(UtcOffset::UTC);
    }
}
