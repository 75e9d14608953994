//! Burst tiers: sliding windows with active and cooldown periods.
//!
//! Tiers are a list, lowest first. A client that exhausts the lowest tier enters the next one, unless that one is cooling down. It
//! stays there as long as the tier is *active*, even if there is room in lower tiers. Then the tier cools down, and cannot be
//! entered until the cooldown is over. The [guide](crate::guide::tiers) explains the settings.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::{Limit, Limiter, Limits, MemoryBackend, clock::ManualClock, tiers::Tier};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let secs = Duration::from_secs;
//! // Five a second. Fifty in a burst of five seconds, and then no burst for fifteen seconds.
//! let tiers = Limit::tiers([
//!     Tier::new(5, secs(1)),
//!     Tier::new(50, secs(5)).active(secs(5)).cooldown(secs(15)),
//! ])?;
//! let limits = Limits::builder().limit("requests", tiers.clone()).build()?;
//! let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
//! let requests = limiter.limit("requests")?;
//!
//! let granted = requests.cost(7).spend("alice").await?;
//! assert_eq!(granted.split(&tiers).collect::<Vec<_>>(), [(0, 5), (1, 2)]);
//! let denied = requests.cost(49).spend("alice").await?;
//! assert!(!denied.allowed(), "48 are left");
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! Times are whole microseconds, and intervals include their end: a unit granted at `s` counts as long as `now - s <=
//! window`, and a tier entered at `e` is active as long as `now - e <= active`, and cools down as long as `now - e <=
//! active + cooldown`. If the clock steps back, `now` is the instant of the last grant.
//!
//! | question | answer |
//! |---|---|
//! | which tier is asked | the highest active tier, else the lowest; then those above it, up to the first that is cooling down |
//! | what enters a tier | only a grant: of a unit from that tier or, for the lowest, from a tier above it when it is full |
//! | what a rejection changes | nothing |
//! | whether a window outlives its tier | that of the lowest does; the others start empty each time they are entered |
//! | whether anything accumulates | no: neither idle time nor unused units |
//!
//! A penalty tier therefore needs a limit of at least 1, for the request that enters it.
//!
//! Source: Fritz, *Charon: The Design of a Limiting Microservice* (2018), and *Configuring rate limits* (2024). Where they leave
//! questions open, this module does what the author's own simulator does.

mod arithmetic;
pub(crate) mod history;
pub(crate) mod parameters;
#[cfg(feature = "redis")]
mod scripted;
#[cfg(test)]
mod tests;
pub(crate) mod tier;

pub use self::{
    arithmetic::TierState,
    tier::{Phase, Tier},
};
pub(crate) use self::{
    history::{Grant, History},
    parameters::Tiers,
};
