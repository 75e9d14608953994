//! Quotas: at most a number of units per calendar hour, day, week or month, or per span from first use.
//!
//! The state of a bucket is the end of its period and the amount used. All of it comes back at once, when the period ends. The
//! amount counts while `now` is before the end, so a clock that steps back gives no second quota.
//!
//! When the period of the limit changes, what was used counts until the new limit's current period ends, or the old period if
//! that is sooner. The first decision under the new limit stores this end, even if it is a denial.
//! [`Limit::quota`](crate::Limit::quota) has an example.
//!
//! **The bound.** Each period admits at most the quota. A span of time that touches two periods can see both: `1000 per
//! day` admits up to 2000 within any 24 hours. [`Limit::most_within`](crate::Limit::most_within) computes this.

mod arithmetic;
mod local_clock;
mod parameters;
mod per;
#[cfg(feature = "redis")]
mod scripted;
#[cfg(test)]
mod tests;
mod utc_offset;
#[cfg(feature = "zones")]
mod zone;

#[cfg(feature = "testing")]
pub(crate) use self::local_clock::LocalClock;
pub(crate) use self::{arithmetic::Usage, parameters::Quota, per::CalendarUnit};
pub use self::{per::Per, utc_offset::UtcOffset};
