//! Quotas: at most a number of units per calendar hour, day, week or month, or per span from first use.
//!
//! A bucket is the end of its period, and the amount used. All of it comes back at once, when the period ends. The amount
//! counts while `now` is before the end, so a clock that steps back gives no second quota, and a changed period applies from
//! the next one. [`Limit::quota`](crate::Limit::quota) has an example.
//!
//! **The bound.** Each period admits at most the quota. A span of time that touches two periods can see both: `1000 per
//! day` admits up to 2000 within any 24 hours. [`Limit::most_within`](crate::Limit::most_within) computes this.

mod arithmetic;
mod notation;
mod per;
#[cfg(feature = "redis")]
mod scripted;
mod utc_offset;

pub use self::{
    arithmetic::Usage,
    per::{CalendarUnit, Per},
    utc_offset::UtcOffset,
};
use super::{Invalid, Share};

/// At most a number of units in each period.
/// [`Limit`](crate::Limit) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    quota: u32,
    per: Per,
}

impl Quota {
    /// Creates a limit of at most `quota` units in each period.
    pub(crate) const fn new(quota: u32, per: Per) -> Result<Self, Invalid> {
        match quota {
            0 => Err(Invalid::new(
                "quota",
                "quota is 0, so nothing would ever pass: use at least 1",
            )),
            quota => Ok(Self { quota, per }),
        }
    }

    /// The most units in a period.
    #[must_use]
    pub const fn quota(&self) -> u32 {
        self.quota
    }

    /// The period.
    #[must_use]
    pub const fn per(&self) -> Per {
        self.per
    }

    /// Returns the share of a process.
    pub(super) fn share(&self, share: Share) -> Self {
        Self {
            quota: share.units(self.quota),
            ..*self
        }
    }
}
