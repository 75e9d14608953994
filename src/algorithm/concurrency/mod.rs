//! Concurrency limits: at most a number at once, for work that takes time, such as exports, uploads and streams.
//!
//! A charge takes *permits*. They come back when the work ends, by a refund with the receipt. While the work runs, its
//! receipt is renewed. A permit that was taken or renewed at `t` counts as long as `now < t + hold`, so the permits of a
//! process that died come back as well, after at most the hold:
//!
//! ```text
//! allowed  ⇔  used + cost  ≤  limit                       then the bucket has `cost` permits more, taken now
//! renewed  ⇔  `cost` permits of the receipt's instant count         then they count from now on
//! ```
//!
//! A bucket is the list of the instants at which its permits were taken or renewed, as the bucket of a
//! [window](crate::window). Permits of one instant are interchangeable, so they need no names.
//!
//! **The bound.** At any instant, at most the limit of permits count, in the whole fleet. A process that is paused or cut off
//! for longer than the hold loses its permits while its work goes on. So at most limit × (1 + the number of such absences)
//! pieces of work run at once.
//!
//! **Waits.** Nobody knows when a permit comes back. The figures of a decision say [`NEVER`](crate::Decision::NEVER) for
//! waits that are not known.
//!
//! A refund without a receipt and a debit are errors, because they would not say whose permits are meant.

mod bound;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod concurrency;
mod concurrency_error;
mod counting;
mod denial;
#[cfg(feature = "failure-policy")]
mod follow;
#[cfg(feature = "tokio")]
mod lease;
mod notation;
#[cfg(feature = "redis")]
mod scripted;

pub use self::concurrency::Concurrency;
pub(crate) use self::{bound::NO_TOKEN_BUCKET, concurrency_error::ConcurrencyError};
