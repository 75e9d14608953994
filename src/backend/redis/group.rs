//! Calls that travel together.

use std::{collections::HashMap, ops::Range};

use ahash::RandomState;
use fred::types::Value;
use smallvec::{SmallVec, smallvec};

use super::{
    answer::{ScriptAnswer, answer_to_part, answers_to_equals},
    arguments::{ScriptMember, clock, integer},
    call::ScriptCall,
    error::Failure,
    script::{BATCH, SPENDS, Script},
};
use crate::{algorithm::Replied, clock::Timestamp};

/// The most kinds of batches with which one is compared.
const MOST_COMPARED: usize = 8;

/// Calls that travel together. The server decides those that concern one bucket in order.
pub(super) struct Group<'a> {
    calls: SmallVec<[&'a ScriptCall; 1]>,
    /// The order in which the calls are decided, as places in the group.
    order: SmallVec<[usize; 1]>,
    runs: SmallVec<[Run; 1]>,
    kinds: SmallVec<[Kind<'a>; 1]>,
}

/// Equal batches in a row, which a script decides together: a part of a call or, if it is a spend, of several callers at the
/// same bucket.
struct Run {
    /// The calls, by their places in the order of the group.
    calls: Range<usize>,
    /// The members of each call that are decided.
    members: Range<usize>,
    /// The place of the members' kind.
    kind: usize,
}

/// A batch without its keys. Batches of several callers often have the same.
#[derive(PartialEq)]
struct Kind<'a> {
    now: Option<Timestamp>,
    members: &'a [ScriptMember],
}

/// The answers, in the order of the calls.
pub(super) type Answers = SmallVec<[Result<ScriptAnswer, Failure>; 1]>;

impl<'a> Group<'a> {
    pub(super) fn new(calls: impl IntoIterator<Item = &'a ScriptCall>) -> Self {
        let calls: SmallVec<[_; 1]> = calls.into_iter().collect();
        let mut group = Self {
            order: order_of(&calls),
            calls,
            runs: SmallVec::new(),
            kinds: SmallVec::new(),
        };
        for place in 0..group.order.len() {
            group.add(place);
        }
        group
    }

    /// Adds the runs of the next call.
    fn add(&mut self, place: usize) {
        let call = self.call(place);
        if let Some(last) = self.runs.last_mut()
            && self.calls[self.order[last.calls.start]].is_same_spend(call)
        {
            last.calls.end += 1;
            return;
        }
        for members in call.parts() {
            let kind = Kind {
                now: call.now,
                members: &call.members[members.clone()],
            };
            let run = Run {
                calls: place..place + 1,
                members,
                kind: self.place_of(kind),
            };
            self.runs.push(run);
        }
    }

    /// Returns the place of a kind, which is added if it is new.
    fn place_of(&mut self, kind: Kind<'a>) -> usize {
        // Comparing with all kinds would take too long if the batches of a group differ.
        let first = self.kinds.len().saturating_sub(MOST_COMPARED);
        let known = self.kinds[first..].iter().position(|known| *known == kind);
        known.map_or_else(
            || {
                self.kinds.push(kind);
                self.kinds.len() - 1
            },
            |known| first + known,
        )
    }

    /// Returns the call at a place of the order.
    fn call(&self, place: usize) -> &'a ScriptCall {
        self.calls[self.order[place]]
    }

    pub(super) fn script(&self) -> &'static Script {
        let now = self.kinds[0].now;
        let is_plain_spend = |kind: &Kind<'_>| {
            matches!(kind.members, [member] if member.is_plain_spend) && kind.now == now
        };
        match self.kinds.iter().all(is_plain_spend) {
            true => &SPENDS,
            false => &BATCH,
        }
    }

    /// Returns the arguments of an `EVALSHA` or, if `script` is the text, of an `EVAL`.
    pub(super) fn arguments(&self, script: &'static str) -> Vec<Value> {
        let keys = self.runs.iter().flat_map(|run| {
            let call = self.call(run.calls.start);
            &call.keys[run.members.clone()]
        });
        let mut arguments = vec![Value::from_static_str(script)];
        arguments.push(integer(keys.clone().count() as u64));
        arguments.extend(keys.cloned());
        arguments.push(integer(self.kinds.len() as u64));
        for kind in &self.kinds {
            arguments.extend([clock(kind.now), integer(kind.members.len() as u64)]);
            kind.members
                .iter()
                .for_each(|member| member.push(&mut arguments));
        }
        self.push_runs(&mut arguments);
        arguments
    }

    /// Appends a number for each run, and the marks of its members. Zeros at the end are left out.
    fn push_runs(&self, arguments: &mut Vec<Value>) {
        let mut needed = arguments.len();
        for run in &self.runs {
            let number = run.kind + self.kinds.len() * (run.calls.len() - 1);
            arguments.push(integer(number as u64));
            let members = &self.call(run.calls.start).members[run.members.clone()];
            let before = arguments.len();
            arguments.extend(members.iter().filter_map(ScriptMember::mark));
            if number > 0 || arguments.len() > before {
                needed = arguments.len();
            }
        }
        arguments.truncate(needed);
    }

    /// Splits the script's answer into the answers for each call.
    pub(super) fn answers(&self, reply: &Value) -> Answers {
        let garbled = || Failure::garbled(reply);
        let Some([time, found @ ..]) = reply.list() else {
            return self.each(garbled);
        };
        let Some(time) = time.number().map(Timestamp::from_micros) else {
            return self.each(garbled);
        };
        if let Err(error) = time.validate() {
            return self.each(|| error.into());
        }
        let mut answers: SmallVec<[Option<_>; 1]> = smallvec![];
        answers.resize_with(self.calls.len(), || None);
        let mut found = found;
        for run in &self.runs {
            self.answer(run, time, &mut found, &mut answers);
        }
        let answers = answers.into_iter();
        answers
            .map(|answer| answer.unwrap_or_else(|| Err(garbled())))
            .collect()
    }

    /// Reads the answer to a run, which is the next one of those that have been found.
    fn answer(
        &self,
        run: &Run,
        time: Timestamp,
        found: &mut &[Value],
        answers: &mut [Option<Result<ScriptAnswer, Failure>>],
    ) {
        let Some(values) = take_values(found, run.members.len()) else {
            return;
        };
        let now = self.call(run.calls.start).now.unwrap_or(time);
        let places = &self.order[run.calls.clone()];
        let calls: SmallVec<[_; 1]> = places.iter().map(|place| self.calls[*place]).collect();
        if let [call] = calls[..] {
            let answer = values.and_then(|values| answer_to_part(call, &run.members, values, now));
            add_part(&mut answers[places[0]], answer);
            return;
        }
        match values.and_then(|values| answers_to_equals(&calls, &values[0], now)) {
            Ok(equals) => {
                for (place, answer) in places.iter().zip(equals) {
                    answers[*place] = Some(Ok(answer));
                }
            }
            Err(failure) => {
                for place in places {
                    answers[*place] = Some(Err(failure.clone()));
                }
            }
        }
    }

    fn each(&self, failure: impl Fn() -> Failure) -> Answers {
        self.calls.iter().map(|_| Err(failure())).collect()
    }
}

/// Takes the values of the next run: a value for each member, or its error. Returns `None` if there are too few.
fn take_values<'a>(
    found: &mut &'a [Value],
    members: usize,
) -> Option<Result<&'a [Value], Failure>> {
    let values;
    match found.first().and_then(Value::list) {
        Some([Value::String(fault)]) if members > 0 => {
            *found = &found[1..];
            Some(Err(Failure::refused(fault)))
        }
        _ => {
            (values, *found) = found.split_at_checked(members)?;
            Some(Ok(values))
        }
    }
}

/// Adds the answer to a part of a call to those of the earlier parts. The first failure counts.
fn add_part(
    answered: &mut Option<Result<ScriptAnswer, Failure>>,
    part: Result<ScriptAnswer, Failure>,
) {
    match (answered, part) {
        (Some(Err(_)), _) => {}
        (Some(Ok(answered)), Ok(part)) => answered.extend(part),
        (answered, part) => *answered = Some(part),
    }
}

/// Returns the order in which calls are decided. Spends from one bucket come next to each other, so that equal ones can be
/// decided together. Among other calls, that could put a batch before one that came earlier.
fn order_of(calls: &[&ScriptCall]) -> SmallVec<[usize; 1]> {
    let mut order: SmallVec<[usize; 1]> = (0..calls.len()).collect();
    if calls.len() > 1 && calls.iter().all(|call| call.spend.is_some()) {
        let mut buckets = HashMap::<_, _, RandomState>::default();
        let firsts = calls.iter().enumerate();
        let firsts: Vec<_> = firsts
            .map(|(place, call)| *buckets.entry(call.keys[0].as_bytes()).or_insert(place))
            .collect();
        // The sort is stable, so spends from one bucket stay in order.
        order.sort_by_key(|place| firsts[*place]);
    }
    order
}
