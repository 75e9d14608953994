//! One caller's part of a script call.

use std::ops::Range;

use fred::types::Value;
use smallvec::SmallVec;

use super::{arguments::ScriptMember, error::RedisError, keys::KeyForm};
use crate::{
    algorithm::{Action, Algorithm, Ask},
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
    pub(super) members: SmallVec<[ScriptMember; 1]>,
    /// The client's time, if that decides.
    pub(super) now: Option<Timestamp>,
    /// The spend, if equal ones can be decided together with it.
    pub(super) spend: Option<Spend>,
    /// Whether each member is decided by itself. Several can be of one bucket.
    is_apart: bool,
}

/// A spend from one bucket. Its script finds the whole state, so its answer follows from the answer to an earlier one.
#[derive(Clone, Debug)]
pub(super) struct Spend {
    pub(super) algorithm: Algorithm,
    pub(super) ask: Ask<'static>,
}

impl ScriptCall {
    /// Creates the call for an operation on members.
    pub(super) fn new<'a>(
        operation: Operation,
        now: Option<Timestamp>,
        members: impl ExactSizeIterator<Item = &'a Member<'a>> + Clone,
        form: &KeyForm,
    ) -> Self {
        let batch = Batch::new(operation, &[]);
        let keys = members.clone().map(|member| Value::from(form.key(member)));
        let mut alone = members.clone().filter(|_| members.len() == 1);
        let spends = |member: &&Member<'_>| {
            let is_spend = batch.action(member) == Action::Spend && batch.votes(member);
            // Scripts find only a part of a large value.
            is_spend && member.algorithm.has_small_values()
        };
        Self {
            spend: alone.find(spends).map(|member| Spend {
                algorithm: member.algorithm.clone(),
                ask: Ask {
                    min_cost: member.min_cost,
                    ..Ask::spend(member.cost, member.joins_line())
                },
            }),
            keys: keys.collect(),
            members: members
                .map(|member| ScriptMember::new(&batch, member))
                .collect(),
            now,
            is_apart: operation == Operation::Renew,
        }
    }

    /// Returns the members of each part that is applied completely or not at all.
    pub(super) fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        let all = self.members.len();
        let size = if self.is_apart { 1 } else { all };
        let starts = (0..all.max(1)).step_by(size.max(1));
        starts.map(move |start| start..all.min(start + size))
    }

    /// Returns whether both are the same spend from the same bucket.
    pub(super) fn is_same_spend(&self, other: &Self) -> bool {
        let is_spend = self.spend.is_some() && other.spend.is_some();
        is_spend
            && self.keys == other.keys
            && self.now == other.now
            && self.members == other.members
    }

    /// Returns the weight of this call: the amount of data that the server reads and answers, counted in arguments.
    pub(super) fn weight(&self) -> usize {
        let members = self.members.iter();
        match &self.spend {
            // Equal spends of several callers have one set of arguments.
            Some(_) => members.map(|member| 1 + member.answered).sum(),
            None => members.map(|member| member.words() + member.answered).sum(),
        }
    }

    /// Fails if the call is too large for one command. The server would close the connection, and with it fail all other
    /// calls in flight.
    pub(super) fn validate(&self) -> Result<(), RedisError> {
        let members: usize = self.members.iter().map(ScriptMember::words).sum();
        match self.keys.len() + members + HEADER > MOST_ARGUMENTS {
            true => Err(RedisError::TooLarge(self.keys.len())),
            false => Ok(()),
        }
    }
}
