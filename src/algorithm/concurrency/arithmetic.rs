use super::Concurrency;
use crate::{
    algorithm::{
        Arithmetic, Ask, AskError, Charge, Figures, Verb, Wait,
        numbers::{AsNumbers, Numbers},
    },
    random,
};

/// The permits of a bucket. The default is a full bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Permits(Vec<NamedPermit>);

/// A permit in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NamedPermit {
    name: u64,
    /// When it was taken or renewed last, in microseconds since the Unix epoch.
    seen: u64,
    units: u32,
}

/// Returns the name of a new permit: a random number below 2⁵², which Lua's doubles hold exactly.
pub(crate) fn new_name() -> u64 {
    random::number() >> 12
}

impl AsNumbers for Permits {
    const LETTER: u8 = b'c';

    fn write(&self, number: &mut impl FnMut(u64)) {
        for permit in &self.0 {
            number(permit.name);
            number(permit.seen);
            number(permit.units.into());
        }
    }

    fn read(numbers: &mut Numbers<'_>) -> Option<Self> {
        let mut permits = Self::default();
        let mut sum = 0_u32;
        while !numbers.is_empty() {
            let permit = NamedPermit {
                name: numbers.number()?,
                seen: numbers.number()?,
                units: numbers.small()?,
            };
            sum = sum.checked_add(permit.units)?;
            permits.0.push(permit);
        }
        Some(permits)
    }
}

impl Permits {
    /// The memory that a permit takes, in bytes.
    pub(super) const BYTES: usize = size_of::<NamedPermit>();

    /// Returns the memory that the permits take beyond their own size, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * Self::BYTES
    }
}

impl Concurrency {
    fn counts(&self, permit: &NamedPermit, now: u64) -> bool {
        now < self.end(permit)
    }

    /// Returns the first instant at which a permit no longer counts.
    fn end(&self, permit: &NamedPermit) -> u64 {
        permit.seen.saturating_add(self.hold_us())
    }

    pub(super) fn hold_us(&self) -> u64 {
        u64::try_from(self.hold.as_micros()).unwrap_or(u64::MAX)
    }

    /// Returns the units of all permits that count.
    fn used(&self, permits: &Permits, now: u64) -> u32 {
        let counting = permits.0.iter().filter(|permit| self.counts(permit, now));
        counting.map(|permit| permit.units).sum()
    }

    /// Returns the index of the permit that a question is about, if it counts.
    fn index(&self, ask: &Ask, permits: &Permits, now: u64) -> Option<usize> {
        let name = ask.charge?.at;
        permits
            .0
            .iter()
            .position(|permit| permit.name == name && self.counts(permit, now))
    }

    pub(super) fn figures_of(&self, ask: &Ask, used: u32) -> Figures {
        let unless = |is_known: bool| {
            if is_known { Wait::ZERO } else { Wait::UNKNOWN }
        };
        Figures {
            limit: self.limit,
            remaining: self.limit.saturating_sub(used),
            next_after: unless(used.saturating_add(ask.cost) <= self.limit),
            more_after: unless(used == 0),
            reset_after: unless(used == 0),
            delay: Wait::ZERO,
        }
    }
}

impl Arithmetic for Concurrency {
    type State = Permits;

    fn accepts(&self, ask: &Ask) -> Result<(), AskError> {
        match ask.verb {
            Verb::Debit => Err(AskError::DebitOfPermits),
            Verb::Refund | Verb::Renew if ask.charge.is_none() => Err(AskError::RefundOfPermits),
            Verb::Spend if ask.cost > self.limit => Err(AskError::TooCostly(self.limit)),
            _ => Ok(()),
        }
    }

    fn judge(&self, ask: &Ask, permits: &Permits, now: u64) -> bool {
        let is_there = || self.index(ask, permits, now).is_some();
        match ask.verb {
            // A repeated spend renews the permit that it has taken before.
            Verb::Spend => {
                self.used(permits, now).saturating_add(ask.cost) <= self.limit || is_there()
            }
            Verb::Refund | Verb::Renew => ask.cost > 0 && is_there(),
            Verb::Debit | Verb::Peek => false,
        }
    }

    fn apply(&self, ask: &Ask, permits: &mut Permits, now: u64) -> Charge {
        permits.0.retain(|permit| self.counts(permit, now));
        let name = ask.charge.map_or(0, |charge| charge.at);
        let mut units = 0;
        if let Some(index) = self.index(ask, permits, now) {
            let permit = &mut permits.0[index];
            units = permit.units;
            if ask.verb == Verb::Refund {
                units = units.min(ask.cost);
                permit.units -= units;
            } else {
                permit.seen = now;
            }
            if permit.units == 0 {
                permits.0.swap_remove(index);
            }
        } else if ask.verb == Verb::Spend {
            units = ask.cost;
            permits.0.push(NamedPermit {
                name,
                seen: now,
                units,
            });
        }
        Charge {
            at: name,
            frac: 0,
            units,
        }
    }

    fn figures(&self, ask: &Ask, permits: &Permits, now: u64) -> Figures {
        self.figures_of(ask, self.used(permits, now))
    }

    fn full_at(&self, permits: &Permits) -> u64 {
        let ends = permits.0.iter().map(|permit| self.end(permit));
        ends.max().unwrap_or(0)
    }
}
