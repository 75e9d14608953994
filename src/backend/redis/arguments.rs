//! The arguments of scripts.

use std::time::Duration;

use fred::types::Value;

use crate::{
    algorithm::NEVER,
    clock::Timestamp,
    gcra::{Gcra, Ticks},
    quota::{CalendarUnit, Per, Quota},
    tiers::Tiers,
    window::Window,
};

/// The highest number that Lua represents exactly. Costs in microseconds are capped at this number, which is beyond
/// every tolerance and every debt.
pub(super) const MOST_US: u64 = (1 << 53) - 1;

/// Stands for the server's own clock.
const SERVERS_CLOCK: Value = Value::Integer(-1);

/// Encodes the time of a decision.
pub(super) fn clock(now: Option<Timestamp>) -> Value {
    now.map_or(SERVERS_CLOCK, |now| integer(now.as_micros()))
}

/// Leaves out the zeros at the end. Scripts read missing arguments as 0.
pub(super) fn without_zeros(arguments: &mut Vec<Value>) {
    let mut arguments_from_the_end = arguments.iter().rev();
    let zeros = arguments_from_the_end.position(|argument| *argument != Value::Integer(0));
    arguments.truncate(arguments.len() - zeros.unwrap_or(0));
}

/// Encodes a limit's count, a cost, and a tolerance, to which a wait in line is added.
pub(super) fn gcra_terms(gcra: &Gcra, cost: Ticks, wait_us: u64) -> [Value; 5] {
    let tolerance = gcra.tolerance();
    [
        integer(gcra.count().into()),
        integer(cost.us.min(MOST_US)),
        integer(tolerance.us + wait_us),
        integer(cost.frac.into()),
        integer(tolerance.frac.into()),
    ]
}

/// Encodes a quota's period: its length (0 for a month), and the offset of its calendar from one that begins at the epoch.
pub(super) fn period(per: Per) -> [Value; 2] {
    /// The epoch was a Thursday.
    const SINCE_MONDAY: i64 = 3 * 24 * 60;
    const MINUTE_US: i64 = 60_000_000;
    let Some((unit, offset)) = per.calendar_unit() else {
        return [integer(per.longest()), Value::from_static_str("use")];
    };
    let offset = i64::from(offset.as_minutes());
    let (length, minutes) = match unit {
        CalendarUnit::Hour | CalendarUnit::Day => (unit.longest(), offset),
        CalendarUnit::Week => (unit.longest(), offset + SINCE_MONDAY),
        CalendarUnit::Month => (0, offset),
    };
    [integer(length), Value::Integer(minutes * MINUTE_US)]
}

/// Encodes a quota for the general script, after the verb.
pub(super) fn quota_member(quota: &Quota, cost: u32, named: Value) -> [Value; 6] {
    let [length, shift] = period(quota.per());
    [
        Value::from_static_str("Q"),
        integer(quota.quota().into()),
        integer(cost.into()),
        length,
        shift,
        named,
    ]
}

/// Encodes a window for the general script, after the verb.
pub(super) fn window_member(
    window: &Window,
    change: &'static str,
    cost: u32,
    named: Value,
) -> [Value; 6] {
    [
        Value::from_static_str("W"),
        Value::from_static_str(change),
        integer(window.limit().into()),
        micros(window.window()),
        integer(cost.into()),
        named,
    ]
}

/// Encodes the most and the fewest units to grant, and the tiers.
pub(super) fn tiers_terms(tiers: &Tiers, most: u32, least: u32) -> impl Iterator<Item = Value> {
    let spans = tiers.spans();
    let head = [most.into(), least.into(), spans.len() as u64].map(integer);
    let spans = spans.iter().flat_map(|span| {
        let kind = u64::from(span.skippable) + 2 * u64::from(span.slides);
        let [window, active, cooldown] = [span.window, span.active, span.cooldown].map(ticks);
        let limit = integer(span.limit.into());
        [limit, window, active, cooldown, integer(kind)]
    });
    head.into_iter().chain(spans)
}

/// Encodes a span in microseconds.
pub(super) fn micros(span: Duration) -> Value {
    let us = u64::try_from(span.as_micros()).unwrap_or(MOST_US);
    integer(us.min(MOST_US))
}

/// Encodes a span in microseconds that can be endless, which is -1.
fn ticks(us: u64) -> Value {
    match us {
        NEVER => Value::Integer(-1),
        us => integer(us),
    }
}

/// Encodes a number. All of them are below 2⁵³.
pub(super) const fn integer(number: u64) -> Value {
    Value::Integer(number.cast_signed())
}
