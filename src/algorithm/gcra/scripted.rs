//! GCRA in Lua: what scripts are asked, and what they find.

use smallvec::smallvec;

use super::gcra::Gcra;
use crate::algorithm::{
    action::{Action, Ask},
    counting::Counting,
    scripted::{Argument, Arguments, GroupScript, MOST_US, Replied, Scripted},
    ticks::{Tat, Ticks},
};

/// The refund of a limit with a line. It has two more arguments than other verbs.
const LEAVE: &str = "leave";

impl Scripted for Gcra {
    type Found = Tat;

    fn group_script(&self) -> Option<GroupScript> {
        Some(GroupScript::Spends)
    }

    fn spend_arguments(&self, ask: &Ask<'_>) -> Arguments {
        // A charge that can wait has a larger tolerance.
        self.terms(self.increment(ask.cost), self.line_us(ask.joins_line))
    }

    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        let letter = Argument::Text("G");
        if ask.action != Action::Refund {
            let mut arguments = self.spend_arguments(ask);
            arguments.insert(0, letter);
            return arguments;
        }
        // A refund needs the plain tolerance: a TAT beyond it means that a caller waits in line.
        let (span, own) = self.refunded(ask.refund, ask.cost);
        let mut arguments = self.terms(span, 0);
        arguments.insert(0, letter);
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

    fn read_found<R: Replied>(us: &R, frac: &R, _: u64) -> Option<Tat> {
        let (us, frac) = (us.number()?, frac.small()?);
        Some(Tat { us, frac }.storable())
    }

    fn view_found(&self, tat: &Tat, _: &Ask<'_>) -> Tat {
        *tat
    }

    fn spend_found(&self, ask: &Ask<'_>, tat: &Tat, now: u64) -> Option<(u32, Tat)> {
        let next = self.spend_within(*tat, now, ask.cost, self.line_us(ask.joins_line));
        Some(next.map_or((0, *tat), |next| (1, next)))
    }

    fn found_by_clock(tat: Tat, from: u64, to: u64) -> Tat {
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

    impl Replied for i64 {
        fn number(&self) -> Option<u64> {
            (*self).try_into().ok()
        }

        fn signed(&self) -> Option<i64> {
            Some(*self)
        }

        fn list(&self) -> Option<&[Self]> {
            None
        }

        fn bytes(&self) -> Option<&[u8]> {
            None
        }
    }

    #[test]
    fn tat_that_no_decision_leads_to_is_read_as_the_latest_one() {
        let latest = Tat::from_micros((1 << 53) - 1);
        for us in [(1 << 53) - 1, 1 << 53, i64::MAX] {
            assert_eq!(Gcra::read_found(&us, &0, 1), Some(latest), "{us}");
        }
        assert_eq!(Gcra::read_found(&-1, &0, 1), None);
        assert_eq!(Gcra::read_found(&1, &(1 << 32), 1), None);
    }
}
