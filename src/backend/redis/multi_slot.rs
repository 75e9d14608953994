//! A batch whose buckets are in several slots of a cluster. A script can only use the keys of one slot, so no script sees all
//! of them. The batch is decided in phases:
//!
//! 1. All slots are checked. If a voting member is denied, nothing is charged. So a client that is denied anyway never takes
//!    from others' buckets, even for a moment.
//! 2. The voting members are spent, all slots at once; those whose charges cannot be refunded (tiers) last, one by one.
//! 3. The members that do not vote are spent.
//!
//! If a slot denies in phase 2, because another request has come in between, or if a slot fails, all confirmed charges are
//! refunded by their receipts. A task does that, which outlives the request. The error says that nothing was charged only if
//! that is certain. A batch never admits too much. Until the refunds arrive, other requests of the same clients can be denied.
//!
//! A batch within one slot takes the same phases while that slot is being moved to another server, because a script cannot
//! run on keys of which some have moved.

use std::{collections::BTreeMap, iter::zip, sync::Arc, time::Duration};

use fred::util::redis_keyslot;
use futures_util::future::join_all;
use tokio::time::{self, Instant};

use super::{
    cluster::Cluster,
    error::{Failure, RedisError},
    keys::KeyForm,
    protocol::Call,
};
use crate::{
    algorithm::{Algorithm, Ask, Charge, Verb},
    decision::Answer,
    transaction::{Batch, Member, Operation, OwnedBatch},
};

type Answers = Vec<Answer>;

/// Decides a batch on a cluster, by one script if that is possible.
pub(super) async fn apply(
    cluster: &Arc<Cluster>,
    batch: &Batch<'_>,
    form: &KeyForm,
    timeout: Duration,
) -> Result<Answers, Failure> {
    let deadline = Instant::now() + timeout;
    let whole = Call::new(batch, form);
    let keys = whole
        .keys
        .iter()
        .map(|key| key.as_bytes().unwrap_or_default());
    let slots: Vec<_> = keys.map(redis_keyslot).collect();
    let is_split = slots.windows(2).any(|pair| pair[0] != pair[1]);
    if let (Some(slot), false) = (slots.first(), is_split) {
        match cluster.run(*slot, whole, deadline).await {
            Err(Failure::TryAgain) if slots.len() > 1 => {}
            reply => return reply?.answers(batch),
        }
    }
    let mut split = Split {
        cluster,
        batch,
        form,
        slots: &slots,
        are_apart: !is_split,
        deadline,
        timeout,
    };
    let decided = split.decide().await;
    // A failed check or spend has left nothing behind. A refund or a renewal can have succeeded in other slots.
    let is_over = matches!(batch.operation, Operation::Refund | Operation::Renew);
    if let (Err(Failure::TryAgain), false, false) = (&decided, split.are_apart, is_over) {
        split.are_apart = true;
        return split.decide().await;
    }
    decided
}

/// A batch over several slots, and the means to send it.
struct Split<'a> {
    cluster: &'a Arc<Cluster>,
    batch: &'a Batch<'a>,
    form: &'a KeyForm,
    /// The slot of each member.
    slots: &'a [u16],
    /// Whether each member has a call of its own, because a slot is being moved. Which keys are on which side is not known.
    are_apart: bool,
    deadline: Instant,
    /// The longest that refunds may take.
    timeout: Duration,
}

/// Members in one slot, by their places in the whole batch.
struct Part {
    slot: u16,
    places: Vec<usize>,
    batch: OwnedBatch,
    call: Call,
}

impl Part {
    async fn run(&self, cluster: &Cluster, deadline: Instant) -> Result<Answers, Failure> {
        let reply = cluster.run(self.slot, self.call.clone(), deadline).await;
        let answers = reply.and_then(|reply| self.batch.as_batch(|batch| reply.answers(batch)));
        answers.map_err(|failure| failure.within(&self.places))
    }

    fn can_refund(&self) -> bool {
        self.batch
            .as_batch(|batch| batch.members.iter().all(can_refund))
    }

    /// Returns the refund of the charges, and whether it is one of all of them.
    fn refund(&self, answers: &[Answer], form: &KeyForm) -> (Self, bool) {
        self.batch.as_batch(|batch| {
            let charged = || {
                zip(batch.members, answers).filter(|(_, answer)| answer.charge != Charge::default())
            };
            let refunds =
                charged().filter(|(member, answer)| can_refund(member) && answer.charge.units > 0);
            let members = refunds.map(|(member, answer)| Member {
                ask: Ask::new(Verb::Refund, answer.charge.units).of(Some(&answer.charge)),
                ..*member
            });
            let members: Vec<_> = members.collect();
            let refund = Batch::new(Operation::Refund, &members).at(batch.now);
            let part = Self {
                slot: self.slot,
                places: self.places.clone(),
                batch: OwnedBatch::from(&refund),
                call: Call::new(&refund, form),
            };
            (part, charged().count() == members.len())
        })
    }
}

fn can_refund(member: &Member<'_>) -> bool {
    !matches!(member.algorithm, Algorithm::Tiers(_))
}

impl Split<'_> {
    async fn decide(&self) -> Result<Answers, Failure> {
        match self.batch.operation {
            Operation::Check => Ok(self.check().await?.answers),
            Operation::Spend => self.spend().await,
            operation => {
                let parts = self.parts(|_| true);
                let mut found = run_all(self.cluster, &parts, self.deadline).await;
                if operation == Operation::Renew && found.iter().any(Result::is_ok) {
                    // Nobody knows about members in slots that fail.
                    for (part, found) in zip(&parts, &mut found) {
                        let unknown = || vec![Answer::default(); part.places.len()];
                        *found = found.clone().or_else(|_| Ok(unknown()));
                    }
                }
                let mut answers = vec![Answer::default(); self.batch.members.len()];
                for (part, found) in zip(&parts, all_or_nothing(found, false)?) {
                    place(&mut answers, part, found);
                }
                Ok(answers)
            }
        }
    }

    /// Returns the members to which this applies, by slot.
    fn groups(&self, applies: impl Fn(&Member<'_>) -> bool) -> Vec<(u16, Vec<usize>)> {
        let mut groups = BTreeMap::<_, Vec<_>>::new();
        for (place, member) in self.batch.members.iter().enumerate() {
            if applies(member) {
                let part = if self.are_apart { place } else { 0 };
                groups
                    .entry((self.slots[place], part))
                    .or_default()
                    .push(place);
            }
        }
        groups
            .into_iter()
            .map(|((slot, _), places)| (slot, places))
            .collect()
    }

    fn parts(&self, applies: impl Fn(&Member<'_>) -> bool) -> Vec<Part> {
        let groups = self.groups(applies).into_iter();
        let parts = groups.map(|(slot, places)| {
            let members: Vec<_> = places
                .iter()
                .map(|place| self.batch.members[*place])
                .collect();
            let batch = Batch {
                members: &members,
                ..*self.batch
            };
            Part {
                slot,
                batch: OwnedBatch::from(&batch),
                call: Call::new(&batch, self.form),
                places,
            }
        });
        parts.collect()
    }

    /// Checks all slots, and looks at what is stored, which is shown if the batch is denied.
    async fn check(&self) -> Result<Checked, Failure> {
        let batch = self.batch;
        let groups = self.groups(|_| true);
        let checks = groups.iter().map(async |(slot, places)| {
            let members = || places.iter().map(|place| batch.members[*place]);
            let looks = members().map(|member| Member {
                ask: Ask {
                    verb: Verb::Peek,
                    ..member.ask
                },
                ..member
            });
            let (members, looks): (Vec<_>, Vec<_>) = (members().collect(), looks.collect());
            let check = Batch::new(Operation::Check, &members).at(batch.now);
            let look = Batch::new(Operation::Peek, &looks).at(batch.now);
            let call = Call::new(&check, self.form).with(&look, self.form);
            let reply = self.cluster.run(*slot, call, self.deadline).await;
            let answers = reply.and_then(|reply| reply.answers_to_both([&check, &look]));
            answers.map_err(|failure| failure.within(places).of_a_check())
        });
        let unknown = vec![Answer::default(); batch.members.len()];
        let (mut answers, mut stored) = (unknown.clone(), unknown);
        for ((_, places), found) in zip(&groups, join_all(checks).await) {
            let found = found?;
            for (nth, place) in places.iter().enumerate() {
                (answers[*place], stored[*place]) = (found[0][nth], found[1][nth]);
            }
        }
        let mut checked = zip(batch.members, &answers);
        let passes = checked.all(|(member, answer)| answer.passed || !batch.votes(member));
        for ((member, stored), answer) in zip(zip(batch.members, &mut stored), &answers) {
            stored.passed = answer.passed && batch.votes(member);
        }
        Ok(Checked {
            passes,
            answers: if passes { answers } else { stored.clone() },
            stored,
        })
    }

    async fn spend(&self) -> Result<Answers, Failure> {
        let Checked {
            passes,
            mut answers,
            stored,
        } = self.check().await?;
        let spends = |member: &Member<'_>| self.batch.writes(member);
        let mut votes = self.parts(|member| spends(member) && member.mode.votes());
        let others = self.parts(|member| spends(member) && !member.mode.votes());
        if !passes || votes.is_empty() && others.is_empty() {
            return Ok(answers);
        }
        votes.sort_by_key(|part| !part.can_refund());
        let phases = Phases {
            cluster: Arc::clone(self.cluster),
            form: self.form.clone(),
            votes,
            others,
            deadline: self.deadline,
            timeout: self.timeout,
        };
        // A task of its own, because it must refund its charges even if the caller leaves.
        let spent = time::timeout_at(self.deadline, tokio::spawn(phases.run())).await;
        let unknown = || Failure::Unknown(RedisError::Timeout);
        let spent = spent.map_err(|_| unknown())?.map_err(|_| unknown())?;
        let found = all_or_nothing(spent.found, spent.is_undone)?;
        if !spent.passes {
            answers = stored;
        }
        for (part, found) in zip(&spent.parts, found) {
            // What has passed in a denied batch is refunded.
            if spent.passes || !found.iter().all(|answer| answer.passed) {
                place(&mut answers, part, found);
            }
        }
        Ok(answers)
    }
}

/// The answers of the first phase.
struct Checked {
    passes: bool,
    answers: Answers,
    /// Those of the members if the batch is denied, with what is stored.
    stored: Answers,
}

/// The other phases of a spend. From here on, each charge is either kept or refunded.
struct Phases {
    cluster: Arc<Cluster>,
    form: KeyForm,
    /// Those that can be refunded come first.
    votes: Vec<Part>,
    others: Vec<Part>,
    deadline: Instant,
    timeout: Duration,
}

/// The parts that were asked, and their answers.
struct Spent {
    passes: bool,
    parts: Vec<Part>,
    found: Vec<Result<Answers, Failure>>,
    /// Whether all charges of a batch that has not passed are refunded.
    is_undone: bool,
}

impl Phases {
    async fn run(self) -> Spent {
        let took = |found: &Result<Answers, Failure>| {
            found
                .as_ref()
                .is_ok_and(|answers| answers.iter().all(|answer| answer.passed))
        };
        let first = self.votes.partition_point(Part::can_refund);
        let mut found = run_all(&self.cluster, &self.votes[..first], self.deadline).await;
        for part in &self.votes[first..] {
            if found.iter().all(took) {
                found.push(part.run(&self.cluster, self.deadline).await);
            }
        }
        let mut passes = found.iter().all(took);
        if passes {
            found.extend(run_all(&self.cluster, &self.others, self.deadline).await);
            passes = found.iter().all(Result::is_ok);
        }
        let is_undone = !passes && self.give_back(&found).await;
        let parts = self.votes.into_iter().chain(self.others).collect();
        Spent {
            passes,
            parts,
            found,
            is_undone,
        }
    }

    /// Refunds the confirmed charges. Returns whether nothing of them is left.
    ///
    /// If an answer was lost, the charge may not have been made, and its refund would give away units that others have
    /// paid for. The refunds have their own timeout, because the request's may be over by now.
    async fn give_back(&self, found: &[Result<Answers, Failure>]) -> bool {
        let parts = self.votes.iter().chain(&self.others);
        let charged =
            zip(parts, found).filter_map(|(part, found)| Some((part, found.as_ref().ok()?)));
        let refunds = charged.map(|(part, answers)| part.refund(answers, &self.form));
        let (refunds, are_complete): (Vec<_>, Vec<_>) = refunds.unzip();
        let refunds: Vec<_> = refunds
            .into_iter()
            .filter(|part| !part.call.keys.is_empty())
            .collect();
        let given_back = run_all(&self.cluster, &refunds, Instant::now() + self.timeout).await;
        let is_back = |found: &Result<Answers, Failure>| match found {
            Ok(answers) => answers.iter().all(|answer| answer.passed),
            Err(failure) => {
                tracing::debug!(?failure, "a charge could not be refunded");
                false
            }
        };
        given_back.iter().all(is_back) && are_complete.into_iter().all(|is_complete| is_complete)
    }
}

async fn run_all(
    cluster: &Cluster,
    parts: &[Part],
    deadline: Instant,
) -> Vec<Result<Answers, Failure>> {
    join_all(parts.iter().map(|part| part.run(cluster, deadline))).await
}

/// Writes the answers of a part to the places of its members.
fn place(answers: &mut [Answer], part: &Part, found: Answers) {
    for (place, answer) in zip(&part.places, found) {
        answers[*place] = answer;
    }
}

/// Returns the answers of all slots, or a failure. The failure is certain only if no slot has an unknown outcome, and the
/// changes of the others `are_undone`.
fn all_or_nothing(
    found: Vec<Result<Answers, Failure>>,
    are_undone: bool,
) -> Result<Vec<Answers>, Failure> {
    let has_changed = !are_undone && found.iter().any(Result::is_ok);
    let (answers, failures): (Vec<_>, Vec<_>) = found.into_iter().partition(Result::is_ok);
    let worst = failures
        .into_iter()
        .filter_map(Result::err)
        .max_by_key(|failure| matches!(failure, Failure::Unknown(_)));
    match worst {
        None => Ok(answers.into_iter().flatten().collect()),
        Some(failure) if has_changed => Err(failure.partly()),
        Some(failure) => Err(failure),
    }
}
