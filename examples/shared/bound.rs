//! The most that a limit admits within its own span of time.

use std::{fmt, time::Duration};

use serde::Serialize;
use tollgate::{
    Limit, backend::custom::Algorithm, limit::format_duration, quota::CalendarUnit, tiers::Tier,
};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// At most this much, in any span of this length.
#[derive(Debug, Serialize)]
pub(crate) struct Bound {
    most: u64,
    within: String,
}

impl Bound {
    /// The bound of a limit, if it has one.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let span = span(limit.algorithm()?)?;
        Some(Self {
            most: limit.most_within(span)?,
            within: format_duration(span),
        })
    }
}

/// Returns the span of time of a limit. Months have different lengths, so it is that of the shortest.
fn span(algorithm: &Algorithm) -> Option<Duration> {
    match algorithm {
        Algorithm::Gcra(gcra) => Some(gcra.period()),
        Algorithm::Window(window) => Some(window.window()),
        Algorithm::Tiers(tiers) => {
            let window = tiers.iter().next()?.window;
            Some(window).filter(|window| *window != Tier::FOREVER)
        }
        Algorithm::Quota(quota) => match quota.per().calendar_unit() {
            None => quota.per().first_use_length(),
            Some((CalendarUnit::Hour, _)) => Some(HOUR),
            Some((CalendarUnit::Day, _)) => Some(24 * HOUR),
            Some((CalendarUnit::Week, _)) => Some(7 * 24 * HOUR),
            Some(_) => Some(28 * 24 * HOUR),
        },
        _ => None,
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in any {}", self.most, self.within)
    }
}
