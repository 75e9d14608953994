use super::Quota;
use crate::algorithm::{
    Arithmetic, Ask, AskError, Charge, Figures, Verb, Wait,
    numbers::{AsNumbers, Numbers},
};

/// The used amount of a quota. It counts until the end of its period. The default is a full bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The end of the period, in microseconds since the Unix epoch.
    pub(crate) end: u64,
    /// The units used in it.
    pub(crate) used: u32,
}

impl AsNumbers for Usage {
    const LETTER: u8 = b'q';

    fn write(&self, number: &mut impl FnMut(u64)) {
        number(self.end);
        number(self.used.into());
    }

    fn read(numbers: &mut Numbers<'_>) -> Option<Self> {
        Some(Self {
            end: numbers.number()?,
            used: numbers.small()?,
        })
    }
}

impl Arithmetic for Quota {
    type State = Usage;

    #[inline]
    fn accepts(&self, ask: &Ask) -> Result<(), AskError> {
        ask.accepted_up_to(self.quota)
    }

    #[inline]
    fn adopt(&self, usage: &mut Usage, now: u64) -> bool {
        let stored = usage.end;
        if usage.used_at(now) > 0 {
            usage.end = self.end(usage, now);
        }
        usage.end != stored
    }

    #[inline]
    fn judge(&self, ask: &Ask, usage: &Usage, now: u64) -> bool {
        let used = usage.used_at(now);
        match ask.verb {
            // A cost of 0 passes unless the bucket is in debt.
            Verb::Spend => self.fits(used, ask.cost),
            Verb::Debit => true,
            Verb::Refund => given_back(ask, usage, now) > 0,
            Verb::Renew | Verb::Peek => false,
        }
    }

    #[inline]
    fn apply(&self, ask: &Ask, usage: &mut Usage, now: u64) -> Charge {
        let before = usage.used_at(now);
        let used = match ask.verb {
            Verb::Spend | Verb::Debit => before.saturating_add(ask.cost),
            Verb::Refund => before - given_back(ask, usage, now),
            Verb::Renew | Verb::Peek => before,
        };
        let end = match before {
            0 => self.per.end(now),
            _ => usage.end,
        };
        // When nothing is used, the bucket is full, and a period from first use begins with the next request.
        *usage = match used {
            0 => Usage::default(),
            used => Usage { end, used },
        };
        Charge {
            at: end,
            frac: 0,
            units: used.abs_diff(before),
        }
    }

    #[inline]
    fn figures(&self, ask: &Ask, usage: &Usage, now: u64) -> Figures {
        let used = usage.used_at(now);
        let until_end = if used > 0 {
            Wait::until(self.end(usage, now), now)
        } else {
            Wait::ZERO
        };
        Figures {
            limit: self.quota,
            remaining: self.quota.saturating_sub(used),
            next_after: if self.fits(used, ask.cost) {
                Wait::ZERO
            } else if used > 0 {
                until_end
            } else {
                // A debit or a refund can cost more than the quota.
                Wait::until(self.per.end(now), now)
            },
            more_after: until_end,
            reset_after: until_end,
            delay: Wait::ZERO,
        }
    }

    #[inline]
    fn full_at(&self, usage: &Usage) -> u64 {
        if usage.used > 0 { usage.end } else { 0 }
    }
}

impl Quota {
    /// Returns the instant until which the used amount counts. A stored end beyond the next period was written when the limit had a
    /// longer period, so it becomes the end of the current one. An end in the next period is kept, because the clock may have
    /// stepped back.
    #[inline]
    fn end(&self, usage: &Usage, now: u64) -> u64 {
        // An end within the shortest period from now belongs to the current or to the next period. This is nearly always so, and
        // saves the calendar's arithmetic, which takes as long as the rest of the decision.
        let shortest = self.per.shortest_us().saturating_sub(self.per.drift_us());
        if usage.end <= now.saturating_add(shortest) {
            return usage.end;
        }
        let current = self.per.end(now);
        let has_calendar = self.per.calendar_unit().is_some();
        if has_calendar && usage.end <= self.per.end(current) {
            usage.end
        } else {
            current
        }
    }

    /// Returns whether a cost fits beside what is used.
    #[inline]
    fn fits(&self, used: u32, cost: u32) -> bool {
        used.checked_add(cost).is_some_and(|sum| sum <= self.quota)
    }
}

impl Usage {
    /// Returns the units that count.
    #[inline]
    const fn used_at(&self, now: u64) -> u32 {
        if now < self.end { self.used } else { 0 }
    }
}

/// Returns the units that a refund gives back: those of the same period only.
fn given_back(ask: &Ask, usage: &Usage, now: u64) -> u32 {
    match ask.charge {
        Some(charge) if charge.at != usage.end => 0,
        _ => ask.cost.min(usage.used_at(now)),
    }
}
