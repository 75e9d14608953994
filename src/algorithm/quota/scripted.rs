//! Quotas in Lua: what scripts are asked, and what they find.

use std::convert::Infallible;

use smallvec::smallvec;

use super::{
    per::{CalendarUnit, Per},
    quota::{Quota, Usage},
};
use crate::algorithm::{
    action::{Ask, Refund},
    charge::Charge,
    scripted::{Argument, Arguments, Scripted, decimal},
};

impl Scripted for Quota {
    const LETTER: &'static str = "Q";

    type Report = Infallible;

    fn arguments(&self, ask: &Ask<'_>) -> Arguments {
        let [length, shift] = period(self.per());
        smallvec![
            Argument::number(self.quota()),
            Argument::number(ask.cost),
            length,
            shift
        ]
    }

    fn refund_verb(&self, ask: &Ask<'_>) -> Option<&'static str> {
        match ask.refund {
            Refund::Cost => Some("refund"),
            _ => Self::mark(ask).map(|_| "undo"),
        }
    }

    /// Returns the start of the period in which the charge was made.
    fn mark(ask: &Ask<'_>) -> Option<u64> {
        match ask.refund {
            Refund::Charge(Charge::Quota(charge)) => Some(charge.start_us),
            _ => None,
        }
    }

    fn read_value(value: &[u8]) -> Option<Usage> {
        let colon = value.iter().position(|byte| *byte == b':')?;
        let start_us = decimal(value[..colon].strip_prefix(b"Q")?)?;
        let used = decimal(&value[colon + 1..])?.try_into().ok()?;
        Some(Usage { start_us, used })
    }

    fn view_report(&self, report: &Infallible, _: &Ask<'_>, _: u64) -> Usage {
        match *report {}
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
