//! Groups of calls that travel in one script call.

use std::collections::HashMap;

use ahash::RandomState;
use fred::types::Value;
use smallvec::{SmallVec, smallvec};

use super::{
    answer::ScriptAnswer,
    arguments::{clock, integer, without_zeros},
    bucket_spends::{Answers, GroupedSpend, answer_bucket},
    call::{BatchKind, ScriptCall},
    error::Failure,
    script::{BATCH, SPEND, Script},
    spend::Spend,
};
use crate::clock::Timestamp;

/// The most kinds of batches with which one is compared.
const MOST_COMPARED: usize = 8;

/// Calls that travel together. The server decides them in order.
pub(super) struct Group<'a> {
    calls: SmallVec<[&'a ScriptCall; 1]>,
    form: GroupForm<'a>,
}

enum GroupForm<'a> {
    Spend,
    Spends(Vec<GroupedSpend<'a>>),
    Batches,
}

impl<'a> Group<'a> {
    pub(super) fn new(calls: impl IntoIterator<Item = &'a ScriptCall>) -> Self {
        let calls: SmallVec<[_; 1]> = calls.into_iter().collect();
        let form = match places(&calls) {
            None => GroupForm::Batches,
            Some(places) => match places[..] {
                [place] if place.spend.has_own_script() => GroupForm::Spend,
                _ => GroupForm::Spends(places),
            },
        };
        Self { calls, form }
    }

    pub(super) fn script(&self) -> &'static Script {
        match &self.form {
            GroupForm::Spend => &SPEND,
            GroupForm::Spends(places) => {
                places.first().map_or(&BATCH, |place| place.spend.script())
            }
            GroupForm::Batches => &BATCH,
        }
    }

    /// Returns the arguments of an `EVALSHA` or, if `script` is the text, of an `EVAL`.
    pub(super) fn arguments(&self, script: &'static str) -> Vec<Value> {
        let mut arguments = vec![Value::from_static_str(script)];
        match &self.form {
            GroupForm::Spend => self.calls[0].push_spend(&mut arguments),
            GroupForm::Spends(places) => self.push_spends(places, &mut arguments),
            GroupForm::Batches => self.push_batches(&mut arguments),
        }
        arguments
    }

    /// Splits the script's answer into the answers for each call.
    pub(super) fn answers(&self, reply: &Value) -> Answers {
        match (&self.form, reply) {
            (GroupForm::Spend, reply) => smallvec![ScriptAnswer::read(self.calls[0], reply)],
            (GroupForm::Spends(places), reply) => self.answers_to_spends(places, reply),
            (GroupForm::Batches, Value::Array(replies)) if replies.len() == self.calls.len() => {
                let replies = self.calls.iter().zip(replies);
                replies
                    .map(|(call, reply)| ScriptAnswer::read(call, reply))
                    .collect()
            }
            (GroupForm::Batches, reply) => self.each(|| Failure::garbled(reply)),
        }
    }

    fn each(&self, failure: impl Fn() -> Failure) -> Answers {
        self.calls.iter().map(|_| Err(failure())).collect()
    }

    fn push_batches(&self, arguments: &mut Vec<Value>) {
        let keys = self.calls.iter().flat_map(|call| &call.keys);
        arguments.push(integer(keys.clone().count() as u64));
        arguments.extend(keys.cloned());
        let mut kinds: Vec<BatchKind<'_>> = Vec::new();
        let mut places: SmallVec<[usize; 4]> = SmallVec::new();
        for call in &self.calls {
            let kind = call.kind();
            // Comparing with all kinds would take too long if the batches of a group differ.
            let first = kinds.len().saturating_sub(MOST_COMPARED);
            let known = kinds[first..].iter().position(|known| *known == kind);
            places.push(known.map_or(kinds.len(), |place| first + place));
            if known.is_none() {
                kinds.push(kind);
            }
        }
        arguments.extend([places.len(), kinds.len()].map(|count| integer(count as u64)));
        for kind in &kinds {
            kind.push(arguments);
        }
        let last = places.iter().rposition(|place| *place > 0);
        let places = places.iter().take(last.map_or(0, |last| last + 1));
        arguments.extend(places.map(|place| integer(*place as u64)));
    }

    fn push_spends(&self, places: &[GroupedSpend<'_>], arguments: &mut Vec<Value>) {
        let mut kinds: SmallVec<[&Spend; 4]> = SmallVec::new();
        let alike =
            |a: &GroupedSpend<'_>, b: &GroupedSpend<'_>| a.bucket == b.bucket && a.spend == b.spend;
        let mut runs = Vec::with_capacity(places.len());
        for run in places.chunk_by(alike) {
            let known = kinds.iter().position(|kind| *kind == run[0].spend);
            let kind = known.unwrap_or_else(|| {
                kinds.push(run[0].spend);
                kinds.len() - 1
            });
            runs.push((run[0].call, kind, run.len() - 1));
        }
        arguments.reserve(2 * runs.len() + 5 * kinds.len() + 3);
        arguments.push(integer(runs.len() as u64));
        let keys = runs
            .iter()
            .map(|(call, ..)| self.calls[*call].keys[0].clone());
        arguments.extend(keys);
        arguments.push(clock(kinds[0].now));
        arguments.extend(terms(kinds[0]));
        arguments.push(integer(kinds.len() as u64));
        arguments.extend(kinds[1..].iter().flat_map(|kind| terms(kind)));
        let kinds = kinds.len();
        let runs = runs.into_iter();
        arguments.extend(runs.map(|(_, kind, more)| integer((kind + more * kinds) as u64)));
        without_zeros(arguments);
    }

    fn answers_to_spends(&self, places: &[GroupedSpend<'_>], reply: &Value) -> Answers {
        let garbled = || Failure::garbled(reply);
        let Value::Array(found) = reply else {
            return self.each(garbled);
        };
        let Some((Some(now), found)) = found
            .split_first()
            .map(|(now, found)| (now.as_u64(), found))
        else {
            return self.each(garbled);
        };
        let now = Timestamp::from_micros(now);
        if let Err(error) = now.validate() {
            return self.each(|| error.into());
        }
        let mut found = found.iter();
        // The places of a bucket are next to each other, but its calls are not.
        let mut answers: Answers = places.iter().map(|_| Err(Failure::TryAgain)).collect();
        for places in places.chunk_by(|a, b| a.bucket == b.bucket) {
            if let Err(failure) = answer_bucket(places, now, found.next(), &mut answers) {
                for place in places {
                    answers[place.call] = Err(failure.clone());
                }
            }
        }
        answers
    }
}

/// Encodes a kind of spend.
fn terms(kind: &Spend) -> impl Iterator<Item = Value> {
    let arguments = kind.algorithm.spend_arguments(&kind.ask());
    arguments.into_iter().map(Value::from)
}

/// Returns the places of spends that one script can decide at one instant. Returns `None` if a call is of another kind.
fn places<'a>(calls: &[&'a ScriptCall]) -> Option<Vec<GroupedSpend<'a>>> {
    let first = calls.first()?.spend()?;
    let mut buckets = HashMap::<_, _, RandomState>::default();
    let places = calls.iter().enumerate().map(|(place, call)| {
        let spend = call.spend().filter(|spend| spend.is_with(first))?;
        let next = buckets.len();
        let key = call.keys[0].as_bytes()?;
        Some(GroupedSpend {
            bucket: *buckets.entry(key).or_insert(next),
            call: place,
            spend,
        })
    });
    let mut places = places.collect::<Option<Vec<_>>>()?;
    // The sort is stable, so spends from one bucket stay in order.
    places.sort_by_key(|place| place.bucket);
    Some(places)
}
