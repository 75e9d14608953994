//! Burst tiers: sliding windows with active and cooldown periods, as pure functions from what is
//! known of a bucket, an instant and a number of units to what is granted.
//!
//! A list of [`Tiers`] has the lowest first. Whoever finds the lowest full bursts into the next, if that
//! is not cooling down, and stays there as long as it is *active*, whatever room there is below. Then the
//! tier cools down, and cannot be entered again until that is over.
//!
//! ```
//! use std::time::Duration;
//! use tollgate::tiers::{History, Tier, Tiers};
//!
//! let secs = Duration::from_secs;
//! // Five a second; fifty for five seconds in a burst, and then fifteen seconds without another.
//! let tiers = Tiers::new([
//!     Tier::new(5, secs(1)),
//!     Tier::new(50, secs(5)).active(secs(5)).cooldown(secs(15)),
//! ])?;
//! let mut history = History::default();
//! let now = 1_767_225_600_000_000;
//! let grant = tiers.request(&mut history, now, 7..=7).expect("5 in the lowest, 2 above");
//! assert_eq!(grant.split(&tiers).collect::<Vec<_>>(), [(0, 5), (1, 2)]);
//! assert!(tiers.request(&mut history, now, 49..=49).is_none(), "48 are left");
//! # Ok::<_, tollgate::tiers::TiersError>(())
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
pub(crate) use self::{tier::NEVER, view::View};
