use super::{
    per::Per,
    quota_error::{AmountError, QuotaError},
};
use crate::algorithm::limit_error::LimitError;

/// The validated parameters of a quota. [`Limit::quota`](crate::Limit::quota) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    pub(super) quota: u32,
    pub(super) per: Per,
}

/// The used part of a [`Quota`], which is the whole stored state of a bucket. The default is an unused bucket.
/// [`Limit::quota`](crate::Limit::quota) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Usage {
    /// The start of the period, in microseconds since the Unix epoch.
    pub start_us: u64,
    /// The amount used.
    pub used: u32,
}

impl Usage {
    /// An unused bucket, which is also the state of a missing one.
    pub const NOTHING: Self = Self {
        start_us: 0,
        used: 0,
    };
}

impl Quota {
    /// At most `quota` in each period.
    ///
    /// # Errors
    ///
    /// If the quota is 0.
    pub const fn new(quota: u32, per: Per) -> Result<Self, LimitError> {
        match Self::checked(quota, per) {
            Ok(quota) => Ok(quota),
            Err(error) => Err(LimitError::quota(QuotaError::Amount(error))),
        }
    }

    pub(crate) const fn checked(quota: u32, per: Per) -> Result<Self, AmountError> {
        match quota {
            0 => Err(AmountError::Zero),
            _ => Ok(Self { quota, per }),
        }
    }

    /// Returns the most that can be used in a period, without debits.
    #[must_use]
    pub const fn quota(&self) -> u32 {
        self.quota
    }

    /// Returns the period.
    #[must_use]
    pub const fn per(&self) -> Per {
        self.per
    }

    /// Returns the usage that counts at `now` (µs since the epoch), which is nothing if the period has ended.
    #[inline]
    pub(crate) fn current(&self, usage: Usage, now: u64) -> Usage {
        match usage.used > 0 && now < self.per.end(usage.start_us) {
            true => usage,
            false => Usage::NOTHING,
        }
    }

    /// Returns the usage after a request of `cost` at `now` (µs since the epoch), or `None` if it is denied.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn spend(&self, usage: Usage, now: u64, cost: u32) -> Option<Usage> {
        let current = self.current(usage, now);
        let used = current.used.checked_add(cost)?;
        (used <= self.quota).then(|| self.charged(current, now, used))
    }

    /// Returns the usage after a charge of `cost`, even beyond the quota. The amount used saturates at 2³² − 1.
    #[doc(hidden)]
    #[must_use]
    pub fn debit(&self, usage: Usage, now: u64, cost: u32) -> Usage {
        let current = self.current(usage, now);
        self.charged(current, now, current.used.saturating_add(cost))
    }

    /// Returns the usage after a refund of `cost`, or `None` if there is nothing to refund.
    #[doc(hidden)]
    #[must_use]
    pub fn refund(&self, usage: Usage, now: u64, cost: u32) -> Option<Usage> {
        let current = self.current(usage, now);
        let used = current.used.saturating_sub(cost);
        (used < current.used).then_some(match used {
            0 => Usage::NOTHING,
            used => Usage { used, ..current },
        })
    }

    /// Refunds a charge of the period that started at `start_us`. Returns `None` in any other period.
    #[doc(hidden)]
    #[must_use]
    pub fn refund_in(&self, usage: Usage, now: u64, start_us: u64, cost: u32) -> Option<Usage> {
        let is_same = usage.start_us == start_us;
        self.refund(usage, now, cost).filter(|_| is_same)
    }

    /// Returns the rest of the quota at `now`.
    #[doc(hidden)]
    #[must_use]
    pub fn remaining(&self, usage: Usage, now: u64) -> u32 {
        let used = self.current(usage, now).used;
        self.quota.saturating_sub(used)
    }

    /// Returns the time from `now` (µs) until a request of `cost` would pass, or until the period ends; zero if it
    /// would pass now.
    #[doc(hidden)]
    #[must_use]
    pub fn wait(&self, usage: Usage, now: u64, cost: u32) -> u64 {
        match self.spend(usage, now, cost) {
            Some(_) => 0,
            None => self.rest_of_period(usage, now),
        }
    }

    /// Returns the time from `now` (µs) to the end of the period; zero if nothing is used.
    #[doc(hidden)]
    #[must_use]
    pub fn reset_after(&self, usage: Usage, now: u64) -> u64 {
        match self.current(usage, now) {
            Usage::NOTHING => 0,
            current => self.per.end(current.start_us) - now,
        }
    }

    /// Returns the length of the period in force at `now`, in µs.
    pub(crate) fn period(&self, usage: Usage, now: u64) -> u64 {
        match self.current(usage, now) {
            Usage::NOTHING => self.per.length(now),
            current => self.per.length(current.start_us),
        }
    }

    /// Returns the time from `now` to the end of the period that is in force or, if nothing is used, would start now.
    fn rest_of_period(&self, usage: Usage, now: u64) -> u64 {
        let start = match self.current(usage, now) {
            Usage::NOTHING => now,
            current => current.start_us,
        };
        self.per.end(start) - now
    }

    #[inline]
    fn charged(&self, current: Usage, now: u64, used: u32) -> Usage {
        match (current.used, used) {
            (_, 0) => Usage::NOTHING,
            (0, used) => Usage {
                start_us: self.per.start(now),
                used,
            },
            (_, used) => Usage { used, ..current },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first instant of Thursday, 1 January 2026.
    const T: u64 = 1_767_225_600_000_000;
    const DAY: u64 = 86_400_000_000;

    fn quota(quota: u32, per: Per) -> Quota {
        Quota::new(quota, per).unwrap()
    }

    #[test]
    fn period_is_that_of_the_limit_in_force() {
        let (daily, monthly) = (quota(5, Per::Day), quota(5, Per::Month));
        let used = daily.spend(Usage::NOTHING, T + DAY, 4).unwrap();
        assert_eq!(monthly.remaining(used, T + 30 * DAY), 1);
        assert_eq!(monthly.remaining(used, T + 31 * DAY), 5);
        let more = monthly.spend(used, T + 3 * DAY, 1).unwrap();
        assert_eq!(more.start_us, T + DAY);
        assert_eq!(daily.remaining(more, T + 3 * DAY), 5);
    }
}
