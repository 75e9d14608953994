use std::{fmt, time::Duration};

use crate::algorithm::{
    LONGEST_US, LimitError, NEVER,
    duration::{DurationText, PeriodText},
};

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

    /// Creates a tier of `limit` units per `window` that is active forever. As the only tier, it is a sliding window.
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

    /// Sets how long the tier cannot be entered after it was active.
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

impl fmt::Display for Tier {
    /// Writes `50 per 5s for 5s, cooldown 15s, skippable`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per ", self.limit)?;
        PeriodText(self.window).fmt(f)?;
        f.write_str(" for ")?;
        DurationText(self.active).fmt(f)?;
        if !self.cooldown.is_zero() {
            f.write_str(", cooldown ")?;
            DurationText(self.cooldown).fmt(f)?;
        }
        f.write_str(if self.skippable { ", skippable" } else { "" })
    }
}

/// The phase of a tier at an instant.
/// [`Limit::tiers`](crate::Limit::tiers) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It can be entered.
    Inactive,
    /// It has been entered, and decides unless a higher tier is active.
    Active,
    /// It cannot be entered.
    Cooldown,
}

/// The highest limit of a tier whose window slides.
pub(super) const MAX_SLIDING: u32 = 4096;

/// A tier in microseconds, with [`NEVER`] for endless times. The window and the active period are a microsecond longer than those
/// of the tier, so that intervals here exclude their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TierInMicros {
    pub(super) limit: u32,
    pub(super) window: u64,
    pub(super) active: u64,
    pub(super) cooldown: u64,
    pub(super) skippable: bool,
    /// Whether units can leave the window while the tier is active, or are carried over to its next entry. If neither is so, the
    /// units need no instants: counting them is exact.
    pub(super) slides: bool,
}

impl TierInMicros {
    pub(super) fn new(tier: &Tier, is_lowest: bool) -> Result<Self, LimitError> {
        let window = micros("window", tier.window)?;
        let active = micros("active", tier.active)?;
        let cooldown = micros("cooldown", tier.cooldown)?;
        if tier.limit == 0 {
            return Err(LimitError::value(
                "limit",
                "limit is 0, so no request could ever enter the tier: use at least 1, for the request that enters the tier",
            ));
        }
        for (field, us) in [("window", window), ("active", active)] {
            if us == 0 {
                let zero = format!("{field} is 0: use a duration such as `1s`, or `infinite`");
                return Err(LimitError::value(field, zero));
            }
        }
        let is_carried = is_lowest && cooldown < window;
        let slides = window != NEVER && (window < active || is_carried);
        if slides && tier.limit > MAX_SLIDING {
            return Err(too_many_to_remember(tier.limit));
        }
        Ok(Self {
            limit: tier.limit,
            window: window.saturating_add(1),
            active: active.saturating_add(1),
            cooldown,
            skippable: tier.skippable,
            slides,
        })
    }

    pub(super) fn tier(&self) -> Tier {
        Tier {
            limit: self.limit,
            window: duration(self.window, 1),
            active: duration(self.active, 1),
            cooldown: duration(self.cooldown, 0),
            skippable: self.skippable,
        }
    }

    /// Returns the first instant at which a unit no longer counts.
    pub(super) fn leaves(&self, granted: u64) -> u64 {
        granted.saturating_add(self.window)
    }

    /// Returns the first instant at which the tier is no longer active.
    pub(super) fn cools(&self, entry: u64) -> u64 {
        entry.saturating_add(self.active)
    }

    /// Returns the first instant at which the tier can be entered again.
    pub(super) fn ends(&self, entry: u64) -> u64 {
        self.cools(entry).saturating_add(self.cooldown)
    }

    pub(super) fn phase(&self, entry: Option<u64>, at: u64) -> Phase {
        match entry {
            Some(entry) if at < self.cools(entry) => Phase::Active,
            Some(entry) if at < self.ends(entry) => Phase::Cooldown,
            _ => Phase::Inactive,
        }
    }
}

fn micros(field: &'static str, duration: Duration) -> Result<u64, LimitError> {
    let remedy = match u64::try_from(duration.as_micros()) {
        _ if duration == Tier::FOREVER => return Ok(NEVER),
        _ if !duration.subsec_nanos().is_multiple_of(1000) => {
            "is not a whole number of microseconds: round it to one"
        }
        Ok(us) if us <= LONGEST_US => return Ok(us),
        _ => "is more than 71 years (2^51 µs): lower it, or make it `infinite`",
    };
    Err(LimitError::value(field, format!("{field} {remedy}")))
}

fn duration(us: u64, longer: u64) -> Duration {
    match us {
        NEVER => Tier::FOREVER,
        us => Duration::from_micros(us - longer),
    }
}

fn too_many_to_remember(limit: u32) -> LimitError {
    LimitError::value(
        "limit",
        format!(
            "limit {limit} is above 4096 in a window that slides, where each unit has to be remembered: lower it, make the \
             window at least as long as active (and, in the lowest tier, cooldown at least as long as the window), or use \
             burst, count and period"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm, Parameters, tiers::Tiers};

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn tiers<const N: usize>(tiers: [Tier; N]) -> Tiers {
        Tiers::new(tiers).unwrap()
    }

    #[test]
    fn tiers_are_written_as_they_are_read() {
        let burst = Tier::new(50, secs(5))
            .active(secs(5))
            .cooldown(secs(15))
            .skippable();
        let tiers = tiers([Tier::new(5, secs(1)), burst, Tier::new(1, Tier::FOREVER)]);
        let line = "5 per 1s for infinite, then 50 per 5s for 5s, cooldown 15s, skippable, then 1 per infinite for infinite";
        assert_eq!(Algorithm::parse(line), Ok(Algorithm::Tiers(tiers.clone())));
        assert_eq!(tiers.to_string(), line);
        for (line, message) in [
            (
                "5 per 1s for 1",
                "active: `1` is not a duration: add a unit",
            ),
            ("5 per 1s for 1s, then", "write it as"),
            (
                "5 per 1s for 1s, then 0 per 1s for 1s",
                "tier 1: limit is 0",
            ),
            ("5 per 1s for 1s, cool 1s", "write it as"),
        ] {
            let error = Algorithm::parse(line).unwrap_err().to_string();
            assert!(error.contains(message), "{line}: {error}");
        }
    }

    #[test]
    fn invalid_tiers_are_errors() {
        let second = secs(1);
        let long = secs(1 << 31);
        let fine = Duration::from_nanos(1500);
        let one = Tier::new(1, second);
        for (tiers, field, message) in [
            (vec![], "tiers", "tiers is empty"),
            (
                vec![one; 17],
                "tiers",
                "17 tiers are more than 16: remove some",
            ),
            (
                vec![Tier::new(0, second)],
                "limit",
                "tier 0: limit is 0, so no request could ever enter",
            ),
            (
                vec![Tier::new(1, secs(0))],
                "window",
                "tier 0: window is 0: use a duration such as `1s`",
            ),
            (vec![one.active(secs(0))], "active", "tier 0: active is 0"),
            (
                vec![one, one.cooldown(fine)],
                "cooldown",
                "tier 1: cooldown is not a whole number of",
            ),
            (
                vec![Tier::new(1, 2 * long)],
                "window",
                "tier 0: window is more than 71 years (2^51 µs)",
            ),
            (
                vec![Tier::new(4097, second)],
                "limit",
                "tier 0: limit 4097 is above 4096 in a window that",
            ),
        ] {
            let error = Tiers::new(tiers).unwrap_err();
            assert_eq!(error.field(), Some(field), "{error}");
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }

    #[test]
    fn tiers_are_kept_as_they_are() {
        let second = secs(1);
        let long = secs(1 << 31);
        let counts = Tier::new(u32::MAX, second).active(second).cooldown(second);
        assert_eq!(tiers([counts, counts]).capacity(), u32::MAX);
        let kept = [
            Tier::new(4096, second),
            Tier::new(1, long).cooldown(Tier::FOREVER),
        ];
        assert_eq!(tiers(kept).iter().collect::<Vec<_>>(), kept);
    }

    #[test]
    fn short_cooldown_above_the_lowest_is_suspicious() {
        let doubts = |tier: Tier| {
            tiers([Tier::new(5, secs(10)).active(secs(1)), tier])
                .doubts()
                .len()
        };
        let burst = Tier::new(5, secs(10)).active(secs(10));
        assert_eq!(doubts(burst.cooldown(secs(9))), 1);
        assert_eq!(doubts(burst.cooldown(secs(10))), 0);
        assert_eq!(doubts(burst.active(Tier::FOREVER)), 0);
        assert_eq!(doubts(burst.cooldown(Tier::FOREVER)), 0);
        // The only unit of a penalty tier leaves together with it.
        assert_eq!(doubts(Tier::new(1, secs(10)).active(secs(10))), 0);
        assert_eq!(doubts(Tier::new(1, secs(10)).active(secs(9))), 1);
    }
}
