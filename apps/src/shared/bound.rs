//! The most that a limit admits within its own span of time.

use std::fmt;

use serde::Serialize;
use tollgate::{Limit, limit::format_duration};

/// The most that a limit admits in any span of this length.
#[derive(Debug, Serialize)]
pub(crate) struct Bound {
    most: u64,
    within: String,
}

impl Bound {
    /// The bound of a limit, if it has one.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let span = limit.period()?;
        Some(Self {
            most: limit.most_within(span)?,
            within: format_duration(span),
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in any {}", self.most, self.within)
    }
}
