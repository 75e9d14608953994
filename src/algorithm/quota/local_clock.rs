use std::fmt;

use super::utc_offset::UtcOffset;
#[cfg(feature = "zones")]
use super::zone::Zone;
use crate::algorithm::LimitError;

/// The clock by which the periods of a calendar begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LocalClock {
    Offset(UtcOffset),
    #[cfg(feature = "zones")]
    Zone(Zone),
}

impl LocalClock {
    pub(crate) const UTC: Self = Self::Offset(UtcOffset::UTC);

    /// Finds the clock of a time zone.
    #[cfg(feature = "zones")]
    pub(super) fn in_zone(name: &str) -> Result<Self, LimitError> {
        Zone::named(name).map(Self::Zone)
    }

    #[cfg(not(feature = "zones"))]
    pub(super) fn in_zone(_name: &str) -> Result<Self, LimitError> {
        let remedy = "enable it in Cargo.toml, or write a utc_offset";
        let message = format!("time_zone needs tollgate's feature `zones`: {remedy}");
        Err(LimitError::value("time_zone", message))
    }

    /// Returns the field of a file that sets it.
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Offset(_) => "utc_offset",
            #[cfg(feature = "zones")]
            Self::Zone(_) => "time_zone",
        }
    }

    /// Returns by how much the time between two instants can differ from what the clock shows, in microseconds.
    pub(super) fn drift_us(self) -> u64 {
        match self {
            Self::Offset(_) => 0,
            #[cfg(feature = "zones")]
            Self::Zone(zone) => zone.drift_us(),
        }
    }

    /// Returns the end of the period that contains an instant. Both are in microseconds since the Unix epoch. `next` returns the
    /// end of the period that contains a local time.
    pub(super) fn end(self, now: i64, next: impl Fn(i64) -> i64) -> i64 {
        match self {
            Self::Offset(offset) => next(now + offset.micros()) - offset.micros(),
            #[cfg(feature = "zones")]
            Self::Zone(zone) => zone.end(now, next),
        }
    }
}

impl fmt::Display for LocalClock {
    /// Writes what follows the calendar unit of a limit in one line: nothing in UTC, ` at +02:00` or ` in America/Los_Angeles`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            &Self::UTC => Ok(()),
            Self::Offset(offset) => write!(f, " at {offset}"),
            #[cfg(feature = "zones")]
            Self::Zone(zone) => write!(f, " in {}", zone.name()),
        }
    }
}
