//! A batch with leased members: these are taken first, and the store decides the rest.

use std::mem::take;

use smallvec::SmallVec;
use tokio::runtime::Handle;

use super::{
    Lease,
    charge::ChargeAhead,
    leased_member::{DecisionTime, LeasedMember, SplitBatch},
    leased_units::{Holding, LeasedUnits},
    shared::Shared,
};
use crate::{
    algorithm::Action,
    backend::{Backend, BackendError},
    decision::Outcome,
    transaction::{Batch, Member, OwnedMember},
};

/// The held units of one member.
#[derive(Clone, Copy)]
struct HeldMember<'a> {
    member: &'a Member<'a>,
    /// The units left once the batch is decided.
    left: Holding,
    /// The units taken until the batch is decided.
    lent: LeasedUnits,
}

/// The held units of each member of a batch. Units that were taken and not spent are put back.
struct FromMemory<'a, B> {
    shared: &'a Shared<B>,
    when: DecisionTime,
    members: SmallVec<[Option<HeldMember<'a>>; 4]>,
}

impl<B: Backend> Lease<B> {
    pub(super) async fn decide_split(
        &self,
        split: &SplitBatch<'_>,
    ) -> Result<Outcome, BackendError> {
        let batch = &split.batch;
        let mut held = FromMemory::take(&self.shared, split);
        let members = batch.members.iter().zip(split.are_leased());
        let (rest, leased): (SmallVec<[Member<'_>; 4]>, SmallVec<[bool; 4]>) = members
            .zip(&held.members)
            .filter(|(_, held)| held.is_none())
            .map(|((member, is_leased), _)| (*member, is_leased))
            .unzip();
        let part = Batch {
            members: &rest,
            ..*batch
        };
        let mut decided = match rest.is_empty() {
            true => Outcome::new(held.when.now(), []),
            false => self.inner().ask(&part, None).decided().await?,
        };
        // Before units are charged ahead, which takes what the store has left.
        self.shared.hear(&part, leased, held.when, &mut decided);
        let passes = decided.passes(&part);
        held.end(passes);
        if passes {
            let asked = split.members().zip(&held.members);
            let asked = asked.filter(|(_, held)| held.is_none());
            let leased = asked.filter_map(|((_, leased), _)| leased);
            leased
                .filter(|leased| batch.action(leased.member) == Action::Spend)
                .for_each(|leased| self.top_up(held.when, leased));
        }
        Ok(held.merge(decided, passes))
    }

    /// Charges a portion ahead for later batches, in the background.
    fn top_up(&self, when: DecisionTime, leased: LeasedMember<'_>) {
        let member = leased.member;
        let ahead = self.shared.pool.begin_to_charge(when, leased);
        if ahead == 0 {
            return;
        }
        let bucket = member.fingerprint;
        let algorithm = member.algorithm.clone();
        let charging = ChargeAhead::new(&self.shared, bucket, algorithm, ahead);
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let member = OwnedMember::from(member);
        runtime.spawn(async move { charging.alone(when, &member).await });
    }
}

impl<'a, B> FromMemory<'a, B> {
    fn take(shared: &'a Shared<B>, split: &SplitBatch<'a>) -> Self {
        let mut taken = Self {
            shared,
            when: shared.decision_time(&split.batch),
            members: SmallVec::new(),
        };
        for (_, leased) in split.members() {
            let held = leased.and_then(|leased| taken.take_one(&split.batch, leased));
            taken.members.push(held);
        }
        taken
    }

    fn take_one(&self, batch: &Batch<'_>, leased: LeasedMember<'a>) -> Option<HeldMember<'a>> {
        let member = leased.member;
        if member.cost == 0 {
            return None;
        }
        let (pool, when) = (&self.shared.pool, self.when);
        let (left, units) = match batch.action(member) {
            Action::Spend => (pool.lend(when, leased)?, member.cost),
            Action::Probe => (pool.enough(when, member)?, 0),
            _ => return None,
        };
        let lent = LeasedUnits {
            units,
            ..left.amount
        };
        Some(HeldMember { member, left, lent })
    }

    /// Ends the remaining loans. Units that were not spent are held again.
    fn end(&mut self, is_spent: bool) {
        let held = self.members.iter_mut().flatten();
        for held in held.filter(|held| held.lent.units > 0) {
            let lent = take(&mut held.lent);
            let bucket = held.member.fingerprint;
            let algorithm = held.member.algorithm;
            held.left = self.shared.pool.lent(bucket, lent, algorithm, is_spent);
        }
    }

    /// Returns the answers of memory and of the store, in the order of the batch.
    fn merge(&self, decided: Outcome, passes: bool) -> Outcome {
        let held = self.members.iter().map(|held| {
            let HeldMember { member, left, .. } = held.as_ref()?;
            let mut held = left.answer(member.algorithm, decided.now);
            held.answer.passed = passes || member.mode.votes();
            Some(held)
        });
        let held: SmallVec<[_; 4]> = held.collect();
        decided.among(&held)
    }
}

impl<B> Drop for FromMemory<'_, B> {
    fn drop(&mut self) {
        self.end(false);
    }
}
