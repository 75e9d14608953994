//! A batch whose limits are split between the processes and the store, and its leased members.

use std::num::NonZeroU32;

use smallvec::SmallVec;

use super::terms::LimitSplit;
use crate::{
    clock::Timestamp,
    decision::Outcome,
    transaction::{Batch, Member},
};

/// A leased member with the limit at the store, and the most unspent units of its bucket that the process can hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeasedMember<'a> {
    pub(super) member: &'a Member<'a>,
    pub(super) most: u32,
}

/// The time of a decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionTime {
    now: Timestamp,
    /// Whether it is from the client's clock. If not, the store uses its own clock.
    is_given: bool,
}

impl DecisionTime {
    pub(super) fn new(given: Option<Timestamp>, own: impl FnOnce() -> Timestamp) -> Self {
        Self {
            now: given.unwrap_or_else(own),
            is_given: given.is_some(),
        }
    }

    pub(super) const fn now(self) -> Timestamp {
        self.now
    }

    /// Returns the time for the store, if it is not the store's own.
    pub(super) fn given(self) -> Option<Timestamp> {
        self.is_given.then_some(self.now)
    }
}

/// The splits of a batch's limits, in the order of its members. They are `None` for members without leases.
pub(super) struct Splits(SmallVec<[Option<LimitSplit>; 4]>);

/// A batch as the store decides it.
#[derive(Clone, Copy)]
pub(super) struct SplitBatch<'a> {
    /// The batch, with the limits at the store.
    pub(super) batch: Batch<'a>,
    splits: &'a Splits,
}

impl Splits {
    /// Splits the limits of a batch. Returns `None` if no member has leases.
    pub(super) fn of(batch: &Batch<'_>, processes: NonZeroU32) -> Option<Self> {
        let mut members = batch.members.iter();
        let any = members.any(|member| member.lease.is_some());
        let members = batch.members.iter();
        any.then(|| {
            let splits =
                members.map(|member| LimitSplit::of(member.algorithm, member.lease?, processes));
            Self(splits.collect())
        })
    }

    /// Returns the split of a batch of one.
    pub(super) fn only(&self) -> Option<&LimitSplit> {
        match self.0.as_slice() {
            [split] => split.as_ref(),
            _ => None,
        }
    }

    /// Returns the members of the batch with the limits at the store.
    pub(super) fn members<'a>(&'a self, batch: &Batch<'a>) -> SmallVec<[Member<'a>; 4]> {
        let members = batch.members.iter().zip(&self.0);
        let members = members.map(|(member, split)| Member {
            algorithm: split
                .as_ref()
                .map_or(member.algorithm, |split| &split.at_store),
            ..*member
        });
        members.collect()
    }

    /// Returns the batch with these members, which are those of [`members`](Self::members).
    pub(super) fn batch<'a>(
        &'a self,
        batch: &Batch<'a>,
        members: &'a [Member<'a>],
    ) -> SplitBatch<'a> {
        SplitBatch {
            batch: Batch { members, ..*batch },
            splits: self,
        }
    }

    /// Adds the reserved parts to the answers, so that they belong to the limits before the split.
    pub(super) fn complete(&self, outcome: &mut Outcome) {
        for (answer, split) in outcome.answers_mut().iter_mut().zip(&self.0) {
            answer.reserved = split.as_ref().map_or(0, |split| split.reserved);
        }
    }
}

impl<'a> SplitBatch<'a> {
    /// Returns the members, and how they are leased, if they are.
    pub(super) fn members(
        &self,
    ) -> impl Iterator<Item = (&'a Member<'a>, Option<LeasedMember<'a>>)> {
        let members = self.batch.members.iter().zip(&self.splits.0);
        members.map(|(member, split)| {
            let most = split.as_ref().map(|split| split.units);
            (member, most.map(|most| LeasedMember { member, most }))
        })
    }

    /// Returns the member of a batch of one, if it is leased.
    pub(super) fn only(&self) -> Option<LeasedMember<'a>> {
        match self.batch.members {
            [_] => self.members().next()?.1,
            _ => None,
        }
    }
}
