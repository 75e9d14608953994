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
mod view;

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use thiserror::Error;

#[cfg(feature = "redis")]
pub(crate) use self::view::Window;
pub(crate) use self::view::{NEVER, View};
pub use self::{
    grant::Grant,
    history::{History, Phase},
    view::TierSnapshot,
};
use crate::gcra::MAX_TICKS_US;

/// One tier of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Tier {
    /// How many units are granted within any window.
    pub limit: u32,
    /// For how long a granted unit counts.
    pub window: Duration,
    /// For how long the tier is active once it is entered.
    pub active: Duration,
    /// For how long after that it cannot be entered.
    pub cooldown: Duration,
    /// Whether requests pass it by while it cools down, to the tier above, instead of being rejected.
    pub skippable: bool,
}

impl Tier {
    /// Without an end.
    pub const FOREVER: Duration = Duration::MAX;

    /// `limit` units per `window`, active for ever. By itself that is a sliding window.
    #[must_use]
    pub const fn new(limit: u32, window: Duration) -> Self {
        Self {
            limit,
            window,
            active: Self::FOREVER,
            cooldown: Duration::ZERO,
            skippable: false,
        }
    }

    /// Sets for how long the tier is active once it is entered.
    #[must_use]
    pub const fn active(mut self, active: Duration) -> Self {
        self.active = active;
        self
    }

    /// Sets for how long after that it cannot be entered.
    #[must_use]
    pub const fn cooldown(mut self, cooldown: Duration) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// Lets requests pass the tier by while it cools down, to the tier above.
    #[must_use]
    pub const fn skippable(mut self) -> Self {
        self.skippable = true;
        self
    }
}

/// A bucket's tiers, validated, lowest first. A clone is cheap.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tiers(Arc<[Span]>);

/// A tier in microseconds, [`NEVER`] standing for infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) limit: u32,
    pub(crate) window: u64,
    pub(crate) active: u64,
    pub(crate) cooldown: u64,
    pub(crate) skippable: bool,
    /// Whether units leave the window while the tier is active, or are carried into the next time that it is
    /// entered. If not, to count them is exact.
    pub(crate) slides: bool,
}

impl Tiers {
    /// The most tiers of a bucket.
    pub const MAX: usize = 16;

    /// The highest limit of a tier whose window slides: each of its units is remembered.
    pub const MAX_SLIDING: u32 = 4096;

    /// Validates tiers, lowest first.
    ///
    /// # Errors
    ///
    /// If there are none or more than [`MAX`](Self::MAX); if a limit, a window or an active period is zero; if a duration
    /// is not a whole number of microseconds or above 2⁵¹ of them (71 years) without being [`Tier::FOREVER`]; if a
    /// window slides with a limit above [`MAX_SLIDING`](Self::MAX_SLIDING).
    pub fn new(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, TiersError> {
        let tiers = tiers.into_iter().enumerate();
        let spans = tiers.map(|(i, tier)| {
            let span = Span::new(&tier, i == 0);
            span.map_err(|mistake| TiersError::Tier { tier: i, mistake })
        });
        let spans = spans.collect::<Result<Arc<_>, _>>()?;
        match spans.len() {
            0 => Err(TiersError::None),
            1..=Self::MAX => Ok(Self(spans)),
            more => Err(TiersError::TooMany(more)),
        }
    }

    /// The tiers, lowest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Tier> {
        self.0.iter().map(Span::tier)
    }

    /// The most units that can ever be granted at once: all tiers' limits, added up.
    #[must_use]
    pub fn max_units(&self) -> u32 {
        let limits = self.0.iter().map(|span| span.limit);
        limits.fold(0, u32::saturating_add)
    }

    /// Grants as many units of a range as there is room for at `now` (µs since the epoch), or `None` and
    /// changes nothing, if that is fewer than its start.
    ///
    /// A wider range than needed may burst into tiers that its start would not have entered. A `now` before
    /// the last grant is taken for that.
    ///
    /// # Panics
    ///
    /// If the range begins with 0.
    pub fn request(
        &self,
        history: &mut History,
        now: u64,
        units: RangeInclusive<u32>,
    ) -> Option<Grant> {
        assert!(*units.start() > 0, "a request is for at least 1 unit");
        let grant = {
            let view = history.view(self, now);
            view.plan(self, *units.start(), *units.end())?
        };
        history.take(self, grant, now);
        Some(grant)
    }

    /// How long after `now` so many units would be granted if nothing else came, in µs: zero if at once, `None` if
    /// never.
    ///
    /// It is no reservation. A tier may end meanwhile, and what would have been granted then may not be later.
    #[must_use]
    pub fn wait(&self, history: &History, now: u64, units: u32) -> Option<u64> {
        let wait = history.view(self, now).wait(self, units);
        (wait != NEVER).then_some(wait)
    }

    /// How many units would be granted at `now`.
    #[must_use]
    pub fn remaining(&self, history: &History, now: u64) -> u32 {
        history.view(self, now).remaining(self)
    }

    /// The tiers above the lowest that can be entered again before their window has passed, and so grant up to twice their limit
    /// within one window. A limit of 1 does not count: its unit leaves with the tier.
    pub fn short_cooldowns(&self) -> impl Iterator<Item = usize> {
        let upper = self.0.iter().enumerate().skip(1);
        let short = upper.filter(|(_, span)| {
            let ends = span.active.saturating_add(span.cooldown) != NEVER;
            let outlasts = span.cooldown < span.window;
            // The only hit is that which enters.
            let is_single = span.limit == 1 && span.active >= span.window;
            ends && outlasts && !is_single
        });
        short.map(|(tier, _)| tier)
    }

    /// The most that a [`History`] takes beyond its own size, in bytes.
    pub(crate) fn max_heap_bytes(&self) -> usize {
        let sliding = self.0.iter().filter(|span| span.slides);
        let units: usize = sliding.map(|span| span.limit as usize).sum();
        History::heap_bytes_of(self.0.len(), units)
    }

    pub(crate) fn spans(&self) -> &[Span] {
        &self.0
    }

    /// The same with a part of each limit, at least 1.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn share(&self, part: u32, of: u32) -> Self {
        let share = |span: &Span| {
            let limit = (u64::from(span.limit) * u64::from(part)).div_ceil(of.into());
            let limit = u32::try_from(limit).unwrap_or(span.limit);
            Span { limit, ..*span }
        };
        Self(self.0.iter().map(share).collect())
    }
}

impl Span {
    fn new(tier: &Tier, is_lowest: bool) -> Result<Self, TierMistake> {
        let (window, active) = (
            micros("window", tier.window)?,
            micros("active", tier.active)?,
        );
        let cooldown = micros("cooldown", tier.cooldown)?;
        if tier.limit == 0 {
            return Err(TierMistake::ZeroLimit);
        }
        for (field, us) in [("window", window), ("active", active)] {
            if us == 0 {
                return Err(TierMistake::Zero(field));
            }
        }
        let is_carried = is_lowest && cooldown < window;
        let slides = window != NEVER && (window < active || is_carried);
        if slides && tier.limit > Tiers::MAX_SLIDING {
            return Err(TierMistake::TooManyToRemember(tier.limit));
        }
        Ok(Self {
            limit: tier.limit,
            window,
            active,
            cooldown,
            skippable: tier.skippable,
            slides,
        })
    }

    fn tier(&self) -> Tier {
        Tier {
            limit: self.limit,
            window: duration(self.window),
            active: duration(self.active),
            cooldown: duration(self.cooldown),
            skippable: self.skippable,
        }
    }
}

fn micros(field: &'static str, duration: Duration) -> Result<u64, TierMistake> {
    if duration == Tier::FOREVER {
        return Ok(NEVER);
    }
    if !duration.subsec_nanos().is_multiple_of(1000) {
        return Err(TierMistake::TooFine(field));
    }
    let us = u64::try_from(duration.as_micros()).ok();
    us.filter(|us| *us <= MAX_TICKS_US)
        .ok_or(TierMistake::TooLong(field))
}

fn duration(us: u64) -> Duration {
    match us {
        NEVER => Tier::FOREVER,
        us => Duration::from_micros(us),
    }
}

/// Why tiers cannot be used.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TiersError {
    /// There are none.
    #[error("tiers is empty, so nothing would ever pass: list at least one")]
    None,
    /// There are more than [`Tiers::MAX`].
    #[error("{0} tiers are more than 16: leave some out")]
    TooMany(usize),
    /// One of them makes no sense.
    #[error("tier {tier}: {mistake}")]
    Tier {
        /// Which, counted from 0, the lowest.
        tier: usize,
        /// What is wrong with it.
        mistake: TierMistake,
    },
}

debug_as_read!(TiersError);

/// Why a tier cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TierMistake {
    /// The limit is zero.
    #[error(
        "limit is 0, so no request could ever enter it: use at least 1, which is what the request is granted \
         that enters the tier"
    )]
    ZeroLimit,
    /// The window or the active period is zero.
    #[error("{0} is 0: use a duration as `1s`, or `infinite`")]
    Zero(&'static str),
    /// A duration has a fraction of a microsecond.
    #[error("{0} is not a whole number of microseconds: round it to one")]
    TooFine(&'static str),
    /// A duration is too long.
    #[error("{0} is more than 71 years (2^51 µs): lower it, or make it `infinite`")]
    TooLong(&'static str),
    /// Too many units would have to be remembered.
    #[error(
        "limit {0} is above 4096 in a window that slides, where each unit has to be remembered: lower it, make the \
         window at least as long as active (and, in the lowest tier, cooldown at least as long as the window), or use \
         burst, count and period"
    )]
    TooManyToRemember(u32),
}
