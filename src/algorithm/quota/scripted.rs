//! Quotas in Lua: what scripts are asked, and what they find.

use smallvec::smallvec;

use super::{CalendarUnit, Per, Quota, Usage};
use crate::algorithm::{
    Charge,
    action::{Ask, Refund},
    scripted::{Argument, Arguments, GroupScript, Replied, Scripted},
};

impl Scripted for Quota {
    type Found = Usage;

    fn group_script(&self) -> Option<GroupScript> {
        Some(GroupScript::Uses)
    }

    fn spend_arguments(&self, ask: &Ask<'_>) -> Arguments {
        let [length, shift] = period(self.per());
        smallvec![
            Argument::number(self.quota()),
            Argument::number(ask.cost),
            length,
            shift
        ]
    }

    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        let mut arguments = self.spend_arguments(ask);
        arguments.insert(0, Argument::Text("Q"));
        // The period that a refund gives back to.
        arguments.push(match ask.refund {
            Refund::Charge(Charge::Quota(charge)) => Argument::number(charge.start_us),
            _ => Argument::NONE,
        });
        arguments
    }

    fn refund_verb(&self, ask: &Ask<'_>) -> Option<&'static str> {
        let refunds = matches!(ask.refund, Refund::Cost | Refund::Charge(Charge::Quota(_)));
        refunds.then_some("refund")
    }

    fn read_found<R: Replied>(start: &R, used: &R, _: u64) -> Option<Usage> {
        Some(Usage {
            start_us: start.number()?,
            used: used.small()?,
        })
    }

    fn view_found(&self, usage: &Usage, _: &Ask<'_>) -> Usage {
        *usage
    }

    fn spend_found(&self, ask: &Ask<'_>, usage: &Usage, now: u64) -> Option<(u32, Usage)> {
        let next = self.spend(*usage, now, ask.cost);
        Some(next.map_or((0, *usage), |next| (1, next)))
    }
}

/// Encodes a period: its length (0 for a month), and the offset of its calendar from one that begins at the epoch.
fn period(per: Per) -> [Argument; 2] {
    /// The epoch was a Thursday.
    const SINCE_MONDAY: i64 = 3 * 24 * 60;
    const MINUTE_US: i64 = 60_000_000;
    let Some((unit, offset)) = per.calendar_unit() else {
        return [Argument::number(per.longest()), Argument::Text("use")];
    };
    let offset = i64::from(offset.as_minutes());
    let (length, minutes) = match unit {
        CalendarUnit::Hour | CalendarUnit::Day => (unit.longest(), offset),
        CalendarUnit::Week => (unit.longest(), offset + SINCE_MONDAY),
        CalendarUnit::Month => (0, offset),
    };
    [
        Argument::number(length),
        Argument::Number(minutes * MINUTE_US),
    ]
}
