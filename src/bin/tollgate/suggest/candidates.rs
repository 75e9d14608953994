//! The rates, windows and periods that are tried.

use std::time::Duration;

use tollgate::{
    Limit,
    limit::{LimitError, format_duration},
    quota::{CalendarUnit, Per, Quota},
    window::Window,
};

/// The kind of a recommended limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gcra,
    Window,
    Quota,
}

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

impl Kind {
    /// The candidates of this kind, with their places.
    pub(crate) fn candidates(self) -> impl Iterator<Item = (usize, Candidate)> {
        let all = CANDIDATES.into_iter().enumerate();
        all.filter(move |(_, candidate)| candidate.kind() == self)
    }
}

/// The number of rates, windows and periods.
pub(super) const RATES: usize = 31;
pub(super) const WINDOWS: usize = 6;
pub(super) const PERIODS: usize = 3;

/// The largest burst or quota, and the largest number that a window remembers.
const MOST: u64 = u32::MAX as u64;
const WINDOW_UNITS: u64 = 4096;

/// A limit without its size: the smallest burst, limit or quota is what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Candidate {
    Rate {
        count: u32,
        period_us: u64,
    },
    Window {
        us: u64,
    },
    Period {
        us: u64,
        start_us: u64,
        unit: CalendarUnit,
    },
}

const fn rate(count: u32, period_us: u64) -> Candidate {
    Candidate::Rate { count, period_us }
}

const fn window(us: u64) -> Candidate {
    Candidate::Window { us }
}

const fn period(us: u64, start_us: u64, unit: CalendarUnit) -> Candidate {
    Candidate::Period { us, start_us, unit }
}

/// All candidates: rates from the lowest to the highest, windows, and periods.
pub(super) const CANDIDATES: [Candidate; RATES + WINDOWS + PERIODS] = [
    rate(1, HOUR),
    rate(2, HOUR),
    rate(5, HOUR),
    rate(10, HOUR),
    rate(20, HOUR),
    rate(30, HOUR),
    rate(1, MINUTE),
    rate(2, MINUTE),
    rate(3, MINUTE),
    rate(5, MINUTE),
    rate(7, MINUTE),
    rate(10, MINUTE),
    rate(15, MINUTE),
    rate(20, MINUTE),
    rate(30, MINUTE),
    rate(45, MINUTE),
    rate(1, SECOND),
    rate(90, MINUTE),
    rate(2, SECOND),
    rate(3, SECOND),
    rate(4, SECOND),
    rate(5, SECOND),
    rate(7, SECOND),
    rate(10, SECOND),
    rate(15, SECOND),
    rate(20, SECOND),
    rate(50, SECOND),
    rate(100, SECOND),
    rate(200, SECOND),
    rate(500, SECOND),
    rate(1000, SECOND),
    window(10 * SECOND),
    window(MINUTE),
    window(5 * MINUTE),
    window(10 * MINUTE),
    window(30 * MINUTE),
    window(HOUR),
    period(HOUR, 0, CalendarUnit::Hour),
    period(DAY, 0, CalendarUnit::Day),
    // The epoch was a Thursday, and weeks start on Monday.
    period(WEEK, 4 * DAY, CalendarUnit::Week),
];

impl Candidate {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Rate { .. } => Kind::Gcra,
            Self::Window { .. } => Kind::Window,
            Self::Period { .. } => Kind::Quota,
        }
    }

    /// The limit of this size.
    pub(super) fn limit(self, size: u32) -> Result<Limit, LimitError> {
        match self {
            Self::Rate { count, period_us } => {
                Limit::new(size, count, Duration::from_micros(period_us))
            }
            Self::Window { us } => Window::new(size, Duration::from_micros(us)).map(Limit::from),
            Self::Period { unit, .. } => Quota::new(size, Per::calendar(unit)).map(Limit::from),
        }
    }

    /// The largest size that suits a log of this length; 0 if none does.
    pub(super) fn largest(self, log_us: u64) -> u64 {
        match self {
            // A client that has used up its burst should get it back within a visit.
            Self::Rate { count, period_us } => {
                let refill = (log_us / 4).clamp(MINUTE, HOUR);
                let most = u128::from(refill) * u128::from(count) / u128::from(period_us);
                u64::try_from(most).unwrap_or(u64::MAX).min(MOST)
            }
            Self::Window { us } if us <= (log_us / 4).max(10 * SECOND) => WINDOW_UNITS,
            Self::Period { us, .. } if us <= log_us.max(HOUR) => MOST,
            Self::Window { .. } | Self::Period { .. } => 0,
        }
    }

    /// What a limit of this size admits in an hour in the long run, for comparisons.
    pub(super) fn per_hour(self, size: u64) -> u128 {
        let size = u128::from(size);
        let hour = u128::from(HOUR);
        match self {
            Self::Rate { count, period_us } => {
                size + u128::from(count) * hour / u128::from(period_us)
            }
            Self::Window { us } | Self::Period { us, .. } => size * hour.div_ceil(u128::from(us)),
        }
    }

    /// The rate, window or period in words.
    pub(crate) fn words(self) -> String {
        match self {
            Self::Rate { count, period_us } => {
                let unit = match period_us {
                    SECOND => "second",
                    MINUTE => "minute",
                    _ => "hour",
                };
                format!("{count} per {unit}")
            }
            Self::Window { us } => format!("any {}", format_duration(Duration::from_micros(us))),
            Self::Period { unit, .. } => format!("a calendar {unit}"),
        }
    }
}
