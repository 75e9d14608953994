//! The rates, windows and periods that are tried.

use std::{sync::LazyLock, time::Duration};

use serde_json::{Value, json};
use tollgate::{
    Limit,
    limit::format_duration,
    quota::{CalendarUnit, Per},
};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// The largest burst or quota, and the largest number that a window remembers.
const MOST: u64 = u32::MAX as u64;
const WINDOW_UNITS: u64 = 4096;

/// Numbers of requests in a period, from the lowest rate to the highest.
const RATES: [(&[u64], u64); 5] = [
    (&[1, 2, 5, 10, 20, 30], HOUR),
    (&[1, 2, 3, 5, 7, 10, 15, 20, 30, 45], MINUTE),
    (&[1], SECOND),
    (&[90], MINUTE),
    (
        &[2, 3, 4, 5, 7, 10, 15, 20, 50, 100, 200, 500, 1000],
        SECOND,
    ),
];

const WINDOWS: [u64; 6] = [
    10 * SECOND,
    MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    30 * MINUTE,
    HOUR,
];

const PERIODS: [u64; 3] = [HOUR, DAY, WEEK];

/// The kind of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Gcra,
    Window,
    Quota,
}

/// A limit without its size: the smallest burst, limit or quota is what is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) kind: Kind,
    /// How many come back in each period of a rate; 1 otherwise.
    pub(super) count: u64,
    /// The length of the period or window, in microseconds.
    pub(super) us: u64,
}

/// All candidates: rates from the lowest to the highest, windows, and periods.
pub(super) static CANDIDATES: LazyLock<Vec<Candidate>> = LazyLock::new(|| {
    let of = |kind| move |us: u64| Candidate { kind, count: 1, us };
    let rates = RATES.iter().flat_map(|&(counts, us)| {
        let kind = Kind::Gcra;
        counts
            .iter()
            .map(move |&count| Candidate { kind, count, us })
    });
    let windows = WINDOWS.into_iter().map(of(Kind::Window));
    let periods = PERIODS.into_iter().map(of(Kind::Quota));
    rates.chain(windows).chain(periods).collect()
});

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Gcra, Self::Window, Self::Quota];

    /// The candidates of this kind, with their places.
    pub(super) fn candidates(self) -> impl Iterator<Item = (usize, Candidate)> {
        let all = CANDIDATES.iter().copied().enumerate();
        all.filter(move |(_, candidate)| candidate.kind == self)
    }
}

impl Candidate {
    fn unit(self) -> CalendarUnit {
        match self.us {
            HOUR => CalendarUnit::Hour,
            DAY => CalendarUnit::Day,
            _ => CalendarUnit::Week,
        }
    }

    /// The limit of this size, if it can be had.
    pub(super) fn limit(self, size: u32) -> Option<Limit> {
        let period = Duration::from_micros(self.us);
        match self.kind {
            Kind::Gcra => Limit::new(size, u32::try_from(self.count).ok()?, period).ok(),
            Kind::Window => Some(Limit::window(size, period)),
            Kind::Quota => Some(Limit::quota(size, Per::calendar(self.unit()))),
        }
    }

    /// The limit of this size as `--json` prints it.
    pub(super) fn as_json(self, size: u32) -> Value {
        let Self { count, us, .. } = self;
        match self.kind {
            Kind::Gcra => json!({"kind": "gcra", "burst": size, "count": count, "period_us": us}),
            Kind::Window => json!({"kind": "window", "units": size, "window_us": us}),
            Kind::Quota => json!({"kind": "quota", "quota": size, "per": self.unit().to_string()}),
        }
    }

    /// The number of the calendar period that an instant is in. The epoch was a Thursday, and weeks start on Monday.
    pub(super) fn period(self, at: u64) -> u64 {
        let start = if self.us == WEEK { 4 * DAY } else { 0 };
        (at + self.us - start) / self.us
    }

    /// The largest size that suits a log of this length; 0 if none does.
    pub(super) fn largest(self, log_us: u64) -> u64 {
        match self.kind {
            // A client that has used up its burst should get it back within a visit.
            Kind::Gcra => {
                let refill = (log_us / 4).clamp(MINUTE, HOUR);
                (refill * self.count / self.us).min(MOST)
            }
            Kind::Window if self.us <= (log_us / 4).max(10 * SECOND) => WINDOW_UNITS,
            Kind::Quota if self.us <= log_us.max(HOUR) => MOST,
            Kind::Window | Kind::Quota => 0,
        }
    }

    /// What a limit of this size admits in an hour in the long run, for comparisons.
    pub(super) fn per_hour(self, size: u64) -> u64 {
        match self.kind {
            Kind::Gcra => size.saturating_add(self.count * (HOUR / self.us)),
            Kind::Window | Kind::Quota => size.saturating_mul(HOUR.div_ceil(self.us)),
        }
    }

    /// The rate, window or period in words.
    pub(super) fn words(self) -> String {
        let per = match self.us {
            SECOND => "second",
            MINUTE => "minute",
            _ => "hour",
        };
        match self.kind {
            Kind::Gcra => format!("{} per {per}", self.count),
            Kind::Window => format!("any {}", format_duration(Duration::from_micros(self.us))),
            Kind::Quota => format!("a calendar {}", self.unit()),
        }
    }
}
