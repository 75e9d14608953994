//! Quotas: at most a number of units per calendar hour, day, week or month, or per span from first use.
//!
//! A bucket is a [`Usage`]: the start of its period, and the amount used. All of it comes back at once,
//! when the period ends:
//!
//! ```text
//! allowed  ⇔  used + cost  ≤  quota                       then used := the left side
//! ```
//!
//! A [`Per`] defines the period. Calendar periods are in UTC or at a fixed offset from it; weeks start on Monday. A
//! period from first use starts with the first request that is charged. An unused bucket is the same
//! as a new one.
//!
//! **The bound.** Each period admits at most the quota. A span of time that touches two periods can see both: `1000 per
//! day` admits up to 2000 within any 24 hours. [`Limit::most_within`](crate::Limit::most_within) computes this.
//!
//! **Clocks that step back.** The used amount counts until the end of the period that contains the stored start. So a
//! clock that steps back across midnight gives no second quota.
//!
//! There is no clock, no I/O and no floating point here. The calendar's arithmetic is that of the crate `jiff`.

mod bound;
mod counting;
#[cfg(feature = "failure-policy")]
mod debt;
mod denial;
#[cfg(feature = "failure-policy")]
mod follow;
#[cfg(feature = "tokio")]
mod lease;
mod notation;
mod per;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod quota;
mod quota_error;
mod receipt;
pub(crate) mod row;
#[cfg(feature = "redis")]
mod scripted;
mod utc_offset;

pub(crate) use self::{bound::NO_TOKEN_BUCKET, quota_error::QuotaError, receipt::QuotaCharge};
pub use self::{
    per::{CalendarUnit, Per},
    quota::{Quota, Usage},
    utc_offset::UtcOffset,
};
