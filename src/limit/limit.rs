use std::{fmt, time::Duration};

use super::duration::{format_duration, format_span};
use crate::{
    gcra::{Gcra, GcraError},
    tiers::{Tier, Tiers, TiersError},
    transaction::Algorithm,
};

/// How much a client may do: so many at once, and so many per period in the long run.
///
/// ```
/// use std::time::Duration;
/// use tollgate::Limit;
///
/// // Ten per second (not one per ten seconds), twenty of them at once.
/// let limit = Limit::per_second(10).burst(20);
/// // The same in full: burst, count, period.
/// assert_eq!(limit, Limit::new(20, 10, Duration::from_secs(1))?);
/// # Ok::<_, tollgate::gcra::GcraError>(())
/// ```
///
/// The constructors that cannot fail panic on values that make no limit, at compile time if they
/// stand in a `const`. For values from elsewhere there is [`Limit::new`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kind {
    By(Algorithm),
    /// A limit with leases, once a limiter has it.
    Leased(Leased),
    Unlimited,
    Blocked,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Leased {
    /// With the burst that is left for the store.
    algorithm: Algorithm,
    /// How many units each process may hold.
    units: u32,
    /// What is split between the two.
    burst: u32,
}

impl Limit {
    /// Everything passes, and nothing is counted: for a client that shall escape the default.
    pub const UNLIMITED: Self = Self(Kind::Unlimited);

    /// Nothing passes, whatever is refunded or reset: for a client that shall not come any more or, as a default, for
    /// all who have no override.
    pub const BLOCKED: Self = Self(Kind::Blocked);

    /// At most `burst` at once, of which `count` come back each `period`.
    ///
    /// # Errors
    ///
    /// If one of them is zero, if the period is not a whole number of microseconds, or if an empty
    /// bucket would take more than 2⁵¹ µs (71 years) to fill.
    pub const fn new(burst: u32, count: u32, period: Duration) -> Result<Self, GcraError> {
        match Gcra::new(burst, count, period) {
            Ok(gcra) => Ok(Self::by(gcra)),
            Err(error) => Err(error),
        }
    }

    /// Burst [tiers](crate::tiers), lowest first, instead of burst, count and period.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limit, tiers::Tier};
    ///
    /// let secs = Duration::from_secs;
    /// // Five a second; whoever exceeds that gets one more, and then nothing for fifteen seconds.
    /// let limit = Limit::tiers([
    ///     Tier::new(5, secs(1)),
    ///     Tier::new(1, secs(15)).active(secs(15)),
    /// ])?;
    /// # Ok::<_, tollgate::tiers::TiersError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Tiers::new`].
    pub fn tiers(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, TiersError> {
        Tiers::new(tiers).map(Self::from)
    }

    /// `count` per `period`, all of them at once if need be.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// // Five per quarter of an hour.
    /// let logins = Limit::per(5, Duration::from_secs(15 * 60));
    /// assert_eq!(logins.to_string(), "5 per 15m0s, 5 at once");
    /// ```
    ///
    /// # Panics
    ///
    /// If `count` is 0, or the period is 0, has a fraction of a microsecond, or is longer than 71 years.
    #[must_use]
    #[track_caller]
    pub const fn per(count: u32, period: Duration) -> Self {
        Self::checked(count, count, period)
    }

    /// One per `interval`, never two at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::Limit;
    ///
    /// // Ten per second, evenly spaced; three of them at once.
    /// let limit = Limit::every(Duration::from_millis(100)).burst(3);
    /// assert_eq!(limit.to_string(), "1 per 100ms, 3 at once");
    /// ```
    ///
    /// # Panics
    ///
    /// If the interval is 0, has a fraction of a microsecond, or is longer than 71 years.
    #[must_use]
    #[track_caller]
    pub const fn every(interval: Duration) -> Self {
        Self::checked(1, 1, interval)
    }

    /// `count` per second, all of them at once if need be.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_second(count: u32) -> Self {
        Self::per(count, Duration::from_secs(1))
    }

    /// `count` per minute, all of them at once if need be.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_minute(count: u32) -> Self {
        Self::per(count, Duration::from_secs(60))
    }

    /// `count` per hour, all of them at once if need be.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_hour(count: u32) -> Self {
        Self::per(count, Duration::from_secs(60 * 60))
    }

    /// `count` per day of 24 hours, all of them at once if need be.
    ///
    /// # Panics
    ///
    /// If `count` is 0.
    #[must_use]
    #[track_caller]
    pub const fn per_day(count: u32) -> Self {
        Self::per(count, Duration::from_secs(24 * 60 * 60))
    }

    /// Sets how many may come at once. The rate stays.
    ///
    /// # Panics
    ///
    /// If `burst` is 0, or so high that an empty bucket would take more than 71 years to fill; or if the limit has
    /// tiers, which have limits of their own, or none of all these.
    #[must_use]
    #[track_caller]
    pub const fn burst(self, burst: u32) -> Self {
        let gcra = match &self.0 {
            Kind::By(Algorithm::Gcra(gcra)) => *gcra,
            Kind::Leased(_) => {
                panic!("the limit is leased: set the burst of the one that is configured")
            }
            Kind::By(Algorithm::Tiers(_)) => panic!("tiers have no burst: set their limits"),
            Kind::Unlimited | Kind::Blocked => panic!("there is nothing that a burst could be of"),
        };
        // There is nothing to drop in it, and a `const` may not even seem to.
        let _ = std::mem::ManuallyDrop::new(self);
        Self::checked(burst, gcra.count(), gcra.period())
    }

    #[track_caller]
    const fn checked(burst: u32, count: u32, period: Duration) -> Self {
        match Gcra::new(burst, count, period) {
            Ok(gcra) => Self::by(gcra),
            Err(GcraError::ZeroBurst) => panic!("a burst of 0 lets nothing pass: use at least 1"),
            Err(GcraError::ZeroCount) => panic!("a count of 0 lets nothing pass: use at least 1"),
            Err(GcraError::ZeroPeriod) => panic!("a period of 0 limits nothing: use at least 1 µs"),
            Err(GcraError::PeriodTooFine) => {
                panic!("a period is a whole number of microseconds: round it to one")
            }
            Err(GcraError::ToleranceTooLong) => {
                panic!("an empty bucket would take more than 71 years to fill: lower the burst")
            }
        }
    }

    const fn by(gcra: Gcra) -> Self {
        Self(Kind::By(Algorithm::Gcra(gcra)))
    }

    /// How buckets of this limit are decided; `None` if there are none, because it is
    /// [`UNLIMITED`](Self::UNLIMITED) or [`BLOCKED`](Self::BLOCKED).
    #[must_use]
    pub const fn algorithm(&self) -> Option<&Algorithm> {
        match &self.0 {
            Kind::By(algorithm) | Kind::Leased(Leased { algorithm, .. }) => Some(algorithm),
            Kind::Unlimited | Kind::Blocked => None,
        }
    }

    /// Whether nothing passes.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        matches!(self.0, Kind::Blocked)
    }

    /// The same limit with leases: each process may hold `units`, and the store decides by `burst`.
    pub(crate) fn leased(&self, units: u32, burst: u32) -> Self {
        let Some(Algorithm::Gcra(gcra)) = self.algorithm() else {
            return self.clone();
        };
        // What is left of a burst makes a limit if the whole does.
        let left = Gcra::new(burst, gcra.count(), gcra.period()).unwrap_or(*gcra);
        Self(Kind::Leased(Leased {
            algorithm: Algorithm::Gcra(left),
            units,
            burst: gcra.burst(),
        }))
    }

    /// How many unspent units a process may hold of a bucket; 0 without leases.
    #[inline]
    pub(crate) const fn leased_units(&self) -> u32 {
        match &self.0 {
            Kind::Leased(leased) => leased.units,
            _ => 0,
        }
    }

    /// The burst of a limit with leases, before it was split.
    pub(super) const fn configured_burst(&self) -> Option<u32> {
        match &self.0 {
            Kind::Leased(leased) => Some(leased.burst),
            _ => None,
        }
    }

    /// The highest cost that can ever pass, if it is the cost that decides.
    #[must_use]
    pub fn max_cost(&self) -> Option<u32> {
        match self.algorithm()? {
            Algorithm::Gcra(gcra) => Some(gcra.burst()),
            Algorithm::Tiers(tiers) => Some(tiers.max_units()),
        }
    }
}

impl From<Tiers> for Limit {
    fn from(tiers: Tiers) -> Self {
        Self(Kind::By(Algorithm::Tiers(tiers)))
    }
}

impl fmt::Display for Limit {
    /// Writes `10 per 1s, 20 at once`, or a tier after the other, or `unlimited` or `blocked`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm() {
            Some(Algorithm::Gcra(gcra)) => {
                let period = format_duration(gcra.period());
                write!(f, "{} per {period}, {} at once", gcra.count(), gcra.burst())
            }
            Some(Algorithm::Tiers(tiers)) => {
                for (i, tier) in tiers.iter().enumerate() {
                    let (window, active) = (format_span(tier.window), format_span(tier.active));
                    let then = if i > 0 { ", then " } else { "" };
                    write!(f, "{then}{} per {window} for {active}", tier.limit)?;
                }
                Ok(())
            }
            None if self.is_blocked() => f.write_str("blocked"),
            None => f.write_str("unlimited"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_per_second_is_ten_per_second() {
        assert_eq!(
            Limit::per_second(10),
            Limit::new(10, 10, Duration::from_secs(1)).unwrap()
        );
        assert_eq!(
            Limit::per_minute(7),
            Limit::new(7, 7, Duration::from_secs(60)).unwrap()
        );
        assert_eq!(
            Limit::per_hour(7),
            Limit::new(7, 7, Duration::from_secs(3600)).unwrap()
        );
        assert_eq!(
            Limit::per_day(7),
            Limit::new(7, 7, Duration::from_secs(86_400)).unwrap()
        );
    }

    #[test]
    fn burst_keeps_the_rate() {
        const LIMIT: Limit = Limit::per_minute(60).burst(100);
        assert_eq!(LIMIT, Limit::new(100, 60, Duration::from_secs(60)).unwrap());
        assert_eq!(LIMIT.max_cost(), Some(100));
        assert_eq!(LIMIT.to_string(), "60 per 1m0s, 100 at once");
    }

    #[test]
    #[should_panic(expected = "a count of 0 lets nothing pass")]
    fn zero_per_second_panics() {
        let _ = Limit::per_second(0);
    }

    #[test]
    #[should_panic(expected = "a burst of 0 lets nothing pass")]
    fn zero_burst_panics() {
        let _ = Limit::per_second(1).burst(0);
    }
}
