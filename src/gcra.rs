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
//! file has no clock, no I/O and no floating point, and does not panic for any input that its types admit.
//!
//! A limit with a *maximum wait* `w` has a line. A request that may wait is allowed up to `now + τ + w`, and starts
//! when its TAT is within the tolerance: `delay = TAT − τ − now`. The TAT is the queue, so requests start in the order
//! in which they came, one emission interval apart.
//!
//! Source: ITU-T I.371 (GCRA), in the form that Let's Encrypt's Boulder made known, with the
//! tolerance of one whole burst.

use std::{cmp::Ordering, time::Duration};

use thiserror::Error;

/// The longest tolerance of a limit, and the deepest debt of a bucket: 2⁵¹ µs, about 71 years. See [`Gcra::new`].
pub const MAX_TICKS_US: u64 = 1 << 51;

/// An exact span of time or instant: `us + frac / count` microseconds, where `count` is that of
/// the [`Gcra`] it belongs to and `frac < count`.
///
/// Two values compare correctly only if they belong to the same count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ticks {
    /// Whole microseconds.
    pub us: u64,
    /// The rest, in parts of the count.
    pub frac: u32,
}

/// The theoretical arrival time of a bucket, in microseconds since the Unix epoch. It is all that a backend stores
/// for it: see [`Stored`](crate::decision::Stored).
pub type Tat = Ticks;

impl Ticks {
    /// A whole number of microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self { us, frac: 0 }
    }

    /// Compares a value in parts of `count` with another one in parts of `other_count`, exactly.
    #[doc(hidden)]
    #[must_use]
    pub fn compare(self, count: u32, other: Self, other_count: u32) -> Ordering {
        let ours = u64::from(self.frac) * u64::from(other_count);
        let theirs = u64::from(other.frac) * u64::from(count);
        self.us.cmp(&other.us).then(ours.cmp(&theirs))
    }

    /// Returns the instant itself, or the latest that can be stored. A TAT of 2⁵³ µs or more does not come from a
    /// decision, but for example from another program that writes to the store.
    pub(crate) const fn storable(self) -> Self {
        const LATEST: u64 = (1 << 53) - 1;
        let us = if self.us > LATEST { LATEST } else { self.us };
        Self { us, ..self }
    }

    /// Rounds up to whole microseconds.
    #[doc(hidden)]
    #[must_use]
    pub const fn ceil_micros(self) -> u64 {
        self.us.saturating_add((self.frac > 0) as u64)
    }

    /// Rounds up to a [`Duration`] of whole microseconds.
    #[must_use]
    pub const fn ceil(self) -> Duration {
        Duration::from_micros(self.ceil_micros())
    }
}

impl Ticks {
    /// Returns a number with the same order: first the microseconds, then the fraction. Comparing one number takes half
    /// of the instructions.
    #[inline]
    const fn ordinal(self) -> u128 {
        (self.us as u128) << 64 | self.frac as u128
    }
}

impl Ord for Ticks {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.ordinal().cmp(&other.ordinal())
    }
}

impl PartialOrd for Ticks {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.ordinal() < other.ordinal()
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.ordinal() <= other.ordinal()
    }

    #[inline]
    fn gt(&self, other: &Self) -> bool {
        self.ordinal() > other.ordinal()
    }

    #[inline]
    fn ge(&self, other: &Self) -> bool {
        self.ordinal() >= other.ordinal()
    }
}

/// The error for an invalid burst, count or period. Returned by [`Limit::new`](crate::Limit::new).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GcraError {
    /// The burst is zero.
    #[error("burst is 0, so nothing would ever pass: use at least 1")]
    ZeroBurst,
    /// The count is zero.
    #[error("count is 0, so no token would ever come back: use at least 1")]
    ZeroCount,
    /// The period is zero.
    #[error("period is 0: use the time in which `count` tokens come back, such as `1s` or `3h`")]
    ZeroPeriod,
    /// The period has a fraction of a microsecond.
    #[error("period is not a whole number of microseconds: round it to one")]
    PeriodTooFine,
    /// An empty bucket would take longer than 2⁵¹ µs to fill.
    #[error(
        "an empty bucket would take more than 71 years (2^51 µs) to fill: \
         lower the burst or the period, or raise the count"
    )]
    ToleranceTooLong,
    /// The maximum wait has a fraction of a microsecond.
    #[error("max_wait is not a whole number of microseconds: round it to one")]
    WaitTooFine,
    /// The maximum wait and the tolerance are longer than 2⁵¹ µs together.
    #[error(
        "max_wait and the time in which an empty bucket fills are more than 71 years (2^51 us) together: lower max_wait"
    )]
    WaitTooLong,
}

/// The validated parameters of a limit: burst, count and period. [`Limit::new`](crate::Limit::new) creates a limit
/// directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gcra {
    burst: u32,
    count: u32,
    interval: Ticks,
    tolerance: Ticks,
    /// The longest wait in line; 0 if there is no line.
    max_wait_us: u64,
}

impl Gcra {
    /// Builds the parameters for a bucket of `burst` tokens. In each `period`, `count` of them come back.
    ///
    /// # Errors
    ///
    /// If one of the three is zero, if the period is not a whole number of microseconds, or if
    /// `burst · period / count` is above [`MAX_TICKS_US`].
    pub const fn new(burst: u32, count: u32, period: Duration) -> Result<Self, GcraError> {
        if count == 0 {
            return Err(GcraError::ZeroCount);
        }
        if burst == 0 {
            return Err(GcraError::ZeroBurst);
        }
        if period.is_zero() {
            return Err(GcraError::ZeroPeriod);
        }
        if !period.subsec_nanos().is_multiple_of(1000) {
            return Err(GcraError::PeriodTooFine);
        }
        let period_us = period.as_micros();
        let total = period_us * burst as u128;
        if total > MAX_TICKS_US as u128 * count as u128 {
            return Err(GcraError::ToleranceTooLong);
        }
        Ok(Self {
            burst,
            count,
            interval: divide(period_us, count),
            tolerance: divide(total, count),
            max_wait_us: 0,
        })
    }

    /// Gives the bucket a line: a request that does not fit yet may wait for up to `max_wait`. With zero, there is no
    /// line.
    ///
    /// # Errors
    ///
    /// If the wait is not a whole number of microseconds, or is above [`MAX_TICKS_US`] together with the
    /// [tolerance](Self::tolerance).
    pub const fn with_max_wait(mut self, max_wait: Duration) -> Result<Self, GcraError> {
        if !max_wait.subsec_nanos().is_multiple_of(1000) {
            return Err(GcraError::WaitTooFine);
        }
        let us = max_wait.as_micros();
        if us + self.tolerance.ceil_micros() as u128 > MAX_TICKS_US as u128 {
            return Err(GcraError::WaitTooLong);
        }
        self.max_wait_us = narrow_us(us);
        Ok(self)
    }

    /// The most tokens that the bucket holds.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// The number of tokens that come back each period. [`Ticks::frac`] counts in parts of it.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The time in which `count` tokens come back.
    #[must_use]
    pub const fn period(&self) -> Duration {
        micros(self.period_us())
    }

    /// The emission interval `T`: the time in which one token comes back.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate::gcra::Gcra;
    ///
    /// // Seven per second: one every 142,857 1/7 µs.
    /// let interval = Gcra::new(1, 7, Duration::from_secs(1))?.interval();
    /// assert_eq!((interval.us, interval.frac), (142_857, 1));
    /// # Ok::<_, tollgate::gcra::GcraError>(())
    /// ```
    #[must_use]
    pub const fn interval(&self) -> Ticks {
        self.interval
    }
    /// The tolerance `τ`: the time in which an empty bucket fills.
    #[must_use]
    pub const fn tolerance(&self) -> Ticks {
        self.tolerance
    }

    /// The longest wait in the bucket's line; zero if it has none.
    #[must_use]
    pub const fn max_wait(&self) -> Duration {
        Duration::from_micros(self.max_wait_us)
    }

    /// Returns the longest wait in the bucket's line, in microseconds.
    #[inline]
    pub(crate) const fn max_wait_us(&self) -> u64 {
        self.max_wait_us
    }

    /// The new TAT if a request of `cost` passes at `now` (µs since the epoch), or `None` if it is
    /// denied.
    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn spend(&self, tat: Tat, now: u64, cost: u32) -> Option<Tat> {
        self.spend_within(tat, now, cost, 0)
    }

    /// Returns the new TAT for a request that can wait in line for `wait_us` microseconds.
    #[inline]
    pub(crate) fn spend_within(&self, tat: Tat, now: u64, cost: u32, wait_us: u64) -> Option<Tat> {
        let next = self.add(self.lifted(tat, now), self.increment(cost));
        (next <= self.horizon(now.saturating_add(wait_us))).then_some(next)
    }

    /// Returns the time from `now` to the start of a request that has moved the bucket to `tat`.
    #[inline]
    pub(crate) fn delay(&self, tat: Tat, now: u64) -> Ticks {
        self.subtract(tat, self.horizon(now))
    }

    /// Returns the new TAT after a charge of `cost`, even into debt.
    ///
    /// The debt stops growing at [`MAX_TICKS_US`] after `now`.
    #[doc(hidden)]
    #[must_use]
    pub fn debit(&self, tat: Tat, now: u64, cost: u32) -> Tat {
        let tat = self.lifted(tat, now);
        let deepest = Ticks::from_micros(now.saturating_add(MAX_TICKS_US));
        self.add(tat, self.increment(cost)).min(deepest).max(tat)
    }

    /// Returns the new TAT after a refund of `cost`, never beyond full, or `None` if there is nothing to refund:
    /// a full bucket stays as it is.
    #[doc(hidden)]
    #[must_use]
    pub fn refund(&self, tat: Tat, now: u64, cost: u32) -> Option<Tat> {
        self.refund_charge(tat, now, self.increment(cost), None)
    }

    /// Refunds a span of time. `own` is the TAT right after the charge, if it is known.
    ///
    /// While a request waits in line, only the last one can give its slot back. Any other refund would move the next
    /// arrival into the slot of the last request, and both would start at the same time.
    #[inline]
    pub(crate) fn refund_charge(
        &self,
        tat: Tat,
        now: u64,
        span: Ticks,
        own: Option<Tat>,
    ) -> Option<Tat> {
        if self.is_waited_for(tat, now) && own != Some(tat) {
            return None;
        }
        self.refund_span(tat, now, span)
    }

    /// Returns whether the bucket has a line, and a request may be waiting in it.
    #[inline]
    fn is_waited_for(&self, tat: Tat, now: u64) -> bool {
        self.max_wait_us > 0 && self.normal(tat) > self.horizon(now)
    }

    /// Returns the TAT before a charge of `cost` moved it to `tat`.
    pub(crate) fn before(&self, tat: Tat, cost: u32) -> Tat {
        self.subtract(tat, self.increment(cost))
    }

    /// Refunds a span without a line, or for the last request in line.
    #[inline]
    pub(crate) fn refund_span(&self, tat: Tat, now: u64, span: Ticks) -> Option<Tat> {
        let (tat, now) = (self.normal(tat), Ticks::from_micros(now));
        let owed = tat > now && span > Ticks::default();
        owed.then(|| self.subtract(tat, span).max(now))
    }

    /// Returns the time that `cost` takes under this limit or under `other`, whichever is less, in parts of this count,
    /// rounded down.
    pub(crate) fn lesser_increment(&self, other: &Self, cost: u32) -> Ticks {
        let order = self
            .interval
            .compare(self.count, other.interval, other.count);
        if order.is_le() {
            return self.increment(cost);
        }
        let span = other.increment(cost);
        let parts = u64::from(span.frac) * u64::from(self.count) / u64::from(other.count);
        Ticks {
            us: span.us,
            frac: narrow(parts),
        }
    }

    /// Returns the new TAT after the same refund as moved another bucket from `before` to `after`, never
    /// beyond full.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn refund_as(&self, tat: Tat, before: Tat, after: Tat, now: u64) -> Tat {
        let full = Ticks::from_micros(now);
        if self.normal(tat) <= full || self.is_waited_for(tat, now) {
            return tat;
        }
        let given = self.subtract(self.lifted(before, now), self.lifted(after, now));
        self.subtract(self.normal(tat), given).max(full)
    }

    /// Returns the TAT of a bucket that holds `tokens` at `now`.
    #[cfg(feature = "tokio")]
    pub(crate) fn tat_with(&self, tokens: u32, now: u64) -> Tat {
        let taken = self.increment(self.burst.saturating_sub(tokens));
        self.add(Ticks::from_micros(now), taken)
    }

    /// Returns the new TAT after the same charge as moved another bucket from `before` to `after`.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn charge_as(&self, tat: Tat, before: Tat, after: Tat, now: u64) -> Tat {
        let taken = self.subtract(self.lifted(after, now), self.lifted(before, now));
        let deepest = Ticks::from_micros(now.saturating_add(MAX_TICKS_US));
        let tat = self.lifted(tat, now);
        self.add(tat, taken).min(deepest).max(tat)
    }

    /// Returns how many more tokens a bucket with this TAT owes at `now` than one with the TAT `other`, rounded up.
    #[cfg(feature = "failure-policy")]
    pub(crate) fn owes_beyond(&self, tat: Tat, other: Tat, now: u64) -> u32 {
        let more = self.subtract(self.lifted(tat, now), self.lifted(other, now));
        let tokens = self.units(more).div_ceil(self.period_us());
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    /// Returns the number of whole tokens in the bucket at `now`, rounded down; 0 in debt.
    #[doc(hidden)]
    #[must_use]
    pub fn remaining(&self, tat: Tat, now: u64) -> u32 {
        let tat = self.normal(tat);
        if tat <= Ticks::from_micros(now) {
            return self.burst;
        }
        self.tokens(self.subtract(self.horizon(now), tat))
    }

    /// Returns the number of whole emission intervals in a span, at most the burst.
    #[inline]
    fn tokens(&self, span: Ticks) -> u32 {
        if self.interval.frac == 0 && span.us <= self.tolerance.us {
            let tokens = span.us / self.interval.us;
            return u32::try_from(tokens).unwrap_or(self.burst);
        }
        let (headroom, period) = (self.units(span), self.period_us());
        // A division of 128 bits takes ten times as long, and is hardly ever needed.
        let tokens = match (u64::try_from(headroom), u64::try_from(period)) {
            (Ok(headroom), Ok(period)) => u128::from(headroom / period),
            _ => headroom / period,
        };
        u32::try_from(tokens).unwrap_or(self.burst)
    }

    /// Returns the time from `now` until a request of `cost` would pass if there were no others; zero if it would pass now.
    #[doc(hidden)]
    #[must_use]
    pub fn wait(&self, tat: Tat, now: u64, cost: u32) -> Ticks {
        self.wait_for_line(tat, now, cost, 0)
    }

    /// Returns the time from `now` until a request would be admitted that can then wait in line for `wait_us`
    /// microseconds.
    pub(crate) fn wait_for_line(&self, tat: Tat, now: u64, cost: u32, wait_us: u64) -> Ticks {
        let target = self.add(self.lifted(tat, now), self.increment(cost));
        self.subtract(target, self.horizon(now.saturating_add(wait_us)))
    }

    /// Returns the time from `now` until there is one more token to spend, or `None` for a full bucket.
    #[doc(hidden)]
    #[must_use]
    pub fn next_token(&self, tat: Tat, now: u64) -> Option<Ticks> {
        self.quota(tat, now).1
    }

    /// Returns [`remaining`](Self::remaining) and [`next_token`](Self::next_token), at the cost of one of them.
    #[doc(hidden)]
    #[must_use]
    pub fn quota(&self, tat: Tat, now: u64) -> (u32, Option<Ticks>) {
        let normal = self.normal(tat);
        if normal <= Ticks::from_micros(now) {
            return (self.burst, None);
        }
        let headroom = self.subtract(self.horizon(now), normal);
        let held = self.tokens(headroom);
        let next = match held {
            // A bucket in debt must drain its debt first.
            0 => self.wait(tat, now, 1),
            _ => self.subtract(self.increment(held + 1), headroom),
        };
        (held, (held < self.burst).then_some(next))
    }

    /// Returns the time from `now` until the bucket is full.
    #[doc(hidden)]
    #[must_use]
    pub fn reset_after(&self, tat: Tat, now: u64) -> Ticks {
        self.subtract(self.normal(tat), Ticks::from_micros(now))
    }

    const fn period_us(&self) -> u128 {
        self.units(self.interval)
    }

    const fn units(&self, span: Ticks) -> u128 {
        span.us as u128 * self.count as u128 + span.frac as u128
    }

    /// Returns the latest TAT within the tolerance at `now`.
    #[inline]
    fn horizon(&self, now: u64) -> Ticks {
        self.add(Ticks::from_micros(now), self.tolerance)
    }

    /// Normalizes a stored TAT, whose fraction can come from a limit with another count.
    #[inline]
    fn normal(&self, tat: Tat) -> Tat {
        Ticks {
            us: tat.us,
            frac: tat.frac.min(self.count - 1),
        }
    }

    /// Raises a TAT in the past to `now`, because idle time never accumulates beyond the burst.
    #[inline]
    fn lifted(&self, tat: Tat, now: u64) -> Tat {
        self.normal(tat).max(Ticks::from_micros(now))
    }

    /// Returns `cost · T`. Saturates far beyond [`MAX_TICKS_US`], which only a debit can reach.
    #[inline]
    pub(crate) fn increment(&self, cost: u32) -> Ticks {
        if cost == 1 {
            return self.interval;
        }
        let parts = u64::from(self.interval.frac) * u64::from(cost);
        let us = self.interval.us.saturating_mul(u64::from(cost));
        Ticks {
            us: us.saturating_add(parts / u64::from(self.count)),
            frac: narrow(parts % u64::from(self.count)),
        }
    }

    #[inline]
    fn add(&self, a: Ticks, b: Ticks) -> Ticks {
        let frac = u64::from(a.frac) + u64::from(b.frac);
        let count = u64::from(self.count);
        let carry = frac >= count;
        let us = a.us.saturating_add(b.us).saturating_add(u64::from(carry));
        Ticks {
            us,
            frac: narrow(if carry { frac - count } else { frac }),
        }
    }

    /// `a - b`, or zero where that would be negative.
    #[inline]
    fn subtract(&self, a: Ticks, b: Ticks) -> Ticks {
        if a <= b {
            return Ticks::default();
        }
        let borrow = a.frac < b.frac;
        let frac = if borrow {
            a.frac + (self.count - b.frac)
        } else {
            a.frac - b.frac
        };
        Ticks {
            us: a.us - b.us - u64::from(borrow),
            frac,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction is below the count, a u32"
)]
const fn narrow(frac: u64) -> u32 {
    frac as u32
}

#[expect(clippy::cast_possible_truncation, reason = "it is at most 2^51")]
const fn narrow_us(us: u128) -> u64 {
    us as u64
}

#[expect(clippy::cast_possible_truncation, reason = "it came out of a Duration")]
const fn micros(us: u128) -> Duration {
    Duration::new((us / 1_000_000) as u64, (us % 1_000_000) as u32 * 1000)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the quotient is at most 2^51"
)]
const fn divide(units: u128, count: u32) -> Ticks {
    Ticks {
        us: (units / count as u128) as u64,
        frac: (units % count as u128) as u32,
    }
}
