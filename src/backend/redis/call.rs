//! One caller's part of a script call.

use fred::types::Value;
use smallvec::SmallVec;

use super::{
    arguments::{
        MOST_US, clock, gcra_terms, integer, quota_member, tiers_terms, window_member,
        without_zeros,
    },
    error::RedisError,
    keys::KeyForm,
    spend::Spend,
};
use crate::{
    algorithm::{Action, Charge},
    clock::Timestamp,
    gcra::{Gcra, Ticks},
    transaction::{Algorithm, Batch, Member, Operation, Receipt},
};

/// The most arguments that a server reads in one command.
const MOST_ARGUMENTS: usize = 1024 * 1024;

/// The arguments of a call besides the keys and the members.
const HEADER: usize = 8;

/// A batch in the form that scripts decide. On a cluster, its keys are in one slot.
#[derive(Clone, Debug)]
pub(super) struct ScriptCall {
    pub(super) keys: SmallVec<[Value; 1]>,
    now: Option<Timestamp>,
    demand: Demand,
}

#[derive(Clone, Debug)]
enum Demand {
    Spend(Spend),
    /// The arguments of `batch.lua` for each member, and the weight of the call.
    Batch(Vec<Value>, usize),
}

impl ScriptCall {
    /// Creates the call for an operation on members.
    pub(super) fn new<'a>(
        operation: Operation,
        now: Option<Timestamp>,
        members: impl ExactSizeIterator<Item = &'a Member<'a>> + Clone,
        form: &KeyForm,
    ) -> Self {
        let keys = members.clone().map(|member| Value::from(form.key(member)));
        let mut alone = members.clone().filter(|_| members.len() == 1);
        let spend = alone.find_map(|member| match verb(operation, member) {
            "spend" => Spend::new(member, now),
            _ => None,
        });
        Self {
            keys: keys.collect(),
            now,
            demand: spend.map_or_else(|| Demand::batch(operation, members), Demand::Spend),
        }
    }

    /// Returns the spend, if the call is a single one.
    pub(super) fn spend(&self) -> Option<&Spend> {
        match &self.demand {
            Demand::Spend(spend) => Some(spend),
            Demand::Batch(..) => None,
        }
    }

    /// Returns the weight of this call: the amount of data that the server reads and answers, counted in arguments.
    pub(super) fn weight(&self) -> usize {
        match &self.demand {
            Demand::Spend(spend) => spend.weight(),
            Demand::Batch(_, weight) => *weight,
        }
    }

    /// Fails if the call is too large for one command. The server would close the connection, and with it fail all other
    /// calls in flight.
    pub(super) fn validate(&self) -> Result<(), RedisError> {
        let members = match &self.demand {
            Demand::Spend(_) => 0,
            Demand::Batch(members, _) => members.len(),
        };
        match self.keys.len() + members + HEADER > MOST_ARGUMENTS {
            true => Err(RedisError::TooLarge(self.keys.len())),
            false => Ok(()),
        }
    }

    /// Appends the arguments of `spend.lua`.
    pub(super) fn push_spend(&self, arguments: &mut Vec<Value>) {
        arguments.extend([integer(1), self.keys[0].clone(), clock(self.now)]);
        if let Demand::Spend(spend) = &self.demand {
            arguments.extend(spend.terms());
        }
        without_zeros(arguments);
    }

    /// Appends the arguments of `batch.lua`, without the keys.
    pub(super) fn push_batch(&self, arguments: &mut Vec<Value>) {
        arguments.extend([clock(self.now), integer(self.keys.len() as u64)]);
        match &self.demand {
            Demand::Batch(members, _) => {
                arguments.push(integer(members.len() as u64));
                arguments.extend_from_slice(members);
            }
            Demand::Spend(spend) => {
                let member = spend.member();
                arguments.push(integer(1 + member.len() as u64));
                arguments.push(Value::from_static_str("spend"));
                arguments.extend(member);
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
                // The script reads and writes a window as a whole.
                Algorithm::Window(window) => window.limit() as usize,
            };
        }
        let weight = arguments.len() + answered;
        Self::Batch(arguments, weight)
    }
}

fn push_member(operation: Operation, member: &Member<'_>, arguments: &mut Vec<Value>) {
    arguments.push(Value::from_static_str(verb(operation, member)));
    match member.algorithm {
        Algorithm::Gcra(gcra) => push_gcra(operation, member, gcra, arguments),
        Algorithm::Tiers(tiers) => {
            arguments.push(Value::from_static_str("T"));
            arguments.extend(tiers_terms(tiers, member.cost, member.min_cost));
        }
        Algorithm::Window(window) => {
            let change = change(operation, member);
            arguments.extend(window_member(window, change, member.cost, named(member)));
        }
        Algorithm::Quota(quota) => {
            arguments.extend(quota_member(quota, member.cost, named(member)));
        }
    }
}

fn push_gcra(operation: Operation, member: &Member<'_>, gcra: &Gcra, arguments: &mut Vec<Value>) {
    // A charge that can wait has a larger tolerance. A refund needs the plain one: a TAT beyond it means that a caller
    // waits in line.
    let (cost, wait_us) = match operation {
        Operation::Refund => (gcra.refunded(member.refund(), member.cost).0, 0),
        _ => (
            gcra.increment(member.cost),
            gcra.line_us(member.joins_line()),
        ),
    };
    arguments.extend(gcra_terms(gcra, cost, wait_us));
    if verb(operation, member) == LEAVE {
        let (_, own) = gcra.refunded(member.refund(), member.cost);
        arguments.push(own.map_or(Value::Integer(-1), |own| integer(own.us)));
        arguments.push(integer(own.map_or(0, |own| own.frac.into())));
    }
}

/// Returns the change to the units of a window if the batch passes.
fn change(operation: Operation, member: &Member<'_>) -> &'static str {
    match Batch::new(operation, &[]).action(member) {
        Action::Probe | Action::Spend => "spend",
        Action::ProbeDebit | Action::Debit if member.ago_us > 0 => "earlier",
        Action::ProbeDebit | Action::Debit if member.saturates => "fill",
        Action::ProbeDebit | Action::Debit => "debit",
        Action::Refund if refunds(member) => "refund",
        Action::Refund | Action::Keep | Action::Reset => "keep",
    }
}

/// Returns whether a refund gives anything back. A receipt must be of a charge that the store has made.
fn refunds(member: &Member<'_>) -> bool {
    match member.algorithm {
        Algorithm::Gcra(gcra) => {
            let (span, _) = gcra.refunded(member.refund(), member.cost);
            span > Ticks::default()
        }
        Algorithm::Tiers(_) => false,
        Algorithm::Window(_) | Algorithm::Quota(_) => {
            member.receipt.is_none_or(|receipt| !receipt.is_local())
        }
    }
}

/// Encodes the receipt of a refund: the instant of the units, or the period of the charge. For a debit of earlier
/// units, encodes their age.
fn named(member: &Member<'_>) -> Value {
    if member.ago_us > 0 {
        return integer(member.ago_us.min(MOST_US));
    }
    match member.receipt.and_then(Receipt::stored_charge) {
        Some(Charge::Window(charge)) => integer(charge.at),
        Some(Charge::Quota(charge)) => integer(charge.start_us),
        _ => Value::Integer(-1),
    }
}

/// The refund of a limit with a line. It has two more arguments than others.
const LEAVE: &str = "leave";

/// Returns the verb for a member's bucket. A check only asks for the stored state.
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
