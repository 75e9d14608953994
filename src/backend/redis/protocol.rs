//! The arguments and the reply of the script, which `head.lua` describes.

use std::{
    collections::{HashMap, HashSet},
    iter::zip,
};

use ahash::RandomState;
use fred::types::Value;
use smallvec::SmallVec;

use super::{
    error::{Failure, RedisError},
    keys::KeyForm,
};
use crate::{
    algorithm::{
        Algorithm, AlgorithmKey, Arithmetic, Charge, Figures, Verb, Wait,
        gcra::Ticks,
        quota::{Per, Usage},
        window::Shown,
    },
    clock::Timestamp,
    decision::Answer,
    transaction::{Batch, Member, Operation},
};

/// The most arguments that a server reads in one command.
const MOST_ARGUMENTS: usize = 1024 * 1024;

/// The arguments besides those of keys, terms and members.
const HEADER: usize = 8;

/// The most terms with which one is compared, so that a group of different ones does not take too long.
const MOST_COMPARED: usize = 8;

/// A batch in the form that the script decides. On a cluster, its keys are in one slot.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) keys: SmallVec<[Value; 1]>,
    members: SmallVec<[(Term, Option<Value>); 1]>,
    /// The client's time, if that decides.
    pub(super) now: Option<Timestamp>,
    /// The number of members of each batch.
    size: usize,
    /// The bucket, if there is only one.
    pub(super) bucket: Option<u64>,
}

/// What is asked of a bucket. Equal ones are sent once.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    algorithm: AlgorithmKey,
    verb: &'static str,
    votes: bool,
    writes: bool,
    numbers: SmallVec<[u64; 7]>,
    /// The period of a quota. Its calendar is sent as it is when the call is.
    per: Option<Per>,
}

impl Call {
    pub(super) fn new(batch: &Batch<'_>, form: &KeyForm) -> Self {
        let members = batch.members.iter();
        Self {
            keys: members
                .clone()
                .map(|member| form.key(member).into())
                .collect(),
            members: members
                .map(|member| (Term::new(batch, member), mark(member)))
                .collect(),
            now: batch.now,
            size: size(batch),
            bucket: match batch.members {
                [member] => Some(member.print.bucket),
                _ => None,
            },
        }
    }

    /// Adds another batch of as many members.
    pub(super) fn with(mut self, batch: &Batch<'_>, form: &KeyForm) -> Self {
        let other = Self::new(batch, form);
        self.keys.extend(other.keys);
        self.members.extend(other.members);
        self
    }

    /// Returns about how much the server reads and answers, in arguments.
    pub(super) fn weight(&self) -> usize {
        let units = |term: &Term| match term.algorithm {
            // The smallest acceptable grant.
            AlgorithmKey::Tiers => usize::try_from(term.numbers[1]).unwrap_or(usize::MAX),
            _ => 0,
        };
        let members = self.members.iter();
        members
            .map(|(term, _)| 2 + term.arguments() + units(term))
            .sum()
    }

    /// Fails if the call is too large for one command. The server would close the connection, and fail all other calls.
    pub(super) fn validate(&self) -> Result<(), RedisError> {
        let arguments: usize = self
            .members
            .iter()
            .map(|(term, _)| 3 + term.arguments())
            .sum();
        match arguments + HEADER > MOST_ARGUMENTS {
            true => Err(RedisError::TooLarge(self.keys.len())),
            false => Ok(()),
        }
    }
}

/// Returns the number of members that pass or fail together. Renewals are independent of each other.
fn size(batch: &Batch<'_>) -> usize {
    match batch.operation {
        Operation::Renew => 1,
        _ => batch.members.len().max(1),
    }
}

impl Term {
    fn new(batch: &Batch<'_>, member: &Member<'_>) -> Self {
        let ask = &member.ask;
        let verb = match ask.verb {
            _ if batch.operation == Operation::Reset => "reset",
            Verb::Refund | Verb::Renew if ask.cost == 0 => "look",
            Verb::Spend => "spend",
            Verb::Debit => "debit",
            Verb::Refund => "refund",
            Verb::Renew => "renew",
            Verb::Peek => "look",
        };
        let mut per = None;
        let numbers = match member.algorithm {
            Algorithm::Gcra(gcra) => gcra.term(ask).into_iter().collect(),
            Algorithm::Window(window) => window.term(ask).into_iter().collect(),
            Algorithm::Concurrency(limit) => limit.term(ask).into_iter().collect(),
            Algorithm::Quota(quota) => {
                per = Some(quota.per());
                quota.term(ask).into_iter().collect()
            }
            Algorithm::Tiers(tiers) => tiers.term(ask).collect(),
        };
        Self {
            algorithm: member.key.algorithm,
            verb,
            // A debit without room denies its batch.
            votes: batch.votes(member) || ask.verb == Verb::Debit,
            writes: batch.writes(member),
            numbers,
            per,
        }
    }

    fn letter(&self) -> &'static str {
        match self.algorithm {
            AlgorithmKey::Gcra => "G",
            AlgorithmKey::Window => "W",
            AlgorithmKey::Quota => "Q",
            AlgorithmKey::Concurrency => "C",
            AlgorithmKey::Tiers => "T",
        }
    }

    fn arguments(&self) -> usize {
        4 + self.numbers.len() + if self.per.is_some() { 4 } else { 0 }
    }
}

/// Returns what says which charge a refund or a renewal is about, or nothing.
fn mark(member: &Member<'_>) -> Option<Value> {
    let of_charge = |charge: &Charge| match (member.algorithm, charge) {
        (Algorithm::Gcra(_), Charge { at, frac: 1.., .. }) => {
            format!("{at}:{}", charge.frac).into()
        }
        (_, charge) => integer(charge.at),
    };
    let is_marked = matches!(member.ask.verb, Verb::Refund | Verb::Renew);
    is_marked.then(|| {
        member
            .ask
            .charge
            .map_or(Value::from_static_str(""), of_charge)
    })
}

/// Encodes a number. All of them are below 2⁵³, apart from the largest, which stands for -1.
const fn integer(number: u64) -> Value {
    Value::Integer(number.cast_signed())
}

/// Returns the arguments of `EVALSHA` or `EVAL` for calls with the same time. `around` is the server's, as far as it is known.
pub(super) fn encode(script: &'static str, calls: &[&Call], around: u64) -> Vec<Value> {
    let now = calls
        .iter()
        .find_map(|call| call.now)
        .map(Timestamp::as_micros);
    let mut arguments = vec![Value::from_static_str(script), Value::Null];
    let (mut terms, mut marks) = (SmallVec::<[&Term; 4]>::new(), Vec::new());
    let mut members = Vec::<[i32; 3]>::new();
    let mut known = HashMap::<_, _, RandomState>::default();
    let (mut keys, mut was_alone) = (0, false);
    for call in calls {
        for (nth, (key, (term, mark))) in zip(&call.keys, &call.members).enumerate() {
            let key = *known.entry(key.as_bytes()).or_insert_with(|| {
                arguments.push(key.clone());
                keys += 1;
                keys
            });
            let is_last = (nth + 1) % call.size == 0;
            let term = place_of(&mut terms, term) * if is_last { 1 } else { -1 };
            let is_alone = call.keys.len() == 1 && mark.is_none();
            match members.last_mut() {
                Some([before, by, count])
                    if is_alone && was_alone && (*before, *by) == (key, term) =>
                {
                    *count += 1;
                }
                _ => {
                    members.push([key, term, 1]);
                    marks.push(mark);
                }
            }
            was_alone = is_alone;
        }
    }
    arguments[1] = Value::Integer(keys.into());
    arguments.extend([now.unwrap_or(u64::MAX), terms.len() as u64].map(integer));
    arguments.extend(terms.iter().map(|term| term.encode(now.unwrap_or(around))));
    let is_plain = (1..)
        .zip(&members)
        .all(|(nth, member)| *member == [nth, 1, 1]);
    if !is_plain || marks.iter().any(|mark| mark.is_some()) {
        let members = members.into_iter().flatten().flat_map(i32::to_le_bytes);
        arguments.push(Value::Bytes(members.collect()));
    }
    if marks.iter().any(|mark| mark.is_some()) {
        let none = || Value::from_static_str("");
        arguments.extend(
            marks
                .into_iter()
                .map(|mark| mark.clone().unwrap_or_else(none)),
        );
    }
    arguments
}

/// Returns the number of a term, which is added if it is new.
fn place_of<'a>(terms: &mut SmallVec<[&'a Term; 4]>, term: &'a Term) -> i32 {
    let first = terms.len().saturating_sub(MOST_COMPARED);
    let known = terms[first..].iter().position(|known| *known == term);
    let place = known.map_or_else(
        || {
            terms.push(term);
            terms.len()
        },
        |known| first + known + 1,
    );
    i32::try_from(place).unwrap_or(i32::MAX)
}

impl Term {
    /// Returns the text of the term. -1 stands for the largest number, and all others are below 2⁵³.
    #[expect(clippy::cast_precision_loss, reason = "doubles hold them exactly")]
    fn encode(&self, around: u64) -> Value {
        let mode = u8::from(self.votes) + 2 * u8::from(self.writes);
        let mut text = [self.letter(), self.verb, "\0"].concat().into_bytes();
        text.push(mode);
        let periods = self.per.iter().flat_map(|per| per.periods(around));
        let numbers = self.numbers.iter().copied().chain(periods);
        text.extend(numbers.flat_map(|number| (number.cast_signed() as f64).to_le_bytes()));
        Value::Bytes(text.into())
    }

    /// Returns how many numbers of a reply are about a member.
    fn shown(&self, found: &[i64]) -> Option<usize> {
        Some(match self.algorithm {
            AlgorithmKey::Gcra | AlgorithmKey::Quota => 3,
            AlgorithmKey::Window | AlgorithmKey::Concurrency => 5,
            AlgorithmKey::Tiers => {
                let mut end = 3;
                for _ in 0..(self.numbers.len() - 2) / 5 {
                    end += 4 + usize::try_from(*found.get(end + 3)?).ok()?;
                }
                end
            }
        })
    }
}

/// The script's answer to a call.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    /// The time of the decision, by the server's clock or, if one was sent, the client's.
    pub(super) now: u64,
    /// For each member its units, or -1, and what its algorithm shows, or [`BROKEN`] for a batch with an error.
    numbers: SmallVec<[i64; 4]>,
    /// Whether a bucket may have changed.
    has_changed: bool,
}

/// Stands for a batch with an error.
const BROKEN: i64 = -2;

/// Returns the numbers in a reply.
#[expect(
    clippy::cast_possible_truncation,
    reason = "they are whole, and below 2^53"
)]
fn numbers(reply: &Value) -> Option<(Vec<i64>, &[Value])> {
    let Value::Array(values) = reply else {
        return None;
    };
    let (numbers, errors) = values.split_first()?;
    let numbers = numbers.as_bytes()?.chunks_exact(8);
    let number = |bytes: &[u8]| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes) as i64;
    Some((numbers.map(number).collect(), errors))
}

/// Returns the time in a reply.
pub(super) fn time(reply: &Value) -> Option<u64> {
    numbers(reply)?.0.first()?.to_owned().try_into().ok()
}

/// Splits the script's reply into the answers to each call.
pub(super) fn decode(calls: &[&Call], reply: &Value) -> Vec<Result<Reply, Failure>> {
    let all = |failure: Failure| calls.iter().map(|_| Err(failure.clone())).collect();
    let Some((numbers, [refusal, errors @ ..])) = numbers(reply) else {
        return all(Failure::garbled(reply));
    };
    let Some((now, mut found)) = numbers.split_first() else {
        return all(Failure::garbled(reply));
    };
    let now = now.cast_unsigned();
    if let Err(error) = Timestamp::from_micros(now).validate() {
        return all(error.into());
    }
    let read = |call: &&Call| {
        let reply_to = call.read(now, &mut found, errors);
        reply_to.unwrap_or_else(|| Err(Failure::garbled(reply)))
    };
    let mut replies: Vec<_> = calls.iter().map(read).collect();
    if let Some(refusal) = refusal.as_str().filter(|refusal| !refusal.is_empty()) {
        refuse(calls, &mut replies, &refusal);
    }
    replies
}

/// Fails the calls that a server has not stored because it takes no writes, and those that have found their changes.
fn refuse(calls: &[&Call], replies: &mut [Result<Reply, Failure>], refusal: &str) {
    let mut changed = HashSet::new();
    for (call, reply) in zip(calls, replies) {
        let has_changed = reply.as_ref().is_ok_and(|reply| reply.has_changed);
        let keys = || call.keys.iter().filter_map(Value::as_bytes);
        if has_changed || keys().any(|key| changed.contains(key)) {
            changed.extend(keys());
            *reply = Err(Failure::of_script(refusal, 0));
        }
    }
}

impl Call {
    /// Reads the next numbers of a reply. `None` if they are not as they should be.
    fn read(
        &self,
        now: u64,
        found: &mut &[i64],
        errors: &[Value],
    ) -> Option<Result<Reply, Failure>> {
        let (mut numbers, mut failure) = (SmallVec::new(), None);
        let (mut has_changed, mut batches, mut failed) = (false, 0, 0);
        for (place, batch) in self.members.chunks(self.size).enumerate() {
            batches += 1;
            if let Some(error) = (-1 - *found.first()?)
                .checked_sub(1)
                .filter(|nth| *nth >= 0)
            {
                found.split_off_first();
                let error = errors.get(usize::try_from(error).ok()?)?.as_str()?;
                failure = Some(Failure::of_script(&error, place));
                failed += 1;
                numbers.push(BROKEN);
                continue;
            }
            let (mut passes, mut writes) = (true, false);
            for (term, _) in batch {
                let shown = found.split_off(..term.shown(found)?)?;
                passes &= shown[0] >= 0 || !term.votes;
                writes |= shown[0] >= 0 && term.writes;
                numbers.extend_from_slice(shown);
            }
            has_changed |= passes && writes;
        }
        let reply = Reply {
            now,
            numbers,
            has_changed,
        };
        Some(match failure {
            Some(failure) if failed == batches => Err(failure),
            _ => Ok(reply),
        })
    }
}

impl Reply {
    /// Returns the answers to the batch of the call.
    pub(super) fn answers(&self, batch: &Batch<'_>) -> Result<Vec<Answer>, Failure> {
        self.next_answers(batch, &mut self.numbers.iter().copied())
    }

    /// Returns the answers to both batches of a call.
    pub(super) fn answers_to_both(
        &self,
        batches: [&Batch<'_>; 2],
    ) -> Result<[Vec<Answer>; 2], Failure> {
        let mut numbers = self.numbers.iter().copied();
        let [first, second] = batches.map(|batch| self.next_answers(batch, &mut numbers));
        Ok([first?, second?])
    }

    fn next_answers(
        &self,
        batch: &Batch<'_>,
        numbers: &mut impl Iterator<Item = i64>,
    ) -> Result<Vec<Answer>, Failure> {
        let mut answers = vec![Answer::default(); batch.members.len()];
        if batch.operation == Operation::Reset {
            return Ok(answers);
        }
        let size = size(batch);
        for (members, answers) in zip(batch.members.chunks(size), answers.chunks_mut(size)) {
            let is_read = self.read_batch(batch, members, answers, numbers);
            is_read.unwrap_or_else(|| Err(Failure::garbled(self)))?;
        }
        Ok(answers)
    }

    /// Reads the answers to members that pass or fail together.
    fn read_batch(
        &self,
        batch: &Batch<'_>,
        members: &[Member<'_>],
        answers: &mut [Answer],
        numbers: &mut impl Iterator<Item = i64>,
    ) -> Option<Result<(), Failure>> {
        let (mut passes, mut no_room) = (true, None);
        for (place, (member, answer)) in zip(members, &mut *answers).enumerate() {
            let taken = numbers.next()?;
            if taken == BROKEN {
                return Some(Ok(()));
            }
            let units = u32::try_from(taken.max(0)).ok()?;
            let (figures, charge) = self.found(member, units, numbers)?;
            answer.passed = taken >= 0;
            (answer.figures, answer.charge) = (Some(figures), charge);
            passes &= answer.passed || !batch.votes(member);
            if !answer.passed && member.ask.verb == Verb::Debit {
                no_room = no_room.or(Some(place));
            }
        }
        // A batch that is denied anyway needs no room.
        if let Some(place) = no_room.filter(|_| passes) {
            return Some(Err(Failure::NoRoom(place)));
        }
        for (member, answer) in zip(members, answers) {
            let applies = passes && answer.passed;
            answer.passed &= passes || batch.votes(member);
            if let (Some(figures), false) = (&mut answer.figures, applies) {
                figures.delay = Wait::ZERO;
            }
            if !applies || member.ask.cost == 0 {
                answer.charge = Charge::default();
            }
        }
        Some(Ok(()))
    }

    /// Reads what an algorithm shows. Returns the figures, and the charge if there is one.
    fn found(
        &self,
        member: &Member<'_>,
        units: u32,
        numbers: &mut impl Iterator<Item = i64>,
    ) -> Option<(Figures, Charge)> {
        let (now, ask) = (self.now, &member.ask);
        let charge = |at, units| Charge { at, frac: 0, units };
        Some(match member.algorithm {
            Algorithm::Gcra(gcra) => {
                let [us, frac] = take(numbers)?;
                let tat = Ticks {
                    us,
                    frac: frac.try_into().ok()?,
                };
                let charge = Charge {
                    at: us,
                    frac: tat.frac,
                    // The script counts charges.
                    units: units * ask.cost,
                };
                (gcra.figures(ask, &tat, now), charge)
            }
            Algorithm::Quota(quota) => {
                let [end, used] = take(numbers)?;
                let used = used.try_into().ok()?;
                (
                    quota.figures(ask, &Usage { end, used }, now),
                    charge(end, units),
                )
            }
            Algorithm::Window(window) => {
                let shown = Shown::read(take(numbers)?)?;
                (window.figures_of(ask, &shown, now), charge(now, units))
            }
            Algorithm::Concurrency(limit) => {
                let shown = Shown::read(take(numbers)?)?;
                (limit.figures_of(ask, &shown, now), charge(now, units))
            }
            Algorithm::Tiers(tiers) => {
                let [grant] = take(numbers)?;
                let charge = Charge {
                    at: grant & u64::from(u32::MAX),
                    frac: u32::try_from(grant >> 32).ok()?,
                    units,
                };
                (tiers.figures(ask, &tiers.shown(numbers)?, now), charge)
            }
        })
    }
}

/// Takes the next numbers.
fn take<const N: usize>(numbers: &mut impl Iterator<Item = i64>) -> Option<[u64; N]> {
    let mut taken = [0; N];
    for number in &mut taken {
        *number = numbers.next()?.try_into().ok()?;
    }
    Some(taken)
}
