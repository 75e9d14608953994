//! The rates, windows and periods that are tried.

use std::{sync::LazyLock, time::Duration};

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
        let all = CANDIDATES.iter().copied().enumerate();
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

/// Numbers of requests in a period, from the lowest rate to the highest.
const COUNTS: [(&[u32], u64); 5] = [
    (&[1, 2, 5, 10, 20, 30], HOUR),
    (&[1, 2, 3, 5, 7, 10, 15, 20, 30, 45], MINUTE),
    (&[1], SECOND),
    (&[90], MINUTE),
    (
        &[2, 3, 4, 5, 7, 10, 15, 20, 50, 100, 200, 500, 1000],
        SECOND,
    ),
];

/// All candidates: rates from the lowest to the highest, windows, and periods.
pub(super) static CANDIDATES: LazyLock<Vec<Candidate>> = LazyLock::new(|| {
    let rates = COUNTS.iter().flat_map(|&(counts, period_us)| {
        let rate = move |&count| Candidate::Rate { count, period_us };
        counts.iter().map(rate)
    });
    let windows: [u64; WINDOWS] = [
        10 * SECOND,
        MINUTE,
        5 * MINUTE,
        10 * MINUTE,
        30 * MINUTE,
        HOUR,
    ];
    // The epoch was a Thursday, and weeks start on Monday.
    let periods: [_; PERIODS] = [
        (HOUR, 0, CalendarUnit::Hour),
        (DAY, 0, CalendarUnit::Day),
        (WEEK, 4 * DAY, CalendarUnit::Week),
    ];
    rates
        .chain(windows.map(|us| Candidate::Window { us }))
        .chain(periods.map(|(us, start_us, unit)| Candidate::Period { us, start_us, unit }))
        .collect()
});

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
