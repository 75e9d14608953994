//! Blocks: clients that are denied until an instant.
//!
//! The state of a bucket is the instant at which the client's block ends. A debit sets it to one second from now for each unit,
//! whatever it was before. So a block that is repeated, or set by several callers at once, is one block. A spend passes unless the
//! client is blocked, and changes nothing. [`LimitsBuilder::block`](crate::limit::LimitsBuilder::block) has an example.

use std::{fmt, time::Duration};

use super::{
    Algorithm, Arithmetic, Ask, AskError, Charge, Figures, LONGEST_US, LimitSpans, Parameters,
    Share, Verb, Wait, WrittenFields, gcra::Ticks,
};

/// Clients that are blocked, each until an instant of its own.
/// [`LimitsBuilder::block`](crate::limit::LimitsBuilder::block) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Block;

impl Block {
    /// Returns how long a debit blocks the client, in microseconds.
    pub(crate) fn time(ask: &Ask) -> u64 {
        LONGEST_US.min(u64::from(ask.cost) * 1_000_000)
    }

    /// Returns the charge of a debit that has set this end. It has no units, so it cannot be refunded: the end before the debit is
    /// not known.
    pub(crate) fn charge(end: Ticks) -> Charge {
        Charge {
            at: end.us,
            ..Charge::default()
        }
    }
}

impl Arithmetic for Block {
    type State = Ticks;

    fn accepts(&self, ask: &Ask) -> Result<(), AskError> {
        ask.accepted_up_to(self.capacity())
    }

    fn judge(&self, ask: &Ask, end: &Ticks, now: u64) -> bool {
        ask.verb == Verb::Debit || ask.verb == Verb::Spend && end.us <= now
    }

    fn apply(&self, ask: &Ask, end: &mut Ticks, now: u64) -> Charge {
        *end = match ask.verb {
            Verb::Debit => Ticks::micros(now + Self::time(ask)),
            // The block is over.
            _ => Ticks::default(),
        };
        Self::charge(*end)
    }

    fn figures(&self, _: &Ask, end: &Ticks, now: u64) -> Figures {
        let rest = Wait::until(end.us, now);
        Figures {
            limit: self.capacity(),
            remaining: u32::from(rest.is_zero()),
            next_after: rest,
            more_after: rest,
            reset_after: rest,
            delay: Wait::ZERO,
        }
    }

    fn full_at(&self, end: &Ticks) -> u64 {
        end.us
    }
}

impl Parameters for Block {
    fn capacity(&self) -> u32 {
        1
    }

    fn share(&self, _: Share) -> Algorithm {
        Algorithm::Block(*self)
    }

    fn spans(&self) -> LimitSpans {
        LimitSpans {
            window: None,
            period: None,
        }
    }

    fn most_within(&self, _: Duration) -> Option<u128> {
        None
    }

    /// There are no fields, because files cannot define lists of blocked clients.
    fn values(&self) -> WrittenFields {
        WrittenFields::default()
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("blocked for a time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const NOW: u64 = 1_767_225_600 * SECOND;

    /// Asks, and returns whether the question passes and the time that is left.
    fn ask(end: &mut Ticks, verb: Verb, cost: u32, now: u64) -> (bool, u64) {
        let ask = Ask::new(verb, cost);
        let passes = Block.judge(&ask, end, now);
        if passes {
            Block.apply(&ask, end, now);
        }
        let figures = Block.figures(&ask, end, now);
        assert_eq!(figures.remaining == 0, figures.next_after > Wait::ZERO);
        assert_eq!(figures.next_after, figures.reset_after);
        let left = figures.next_after.duration().unwrap();
        (passes, u64::try_from(left.as_micros()).unwrap())
    }

    #[test]
    fn debit_replaces_the_end() {
        let mut end = Ticks::default();
        assert_eq!(ask(&mut end, Verb::Spend, 1, NOW), (true, 0));
        for secs in [60, 60, 3600, 1, 60] {
            let left = u64::from(secs) * SECOND;
            assert_eq!(ask(&mut end, Verb::Debit, secs, NOW), (true, left));
        }
        for (verb, after, expected) in [
            (Verb::Spend, 0, (false, 60 * SECOND)),
            (Verb::Refund, 0, (false, 60 * SECOND)),
            (Verb::Peek, SECOND, (false, 59 * SECOND)),
            (Verb::Spend, 60 * SECOND - 1, (false, 1)),
            (Verb::Spend, 60 * SECOND, (true, 0)),
            (Verb::Spend, 0, (true, 0)),
        ] {
            assert_eq!(ask(&mut end, verb, 1, NOW + after), expected, "{verb:?}");
        }
        assert_eq!(end, Ticks::default());
    }

    #[test]
    fn block_ends_within_71_years() {
        let mut end = Ticks::default();
        let longest = (true, LONGEST_US);
        assert_eq!(ask(&mut end, Verb::Debit, u32::MAX, NOW), longest);
    }
}
