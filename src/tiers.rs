//! Burst tiers: sliding windows with active and cooldown periods.
//!
//! A list of [`Tiers`] has the lowest first. Whoever finds the lowest full bursts into the next, if that
//! is not cooling down, and stays there as long as it is *active*, whatever room there is below. Then the
//! tier cools down, and cannot be entered again until that is over.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter, Limits, MemoryBackend, clock::ManualClock, tiers::Tier};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let secs = Duration::from_secs;
//! // Five a second; fifty for five seconds in a burst, and then fifteen seconds without another.
//! let tiers = Limit::tiers([
//!     Tier::new(5, secs(1)),
//!     Tier::new(50, secs(5)).active(secs(5)).cooldown(secs(15)),
//! ])?;
//! let limits = Limits::builder().limit("requests", tiers).build()?;
//! let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
//! let requests = limiter.limit("requests")?;
//!
//! let granted = requests.cost(7).spend("alice").await?;
//! assert_eq!(granted.split().collect::<Vec<_>>(), [(0, 5), (1, 2)]);
//! let denied = requests.cost(49).spend("alice").await?;
//! assert!(!denied.allowed(), "48 are left");
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Times are whole microseconds, and all intervals are closed: a unit granted at `s` counts as long as
//! `now - s <= window`, a tier entered at `e` is active as long as `now - e <= active`, and cools down as long
//! as `now - e <= active + cooldown`.
//!
//! | question | answer |
//! |---|---|
//! | which tier is asked | the highest that is active, else the lowest; then those above it, up to the first that cools down |
//! | what enters a tier | only a grant: of a unit from it or, for the lowest, from one above it when it is full |
//! | what does a rejection change | nothing |
//! | does a window outlive its tier | that of the lowest does; the others begin empty each time they are entered |
//! | is anything saved up | no: neither idleness nor what was left of a tier |
//!
//! So a tier that shall lock its clients out needs a limit of at least 1: the request that enters it is granted.
//!
//! Source: Fritz, *Charon: The Design of a Limiting Microservice* (2018), and *Configuring rate limits* (2024), in the
//! reading of the author's own simulator where the two leave something open.

mod grant;
mod history;
mod phase;
mod requests;
mod tier;
#[expect(clippy::module_inception, reason = "its name says what it holds")]
mod tiers;
mod view;

#[cfg(feature = "redis")]
pub(crate) use self::view::Window;
pub use self::{
    grant::Grant,
    history::History,
    phase::Phase,
    tier::{Tier, TierMistake},
    tiers::{Tiers, TiersError},
    view::TierSnapshot,
};
pub(crate) use self::{
    tier::{NEVER, Span},
    view::View,
};
