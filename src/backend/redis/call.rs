//! What a script is asked for one caller.

use std::time::Duration;

use fred::types::Value;
use smallvec::SmallVec;

use super::keys::KeyForm;
use crate::{
    clock::Timestamp,
    gcra::{Gcra, Tat, Ticks},
    quota::{CalendarUnit, Per},
    tiers::{NEVER, Tiers},
    transaction::{Action, Algorithm, Batch, Charge, Member, Operation, Receipt},
};

/// The highest number that Lua keeps exactly. A cost in microseconds is cut off there: it is beyond every
/// tolerance, and deeper than any debt.
const MOST_US: u64 = (1 << 53) - 1;

/// Stands for the server's own clock.
const SERVERS_CLOCK: Value = Value::Integer(-1);

/// A batch, as a script is asked to decide it. On a cluster, its keys are in one slot.
#[derive(Clone, Debug)]
pub(super) struct ScriptCall {
    pub(super) keys: SmallVec<[Value; 1]>,
    now: Option<Timestamp>,
    demand: Demand,
}

#[derive(Clone, Debug)]
enum Demand {
    Spend(Spend),
    /// What `batch.lua` is sent for each member, and how much it reads and answers for that.
    Batch(Vec<Value>, usize),
}

/// One spend from a GCRA bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spend {
    gcra: Gcra,
    cost: u32,
    /// How long it may wait in line, in microseconds.
    wait_us: u64,
    pub(super) now: Option<Timestamp>,
}

impl ScriptCall {
    /// The call that does to buckets what `operation` and the members say.
    pub(super) fn new<'a>(
        operation: Operation,
        now: Option<Timestamp>,
        members: impl ExactSizeIterator<Item = &'a Member<'a>> + Clone,
        form: &KeyForm,
    ) -> Self {
        let keys = members.clone().map(|member| Value::from(form.key(member)));
        let mut alone = members.clone().filter(|_| members.len() == 1);
        let spend = alone.find_map(|member| Spend::of(operation, now, member));
        Self {
            keys: keys.collect(),
            now,
            demand: spend.map_or_else(|| Demand::batch(operation, members), Demand::Spend),
        }
    }

    /// The spend, if it is no more than that.
    pub(super) fn spend(&self) -> Option<&Spend> {
        match &self.demand {
            Demand::Spend(spend) => Some(spend),
            Demand::Batch(..) => None,
        }
    }

    /// How much the server has to read and to answer for it, in arguments.
    pub(super) fn weight(&self) -> usize {
        match &self.demand {
            Demand::Spend(_) => 1,
            Demand::Batch(_, weight) => *weight,
        }
    }

    /// Appends what `spend.lua` is sent for a spend.
    pub(super) fn push_spend(&self, arguments: &mut Vec<Value>) {
        arguments.extend([integer(1), self.keys[0].clone(), clock(self.now)]);
        if let Demand::Spend(spend) = &self.demand {
            arguments.extend(spend.terms());
        }
        without_zeros(arguments);
    }

    /// Appends what `batch.lua` is sent for a batch, besides the keys.
    pub(super) fn push_batch(&self, arguments: &mut Vec<Value>) {
        arguments.extend([clock(self.now), integer(self.keys.len() as u64)]);
        match &self.demand {
            Demand::Batch(members, _) => {
                arguments.push(integer(members.len() as u64));
                arguments.extend_from_slice(members);
            }
            Demand::Spend(spend) => {
                arguments.extend([integer(6), Value::from_static_str("spend")]);
                arguments.extend(spend.terms());
            }
        }
    }
}

impl Demand {
    fn batch<'a>(operation: Operation, members: impl Iterator<Item = &'a Member<'a>>) -> Self {
        let (mut arguments, mut answered) = (Vec::new(), 0);
        for member in members {
            push_member(operation, member, &mut arguments);
            answered += match member.algorithm {
                Algorithm::Gcra(_) | Algorithm::Quota(_) => 0,
                Algorithm::Tiers(_) => member.min_cost as usize,
                // Its text is read and written as a whole.
                Algorithm::Window(window) => window.limit() as usize,
            };
        }
        let weight = arguments.len() + answered;
        Self::Batch(arguments, weight)
    }
}

impl Spend {
    fn of(operation: Operation, now: Option<Timestamp>, member: &Member<'_>) -> Option<Self> {
        match member.algorithm {
            Algorithm::Gcra(gcra) if verb(operation, member) == "spend" => Some(Self {
                gcra: *gcra,
                cost: member.cost,
                wait_us: member.max_wait_us(gcra),
                now,
            }),
            _ => None,
        }
    }

    /// The limit and the cost, as all scripts take them.
    pub(super) fn terms(&self) -> [Value; 5] {
        terms(&self.gcra, self.gcra.increment(self.cost), self.wait_us)
    }

    /// The TAT that it leaves at `now` (µs since the epoch), or nothing if it does not fit.
    pub(super) fn apply(&self, tat: Tat, now: u64) -> Option<Tat> {
        self.gcra.spend_within(tat, now, self.cost, self.wait_us)
    }
}

/// When something is decided, as scripts take it.
pub(super) fn clock(now: Option<Timestamp>) -> Value {
    now.map_or(SERVERS_CLOCK, |now| integer(now.as_micros()))
}

/// Leaves out the zeros at the end, which scripts read into what is missing.
pub(super) fn without_zeros(arguments: &mut Vec<Value>) {
    let mut arguments_from_the_end = arguments.iter().rev();
    let zeros = arguments_from_the_end.position(|argument| *argument != Value::Integer(0));
    arguments.truncate(arguments.len() - zeros.unwrap_or(0));
}

fn terms(gcra: &Gcra, cost: Ticks, wait_us: u64) -> [Value; 5] {
    let tolerance = gcra.tolerance();
    [
        integer(gcra.count().into()),
        integer(cost.us.min(MOST_US)),
        integer(tolerance.us + wait_us),
        integer(cost.frac.into()),
        integer(tolerance.frac.into()),
    ]
}

fn push_member(operation: Operation, member: &Member<'_>, arguments: &mut Vec<Value>) {
    arguments.push(Value::from_static_str(verb(operation, member)));
    match member.algorithm {
        Algorithm::Gcra(gcra) => push_gcra(operation, member, gcra, arguments),
        Algorithm::Tiers(tiers) => push_tiers(member, tiers, arguments),
        Algorithm::Window(window) => arguments.extend([
            Value::from_static_str("W"),
            Value::from_static_str(change(operation, member)),
            integer(window.limit().into()),
            micros(window.window()),
            integer(member.cost.into()),
            named(member),
        ]),
        Algorithm::Quota(quota) => {
            let [length, shift] = period(quota.per());
            arguments.extend([
                Value::from_static_str("Q"),
                integer(quota.quota().into()),
                integer(member.cost.into()),
                length,
                shift,
                named(member),
            ]);
        }
    }
}

fn push_gcra(operation: Operation, member: &Member<'_>, gcra: &Gcra, arguments: &mut Vec<Value>) {
    // A refund asks whether somebody waits. A charge that may wait reaches further.
    let (cost, wait_us) = match operation {
        Operation::Refund => (member.refund(gcra), 0),
        _ => (gcra.increment(member.cost), member.max_wait_us(gcra)),
    };
    arguments.extend(terms(gcra, cost, wait_us));
    if verb(operation, member) == LEAVE {
        let own = member.own_tat();
        arguments.push(own.map_or(Value::Integer(-1), |own| integer(own.us)));
        arguments.push(integer(own.map_or(0, |own| own.frac.into())));
    }
}

fn push_tiers(member: &Member<'_>, tiers: &Tiers, arguments: &mut Vec<Value>) {
    let spans = tiers.spans();
    arguments.extend([
        Value::from_static_str("T"),
        integer(member.cost.into()),
        integer(member.min_cost.into()),
        integer(spans.len() as u64),
    ]);
    arguments.extend(spans.iter().flat_map(|span| {
        let kind = u64::from(span.skippable) + 2 * u64::from(span.slides);
        let [window, active, cooldown] = [span.window, span.active, span.cooldown].map(ticks);
        [
            integer(span.limit.into()),
            window,
            active,
            cooldown,
            integer(kind),
        ]
    }));
}

/// What a window's units undergo if the member passes.
fn change(operation: Operation, member: &Member<'_>) -> &'static str {
    match Batch::new(operation, &[]).action(member) {
        Action::Probe | Action::Spend => "spend",
        Action::ProbeDebit | Action::Debit if member.saturates => "fill",
        Action::ProbeDebit | Action::Debit => "debit",
        Action::Refund if refunds(member) => "refund",
        Action::Refund | Action::Keep | Action::Reset => "keep",
    }
}

/// Whether a refund gives anything back: one by receipt does if that is of a charge to this kind of limit by the store.
fn refunds(member: &Member<'_>) -> bool {
    let charge = member.receipt.map(Receipt::stored_charge);
    match (member.algorithm, charge) {
        (Algorithm::Gcra(gcra), _) => member.refund(gcra) > Ticks::default(),
        (Algorithm::Tiers(_), _) => false,
        (_, None)
        | (Algorithm::Window(_), Some(Some(Charge::Window { .. })))
        | (Algorithm::Quota(_), Some(Some(Charge::Quota { .. }))) => true,
        _ => false,
    }
}

/// Which units are refunded, or in which period they were charged.
fn named(member: &Member<'_>) -> Value {
    match member.receipt.and_then(Receipt::stored_charge) {
        Some(Charge::Window { at }) => integer(at.as_micros()),
        Some(Charge::Quota { start_us }) => integer(start_us),
        _ => Value::Integer(-1),
    }
}

/// A quota's period: its length, 0 for a month, and how far its calendar is ahead of that which begins at the epoch.
fn period(per: Per) -> [Value; 2] {
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

fn micros(span: Duration) -> Value {
    let us = u64::try_from(span.as_micros()).unwrap_or(MOST_US);
    integer(us.min(MOST_US))
}

fn ticks(us: u64) -> Value {
    match us {
        NEVER => Value::Integer(-1),
        us => integer(us),
    }
}

/// The refund of a limit with a line, which has two arguments more than others.
const LEAVE: &str = "leave";

/// What the script does to a member's bucket. A check asks it for no more than what is stored.
fn verb(operation: Operation, member: &Member<'_>) -> &'static str {
    let batch = Batch::new(operation, &[]);
    let votes = operation == Operation::Spend && batch.votes(member);
    match batch.action(member) {
        Action::Spend if votes => "spend",
        Action::Spend => "offer",
        Action::Debit => "debit",
        Action::Refund if refunds(member) => match member.algorithm {
            Algorithm::Gcra(gcra) if gcra.max_wait_us() > 0 => LEAVE,
            _ => "refund",
        },
        Action::Reset => "reset",
        Action::Probe if votes => "vote",
        _ => "look",
    }
}

/// A number that a script is sent; all are below 2⁵³.
pub(super) const fn integer(number: u64) -> Value {
    Value::Integer(number.cast_signed())
}
