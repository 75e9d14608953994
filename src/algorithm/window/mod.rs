//! Sliding windows: at most a number of units within any span of a given length.
//!
//! A bucket is the list of the instants at which its [`Units`] were taken. A unit that was taken at `t` counts as long as
//! `now < t + window`, so the next one passes at exactly `t + window`:
//!
//! ```text
//! allowed  ⇔  used + cost  ≤  limit                       then the bucket has `cost` units more, taken now
//! ```
//!
//! Each unit is remembered, at 8 bytes, so there are up to [`Window::MAX_UNITS`] of them. A [debit] adds units beyond the
//! limit, up to that number.
//!
//! **The bound.** Any span `[t, t + window)` admits at most the limit, wherever it starts. That is what a window is for:
//! "5 logins in 15 minutes" never admits a sixth.
//!
//! **Clocks that step back.** A unit that was taken later than now counts as well. A charge forgets the units that
//! no longer count.
//!
//! There is no clock, no I/O and no floating point in this module.
//!
//! [debit]: crate::transaction::Mode::Debit

mod bound;
mod change;
mod counting;
#[cfg(feature = "failure-policy")]
mod debt;
mod denial;
#[cfg(feature = "failure-policy")]
mod follow;
#[cfg(feature = "tokio")]
mod lease;
mod notation;
mod receipt;
#[cfg(feature = "redis")]
mod scripted;
mod snapshot;
mod units;
mod view;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod window;
mod window_error;

#[cfg(feature = "redis")]
pub(super) use self::scripted::WindowReport;
pub(crate) use self::{bound::NO_TOKEN_BUCKET, receipt::WindowCharge, window_error::WindowError};
pub(super) use self::{change::Change, view::WindowView};
pub use self::{snapshot::WindowSnapshot, units::Units, window::Window};
