//! The arguments of scripts.

use fred::types::Value;

use crate::{
    algorithm::{AlgorithmKey, Argument, Arguments},
    clock::Timestamp,
    transaction::{Batch, Member, Operation},
};

/// The request of a batch to one bucket, as `batch.lua` reads it. Equal members share their arguments.
#[derive(Clone, Debug)]
pub(super) struct ScriptMember {
    pub(super) by: AlgorithmKey,
    letter: &'static str,
    verb: &'static str,
    arguments: Arguments,
    /// Distinguishes the refund or the renewal of one charge from that of another, which is equal otherwise.
    mark: Option<u64>,
    /// Whether the script for spends can decide it.
    pub(super) is_plain_spend: bool,
    /// The number of units that a spend takes at most, if the script counts them.
    most_taken: Option<u32>,
    /// The amount of data that the server reads and answers besides the arguments, counted in arguments.
    pub(super) answered: usize,
}

impl ScriptMember {
    pub(super) fn new(batch: &Batch<'_>, member: &Member<'_>) -> Self {
        let (ask, algorithm) = (batch.ask(member), member.algorithm);
        let votes = batch.operation == Operation::Spend && batch.votes(member);
        let verb = algorithm.verb(&ask, votes);
        Self {
            by: algorithm.key(),
            letter: algorithm.script_letter(),
            verb,
            arguments: algorithm.script_arguments(&ask),
            mark: algorithm
                .mark(&ask)
                .filter(|_| ["undo", "renew"].contains(&verb)),
            is_plain_spend: verb == "spend" && algorithm.has_spends_script(),
            most_taken: algorithm.most_taken(&ask),
            answered: algorithm.answered(&ask),
        }
    }

    /// Returns the number of units that `count` spends take at most, if the script counts them.
    pub(super) fn most_taken(&self, count: usize) -> Option<u32> {
        let count = u32::try_from(count).ok()?;
        self.most_taken?.checked_mul(count)
    }

    /// Returns the number of its arguments.
    pub(super) fn words(&self) -> usize {
        2 + self.arguments.len() + usize::from(self.mark.is_some())
    }

    /// Appends the arguments that equal members share.
    pub(super) fn push(&self, arguments: &mut Vec<Value>) {
        arguments.extend([self.letter, self.verb].map(Value::from_static_str));
        arguments.extend(self.arguments.iter().copied().map(Value::from));
    }

    /// Returns its own argument, if it has one.
    pub(super) fn mark(&self) -> Option<Value> {
        self.mark.map(integer)
    }
}

/// Compares what equal members share.
impl PartialEq for ScriptMember {
    fn eq(&self, other: &Self) -> bool {
        self.by == other.by && self.verb == other.verb && self.arguments == other.arguments
    }
}

/// Stands for the server's own clock.
const SERVERS_CLOCK: Value = Value::Integer(-1);

/// Encodes the time of a decision.
pub(super) fn clock(now: Option<Timestamp>) -> Value {
    now.map_or(SERVERS_CLOCK, |now| integer(now.as_micros()))
}

/// Encodes a number. All of them are below 2⁵³.
pub(super) const fn integer(number: u64) -> Value {
    Value::Integer(number.cast_signed())
}

impl From<Argument> for Value {
    fn from(argument: Argument) -> Self {
        match argument {
            Argument::Number(number) => Self::Integer(number),
            Argument::Text(text) => Self::from_static_str(text),
        }
    }
}
