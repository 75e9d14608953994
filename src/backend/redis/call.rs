//! One caller's part of a script call.

use std::{borrow::Cow, iter::once};

use fred::types::Value;
use smallvec::{SmallVec, smallvec};

use super::{
    arguments::{clock, integer, without_zeros},
    error::RedisError,
    keys::KeyForm,
    spend::Spend,
};
use crate::{
    algorithm::{Action, AlgorithmKey},
    clock::Timestamp,
    transaction::{Batch, Member, Operation},
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
    payload: Payload,
}

/// A batch as `batch.lua` reads it.
#[derive(Clone, Debug, Default)]
struct BatchArguments {
    members: Vec<Value>,
    algorithms: SmallVec<[AlgorithmKey; 8]>,
    weight: usize,
}

/// A batch without its keys. Batches of several callers often have the same.
#[derive(PartialEq)]
pub(super) struct BatchKind<'a> {
    now: Option<Timestamp>,
    count: usize,
    members: Cow<'a, [Value]>,
}

#[derive(Clone, Debug)]
enum Payload {
    Spend(Spend),
    Batch(BatchArguments),
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
        let spends = |member: &&Member<'_>| {
            let batch = Batch::new(operation, &[]);
            batch.action(member) == Action::Spend && batch.votes(member)
        };
        let spend = alone
            .find(spends)
            .and_then(|member| Spend::new(member, now));
        Self {
            keys: keys.collect(),
            now,
            payload: match spend {
                Some(spend) => Payload::Spend(spend),
                None => Payload::Batch(BatchArguments::new(operation, members)),
            },
        }
    }

    /// Returns the spend, if the call is a single one.
    pub(super) fn spend(&self) -> Option<&Spend> {
        match &self.payload {
            Payload::Spend(spend) => Some(spend),
            Payload::Batch(_) => None,
        }
    }

    /// Returns the algorithm of each key.
    pub(super) fn algorithms(&self) -> SmallVec<[AlgorithmKey; 8]> {
        match &self.payload {
            Payload::Spend(spend) => smallvec![spend.algorithm.key()],
            Payload::Batch(batch) => batch.algorithms.clone(),
        }
    }

    /// Returns the weight of this call: the amount of data that the server reads and answers, counted in arguments.
    pub(super) fn weight(&self) -> usize {
        match &self.payload {
            Payload::Spend(spend) => spend.algorithm.spend_weight(&spend.ask()),
            Payload::Batch(batch) => batch.weight,
        }
    }

    /// Fails if the call is too large for one command. The server would close the connection, and with it fail all other
    /// calls in flight.
    pub(super) fn validate(&self) -> Result<(), RedisError> {
        let members = match &self.payload {
            Payload::Spend(_) => 0,
            Payload::Batch(batch) => batch.members.len(),
        };
        match self.keys.len() + members + HEADER > MOST_ARGUMENTS {
            true => Err(RedisError::TooLarge(self.keys.len())),
            false => Ok(()),
        }
    }

    /// Appends the arguments of `spend.lua`.
    pub(super) fn push_spend(&self, arguments: &mut Vec<Value>) {
        arguments.extend([integer(1), self.keys[0].clone(), clock(self.now)]);
        if let Payload::Spend(spend) = &self.payload {
            let terms = spend.algorithm.spend_arguments(&spend.ask());
            arguments.extend(terms.into_iter().map(Value::from));
        }
        without_zeros(arguments);
    }

    /// Returns the kind of the batch as `batch.lua` reads it: all of its arguments but the keys.
    pub(super) fn kind(&self) -> BatchKind<'_> {
        let members = match &self.payload {
            Payload::Batch(batch) => Cow::Borrowed(&batch.members[..]),
            Payload::Spend(spend) => {
                let arguments = spend.algorithm.script_arguments(&spend.ask());
                let arguments = arguments.into_iter().map(Value::from);
                Cow::Owned(
                    once(Value::from_static_str("spend"))
                        .chain(arguments)
                        .collect(),
                )
            }
        };
        BatchKind {
            now: self.now,
            count: self.keys.len(),
            members,
        }
    }
}

impl BatchKind<'_> {
    /// Appends the arguments of the kind.
    pub(super) fn push(&self, arguments: &mut Vec<Value>) {
        let [members, words] = [self.count, self.members.len()].map(|len| integer(len as u64));
        arguments.extend([clock(self.now), members, words]);
        arguments.extend_from_slice(&self.members);
    }
}

impl BatchArguments {
    fn new<'a>(operation: Operation, members: impl Iterator<Item = &'a Member<'a>>) -> Self {
        let batch = Batch::new(operation, &[]);
        let mut encoded = Self::default();
        for member in members {
            let (ask, algorithm) = (batch.ask(member), member.algorithm);
            let votes = operation == Operation::Spend && batch.votes(member);
            let arguments = algorithm.script_arguments(&ask);
            let verb = Value::from_static_str(algorithm.verb(&ask, votes));
            encoded.members.push(verb);
            encoded
                .members
                .extend(arguments.into_iter().map(Value::from));
            encoded.algorithms.push(algorithm.key());
            encoded.weight += algorithm.answered(&ask);
        }
        encoded.weight += encoded.members.len();
        encoded
    }
}
