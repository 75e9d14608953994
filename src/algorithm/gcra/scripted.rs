//! GCRA in Lua: what scripts are asked, and what they find.

use std::convert::Infallible;

use smallvec::smallvec;

use super::gcra::Gcra;
use crate::algorithm::{
    action::{Action, Ask},
    counting::Counting,
    scripted::{Argument, Arguments, MOST_US, Scripted, decimal},
    ticks::{Tat, Ticks},
};

/// The refund of a limit with a line. It has two more arguments than other verbs.
const LEAVE: &str = "leave";

impl Scripted for Gcra {
    const LETTER: &'static str = "G";
    const HAS_SPENDS_SCRIPT: bool = true;

    type Report = Infallible;

    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        if ask.action != Action::Refund {
            // A charge that can wait has a larger tolerance.
            return self.terms(self.increment(ask.cost), self.line_us(ask.joins_line));
        }
        // A refund needs the plain tolerance: a TAT beyond it means that a caller waits in line.
        let (span, own) = self.refunded(ask.refund, ask.cost);
        let mut arguments = self.terms(span, 0);
        if self.refund_verb(ask) == Some(LEAVE) {
            arguments.extend(match own {
                Some(own) => [Argument::number(own.us), Argument::number(own.frac)],
                None => [Argument::NONE, Argument::Number(0)],
            });
        }
        arguments
    }

    fn refund_verb(&self, ask: &Ask<'_>) -> Option<&'static str> {
        let (span, _) = self.refunded(ask.refund, ask.cost);
        let verb = if self.has_line() { LEAVE } else { "refund" };
        (span > Ticks::default()).then_some(verb)
    }

    fn read_value(value: &[u8]) -> Option<Tat> {
        let mut parts = value.split(|byte| *byte == b':');
        let us = decimal(parts.next()?)?;
        let frac = parts.next().map_or(Some(0), decimal)?;
        let tat = Tat {
            us,
            frac: frac.try_into().ok()?,
        };
        (parts.next().is_none() && tat == tat.storable()).then_some(tat)
    }

    fn view_report(&self, report: &Infallible, _: &Ask<'_>, _: u64) -> Tat {
        match *report {}
    }

    fn stored_by_clock(tat: Tat, from: u64, to: u64) -> Tat {
        Self::by_clock(tat, from, to)
    }
}

impl Gcra {
    /// Returns the limit's count, a cost, and the tolerance, to which a wait in line is added.
    fn terms(&self, cost: Ticks, wait_us: u64) -> Arguments {
        let tolerance = self.tolerance();
        smallvec![
            Argument::number(self.count()),
            Argument::number(cost.us.min(MOST_US)),
            Argument::number(tolerance.us + wait_us),
            Argument::number(cost.frac),
            Argument::number(tolerance.frac),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_read_as_the_script_reads_it() {
        let tat = |us, frac| Some(Tat { us, frac });
        for (value, expected) in [
            ("1767225600000000", tat(1_767_225_600_000_000, 0)),
            ("5:4294967295", tat(5, u32::MAX)),
            ("9007199254740991", tat((1 << 53) - 1, 0)),
            ("9007199254740992", None),
            ("5:4294967296", None),
            ("5:", None),
            (":5", None),
            ("5:1:1", None),
            ("-5", None),
            ("+5", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(Gcra::read_value(value.as_bytes()), expected, "{value}");
        }
    }
}
