//! Ways to count requests, and the limit that a client needs with each. Times are in microseconds.

use tollgate::Limit;

pub(super) const HOUR: u64 = 3_600_000_000;
pub(super) const DAY: u64 = 24 * HOUR;

/// The periods of the table.
pub(super) const PERIODS: [(&str, u64); 4] = [
    ("any second", 1_000_000),
    ("any minute", 60_000_000),
    ("any hour", HOUR),
    ("any day", DAY),
];

/// A limit without its size.
#[derive(Clone, Copy)]
pub(super) enum RequestCounter {
    /// A token bucket that gets back this many tokens in an hour. Its size is the burst.
    HourlyBucket(u64),
    /// Requests in any span of this length.
    Window(u64),
    /// Requests in each calendar day.
    DailyQuota,
}

impl RequestCounter {
    /// Returns the limit of this size, if it is valid.
    pub(super) fn limit(self, size: u64) -> Option<Limit> {
        let text = match self {
            Self::HourlyBucket(count) => format!("{count} per 1h, {size} at once"),
            Self::Window(us) => format!("{size} in any {us}us"),
            Self::DailyQuota => format!("{size} per calendar day"),
        };
        text.parse().ok()
    }

    /// Returns the smallest size with which a client with requests at these times is never denied.
    pub(super) fn need(self, times: &[u64]) -> u64 {
        match self {
            Self::HourlyBucket(count) => burst(times, count),
            Self::Window(us) => most_in_any(times, us),
            Self::DailyQuota => {
                let days = times.chunk_by(|one, next| one / DAY == next / DAY);
                days.map(<[_]>::len).max().unwrap_or_default() as u64
            }
        }
    }
}

/// The smallest burst with which a token bucket denies nothing.
fn burst(times: &[u64], per_hour: u64) -> u64 {
    // The time until the bucket is full, multiplied by `per_hour`.
    let mut debt = 0_u64;
    let mut most = 0;
    let mut last = 0;
    for at in times {
        let refilled = (at - last).saturating_mul(per_hour);
        debt = debt.saturating_sub(refilled).saturating_add(HOUR);
        most = most.max(debt);
        last = *at;
    }
    most.div_ceil(HOUR)
}

/// The most requests in any span of this length.
fn most_in_any(times: &[u64], us: u64) -> u64 {
    let mut first = 0;
    let mut most = 0;
    for (index, at) in times.iter().enumerate() {
        while times[first] + us <= *at {
            first += 1;
        }
        most = most.max(index + 1 - first);
    }
    most as u64
}
