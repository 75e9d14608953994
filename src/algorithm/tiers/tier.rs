use std::time::Duration;

use super::tiers_error::TierError;
use crate::algorithm::{ticks::MAX_TICKS_US, time::NEVER};

/// The highest limit of a tier whose window slides.
pub(super) const MAX_SLIDING: u32 = 4096;

/// One tier of a limit. The [module docs](super) have an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Tier {
    /// The number of units granted within any window.
    pub limit: u32,
    /// The time for which a granted unit counts.
    pub window: Duration,
    /// The time for which the tier is active once it is entered.
    pub active: Duration,
    /// The time after that during which it cannot be entered.
    pub cooldown: Duration,
    /// Whether requests can skip the tier while it cools down, and enter the one above.
    pub skippable: bool,
}

impl Tier {
    /// An endless time.
    pub const FOREVER: Duration = Duration::MAX;

    /// `limit` units per `window`, active forever. Alone, this is a sliding window.
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

    /// Sets how long the tier is active once it is entered.
    #[must_use]
    pub const fn active(mut self, active: Duration) -> Self {
        self.active = active;
        self
    }

    /// Sets how long after that it cannot be entered.
    #[must_use]
    pub const fn cooldown(mut self, cooldown: Duration) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// Lets requests skip the tier while it cools down, and enter the one above.
    #[must_use]
    pub const fn skippable(mut self) -> Self {
        self.skippable = true;
        self
    }
}
/// A tier in microseconds, [`NEVER`] standing for infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) limit: u32,
    pub(crate) window: u64,
    pub(crate) active: u64,
    pub(crate) cooldown: u64,
    pub(crate) skippable: bool,
    /// Whether units can leave the window while the tier is active, or are carried over to its next entry. If not,
    /// counting the units is exact.
    pub(crate) slides: bool,
}

impl Span {
    pub(super) fn new(tier: &Tier, is_lowest: bool) -> Result<Self, TierError> {
        let (window, active) = (
            micros("window", tier.window)?,
            micros("active", tier.active)?,
        );
        let cooldown = micros("cooldown", tier.cooldown)?;
        if tier.limit == 0 {
            return Err(TierError::ZeroLimit);
        }
        for (field, us) in [("window", window), ("active", active)] {
            if us == 0 {
                return Err(TierError::Zero(field));
            }
        }
        let is_carried = is_lowest && cooldown < window;
        let slides = window != NEVER && (window < active || is_carried);
        if slides && tier.limit > MAX_SLIDING {
            return Err(TierError::TooManyToRemember(tier.limit));
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

    pub(super) fn tier(&self) -> Tier {
        Tier {
            limit: self.limit,
            window: duration(self.window),
            active: duration(self.active),
            cooldown: duration(self.cooldown),
            skippable: self.skippable,
        }
    }

    /// Returns whether a unit that was granted at `time` no longer counts.
    #[inline]
    pub(super) fn has_left(&self, time: u64, now: u64) -> bool {
        now.saturating_sub(time) > self.window
    }

    /// Returns the time from which a tier can be entered again: 0 if it has never been entered.
    pub(super) fn ends(&self, entry: Option<u64>) -> u64 {
        match entry {
            Some(entry) => end(entry.saturating_add(self.active), self.cooldown),
            None => 0,
        }
    }
}

fn micros(field: &'static str, duration: Duration) -> Result<u64, TierError> {
    if duration == Tier::FOREVER {
        return Ok(NEVER);
    }
    if !duration.subsec_nanos().is_multiple_of(1000) {
        return Err(TierError::TooFine(field));
    }
    let us = u64::try_from(duration.as_micros()).ok();
    us.filter(|us| *us <= MAX_TICKS_US)
        .ok_or(TierError::TooLong(field))
}

fn duration(us: u64) -> Duration {
    match us {
        NEVER => Tier::FOREVER,
        us => Duration::from_micros(us),
    }
}

/// The first instant after a closed interval.
pub(super) fn end(start: u64, length: u64) -> u64 {
    start.saturating_add(length).saturating_add(1)
}

/// The phase of a tier at an instant.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It can be entered.
    #[default]
    Inactive,
    /// It has been entered, and decides, unless a higher one is active.
    Active,
    /// It cannot be entered.
    Cooldown,
}

impl Phase {
    pub(super) fn of(span: &Span, entry: Option<u64>, now: u64) -> Self {
        let Some(entry) = entry else {
            return Self::Inactive;
        };
        match now.saturating_sub(entry) {
            age if age <= span.active => Self::Active,
            age if age <= span.active.saturating_add(span.cooldown) => Self::Cooldown,
            _ => Self::Inactive,
        }
    }
}
