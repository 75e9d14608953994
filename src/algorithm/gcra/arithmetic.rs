use super::Gcra;
use crate::algorithm::{
    Arithmetic, Ask, AskError, Charge, Figures, LONGEST_US, Verb, Wait,
    numbers::{AsNumbers, Numbers},
};

impl Arithmetic for Gcra {
    type State = Ticks;

    #[inline]
    fn accepts(&self, ask: &Ask) -> Result<(), AskError> {
        match ask.verb {
            // A receipt can be that of a debit, whose cost has no bound.
            Verb::Refund if ask.charge.is_none() && ask.cost > self.burst => {
                Err(AskError::TooCostly(self.burst))
            }
            _ => ask.accepted_up_to(self.burst),
        }
    }

    #[inline]
    fn judge(&self, ask: &Ask, tat: &Ticks, now: u64) -> bool {
        match ask.verb {
            Verb::Spend if self.is_whole(tat) => self.whole().fits(ask, *tat, now),
            Verb::Spend => self.fits(ask, *tat, now),
            Verb::Debit => true,
            Verb::Refund => self.refunded(ask, *tat, now).is_some(),
            Verb::Renew | Verb::Peek => false,
        }
    }

    #[inline]
    fn apply(&self, ask: &Ask, tat: &mut Ticks, now: u64) -> Charge {
        let mut units = ask.cost;
        match ask.verb {
            Verb::Spend if self.is_whole(tat) => *tat = self.whole().charged(*tat, now, ask.cost),
            Verb::Spend => *tat = self.charged(*tat, now, ask.cost),
            Verb::Debit => {
                let whole = self.charged(*tat, now, ask.cost);
                *tat = self.debited(*tat, now, ask.cost);
                // Out of bounds, the debt has not grown by the whole cost. It has no units then, so that no refund gives back more
                // than was charged.
                if *tat != whole {
                    units = 0;
                }
            }
            Verb::Refund => *tat = self.refunded(ask, *tat, now).unwrap_or(*tat),
            Verb::Renew | Verb::Peek => {}
        }
        Charge {
            at: tat.us,
            frac: tat.frac,
            units,
        }
    }

    // Inlined, because the caller would otherwise read in wide loads what this function has just written in narrow stores, and wait
    // for them.
    #[inline(always)]
    fn figures(&self, ask: &Ask, tat: &Ticks, now: u64) -> Figures {
        if self.is_whole(tat) {
            self.whole().figures_at(ask, *tat, now)
        } else {
            self.figures_at(ask, *tat, now)
        }
    }

    #[inline]
    fn used(&self, figures: &Figures) -> u16 {
        figures.used(self.thousandths_of_token)
    }

    #[inline]
    fn full_at(&self, tat: &Ticks) -> u64 {
        tat.ceil()
    }
}

impl Gcra {
    /// Returns whether neither the interval nor the TAT has a fraction, as with most limits.
    #[inline]
    fn is_whole(&self, tat: &Ticks) -> bool {
        self.interval.frac == 0 && tat.frac == 0
    }

    /// Returns the limit with a count of 1. The caller has checked that there are no fractions. The compiler then leaves out their
    /// arithmetic, which halves the time of a decision.
    #[inline(always)]
    fn whole(&self) -> Self {
        Self {
            count: 1,
            interval: Ticks::micros(self.interval.us),
            tolerance: Ticks::micros(self.tolerance.us),
            ..*self
        }
    }

    #[inline(always)]
    fn fits(&self, ask: &Ask, tat: Ticks, now: u64) -> bool {
        self.charged(tat, now, ask.cost) <= self.latest(ask, now)
    }

    #[inline(always)]
    fn figures_at(&self, ask: &Ask, tat: Ticks, now: u64) -> Figures {
        let tat = self.normal(tat);
        let horizon = self.horizon(now);
        let is_full = tat <= Ticks::micros(now);
        let (tokens, rest) = self.tokens(horizon.minus(tat, self.count));
        let debt = tat.minus(horizon, self.count);
        Figures {
            limit: self.burst,
            remaining: if is_full { self.burst } else { tokens },
            next_after: self.wait(self.latest(ask, now), self.charged(tat, now, ask.cost)),
            more_after: if is_full {
                Wait::ZERO
            } else {
                self.wait(rest, debt.plus(self.interval, self.count))
            },
            reset_after: self.wait(Ticks::micros(now), tat),
            delay: if ask.waits && self.max_wait > 0 {
                Wait::micros(debt.ceil())
            } else {
                Wait::ZERO
            },
        }
    }

    /// Returns `cost · T`, capped far above [`LONGEST_US`]. Only a debit reaches the cap.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a remainder is below the count"
    )]
    pub(super) fn increment(&self, cost: u32) -> Ticks {
        if cost == 1 {
            return self.interval;
        }
        let cost = u64::from(cost);
        let count = u64::from(self.count);
        let us = self.interval.us.saturating_mul(cost).min(1 << 60);
        // Most intervals are whole. For them, this leaves out a division, which takes as long as the rest of the decision.
        if self.interval.frac == 0 {
            return Ticks::micros(us);
        }
        let parts = u64::from(self.interval.frac) * cost;
        Ticks {
            us: us + parts / count,
            frac: (parts % count) as u32,
        }
    }

    /// Returns a stored TAT with a fraction that is valid for this limit. A limit with another count may have stored it.
    #[inline]
    fn normal(&self, tat: Ticks) -> Ticks {
        Ticks {
            us: tat.us,
            frac: tat.frac.min(self.count - 1),
        }
    }

    /// Returns the TAT after a charge. Idle time never accumulates beyond the burst.
    #[inline]
    fn charged(&self, tat: Ticks, now: u64, cost: u32) -> Ticks {
        let lifted = if tat.us < now {
            Ticks::micros(now)
        } else {
            self.normal(tat)
        };
        lifted.plus(self.increment(cost), self.count)
    }

    /// Returns the TAT of an empty bucket: the latest one without a debt.
    #[inline]
    fn horizon(&self, now: u64) -> Ticks {
        Ticks {
            us: now + self.tolerance.us,
            frac: self.tolerance.frac,
        }
    }

    /// Returns the latest TAT with which a request passes.
    #[inline]
    pub(super) fn latest(&self, ask: &Ask, now: u64) -> Ticks {
        self.horizon(if ask.waits { now + self.max_wait } else { now })
    }

    /// Returns the TAT after a debit. The debt stops growing at [`LONGEST_US`].
    fn debited(&self, tat: Ticks, now: u64, cost: u32) -> Ticks {
        let deepest = Ticks::micros(now + LONGEST_US).max(self.normal(tat));
        self.charged(tat, now, cost).min(deepest)
    }

    /// Returns the TAT after a refund, or `None` if there is nothing to give back.
    ///
    /// While requests wait in line, only the last one can be refunded. Any other refund would let the next arrival
    /// start together with the last one.
    fn refunded(&self, ask: &Ask, tat: Ticks, now: u64) -> Option<Ticks> {
        let tat = self.normal(tat);
        let full = Ticks::micros(now);
        let is_own = |charge: Charge| {
            tat == Ticks {
                us: charge.at,
                frac: charge.frac,
            }
        };
        let is_waited_for = self.max_wait > 0 && tat > self.horizon(now);
        if tat <= full || ask.cost == 0 || is_waited_for && !ask.charge.is_some_and(is_own) {
            return None;
        }
        Some(tat.minus(self.increment(ask.cost), self.count).max(full))
    }

    /// Returns the number of whole tokens that come back in a span, at most the burst, and the rest of the span.
    #[inline]
    fn tokens(&self, span: Ticks) -> (u32, Ticks) {
        let (tokens, rest) = match self.interval {
            // Most intervals are whole.
            Ticks { us, frac: 0 } => {
                let rest = Ticks {
                    us: span.us % us,
                    frac: span.frac,
                };
                (span.us / us, rest)
            }
            _ => self.tokens_in_parts(span),
        };
        let tokens = u32::try_from(tokens).unwrap_or(self.burst);
        (tokens.min(self.burst), rest)
    }

    #[inline(never)]
    fn tokens_in_parts(&self, span: Ticks) -> (u64, Ticks) {
        let span = span.parts(self.count);
        let interval = self.interval.parts(self.count);
        // A division of 128 bits takes several times as long, and is seldom needed.
        let (tokens, rest) = match (u64::try_from(span), u64::try_from(interval)) {
            (Ok(span), Ok(interval)) => (span / interval, u128::from(span % interval)),
            _ => (
                u64::try_from(span / interval).unwrap_or(u64::MAX),
                span % interval,
            ),
        };
        (tokens, Ticks::divide(rest, self.count))
    }

    #[inline]
    fn wait(&self, from: Ticks, to: Ticks) -> Wait {
        Wait::micros(to.minus(from, self.count).ceil())
    }
}

/// An exact span or instant: `us + frac / count` microseconds, where `count` is that of the limit and `frac < count`.
///
/// As the state of a bucket, it is the theoretical arrival time since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticks {
    /// Whole microseconds.
    pub(crate) us: u64,
    /// The remainder, in parts of the count.
    pub(crate) frac: u32,
}

impl AsNumbers for Ticks {
    const LETTER: u8 = b'g';

    fn write(&self, number: &mut impl FnMut(u64)) {
        number(self.us);
        number(self.frac.into());
    }

    fn read(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self {
            us: numbers.number()?,
            frac: numbers.small()?,
        })
    }
}

impl Ticks {
    #[inline]
    pub(crate) const fn micros(us: u64) -> Self {
        Self { us, frac: 0 }
    }

    /// Divides a number of parts by the count. A quotient that does not fit becomes the largest value.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both are checked or below the count"
    )]
    pub(super) const fn divide(parts: u128, count: u32) -> Self {
        let us = parts / count as u128;
        Self {
            us: if us > u64::MAX as u128 {
                u64::MAX
            } else {
                us as u64
            },
            frac: (parts % count as u128) as u32,
        }
    }

    /// Returns the number of parts.
    pub(super) const fn parts(self, count: u32) -> u128 {
        self.us as u128 * count as u128 + self.frac as u128
    }

    #[inline]
    pub(super) fn plus(self, other: Self, count: u32) -> Self {
        let (frac, has_wrapped) = self.frac.overflowing_add(other.frac);
        let carries = has_wrapped || frac >= count;
        Self {
            us: self.us.saturating_add(other.us + u64::from(carries)),
            frac: if carries {
                frac.wrapping_sub(count)
            } else {
                frac
            },
        }
    }

    /// Subtracts a span, down to zero.
    #[inline]
    pub(super) fn minus(self, other: Self, count: u32) -> Self {
        if self <= other {
            return Self::default();
        }
        let borrows = self.frac < other.frac;
        let raised = if borrows { count } else { 0 };
        Self {
            us: self.us - other.us - u64::from(borrows),
            frac: self.frac.wrapping_add(raised).wrapping_sub(other.frac),
        }
    }

    /// Rounds up.
    #[inline]
    pub(crate) const fn ceil(self) -> u64 {
        self.us.saturating_add((self.frac > 0) as u64)
    }
}
