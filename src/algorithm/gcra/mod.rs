//! The Generic Cell Rate Algorithm in exact rational arithmetic.
//!
//! A bucket is one number, its *theoretical arrival time* (TAT): the instant at which it will be
//! full again. With burst `b`, count `c` and period `p`, a token comes back every *emission
//! interval* `T = p / c`, and a request may run ahead of the clock by the *tolerance* `τ = b · T`:
//!
//! ```text
//! allowed  ⇔  max(TAT, now) + cost · T  ≤  now + τ        then TAT := the left side
//! ```
//!
//! `T` is rarely a whole number of microseconds (for seven per second, it is not). So a [`Tat`] carries a fraction over
//! the limit's count, and the arithmetic never rounds. Only displayed figures are rounded: tokens down, waits up. This
//! module has no clock, no I/O and no floating point, and does not panic for any input that its types admit.
//!
//! A limit with a *maximum wait* `w` has a line. A request that may wait is allowed up to `now + τ + w`, and starts
//! when its TAT is within the tolerance: `delay = TAT − τ − now`. The TAT is the queue, so requests start in the order
//! in which they came, one emission interval apart.
//!
//! Source: ITU-T I.371 (GCRA), in the form that Let's Encrypt's Boulder made known, with the
//! tolerance of one whole burst.

mod bound;
mod charge;
mod counting;
#[cfg(feature = "failure-policy")]
mod debt;
mod denial;
mod figures;
#[cfg(feature = "failure-policy")]
mod follow;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod gcra;
mod gcra_error;
#[cfg(feature = "tokio")]
mod lease;
mod notation;
mod receipt;
pub(crate) mod row;
#[cfg(feature = "redis")]
mod scripted;

pub use self::gcra::Gcra;
pub(crate) use self::{gcra_error::GcraError, receipt::GcraCharge};
pub use super::ticks::{MAX_TICKS_US, Tat, Ticks};
