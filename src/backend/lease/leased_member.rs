//! A batch whose limits are split between the processes and the store, and its leased members.

use std::num::NonZeroU32;

use smallvec::SmallVec;

use super::terms::LimitSplit;
use crate::{
    backend::leased_limits::LeasedLimits,
    clock::Timestamp,
    decision::{LeaseFigures, Outcome},
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

/// How the limits of a batch are leased, in the order of its members. It is `None` for members without leases.
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
    pub(super) fn of(
        batch: &Batch<'_>,
        limits: &LeasedLimits,
        processes: NonZeroU32,
    ) -> Option<Self> {
        if limits.is_empty() {
            return None;
        }
        let split = |member: &Member<'_>| split(member, limits, processes);
        let splits: SmallVec<_> = batch.members.iter().map(split).collect();
        splits.iter().any(Option::is_some).then_some(Self(splits))
    }

    /// Returns the split of a batch of one, if memory can decide it.
    pub(super) fn only(&self) -> Option<&LimitSplit> {
        match self.0.as_slice() {
            [Some(only)] if only.units > 0 => Some(only),
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
        for (index, split) in self.0.iter().enumerate() {
            let reserved = split.as_ref().map_or(0, |split| split.reserved);
            if reserved > 0 {
                let figures = outcome.leased(index);
                let figures = LeaseFigures {
                    reserved,
                    ..figures
                };
                outcome.set_leased(index, figures);
            }
        }
    }
}

/// Splits the limit of a member, if it asks for leases. In a fleet that is too large for leases, it stays whole.
///
/// The limit can be one that a reload has replaced meanwhile, and then its share may not be the one that it had. The
/// store decides with the part of this share, and no units are held: other processes do not know this split.
fn split(member: &Member<'_>, limits: &LeasedLimits, processes: NonZeroU32) -> Option<LimitSplit> {
    let (limit, whole) = (limits.get(member.key.limit)?, member.algorithm);
    let split = LimitSplit::of(whole, limit.share(), processes);
    let split = split.unwrap_or_else(|| LimitSplit::none(whole));
    Some(match limit.has(whole) {
        true => split,
        false => LimitSplit { units: 0, ..split },
    })
}

impl<'a> SplitBatch<'a> {
    /// Returns the members, and how they are leased, if they are.
    pub(super) fn members(
        &self,
    ) -> impl Iterator<Item = (&'a Member<'a>, Option<LeasedMember<'a>>)> {
        let members = self.batch.members.iter().zip(&self.splits.0);
        members.map(|(member, split)| {
            let most = split.as_ref().map_or(0, |split| split.units);
            (member, (most > 0).then_some(LeasedMember { member, most }))
        })
    }

    /// Returns whether the limit of each member has leases.
    pub(super) fn are_leased(&self) -> impl Iterator<Item = bool> {
        self.splits.0.iter().map(Option::is_some)
    }

    /// Returns the member of a batch of one, if it is leased.
    pub(super) fn only(&self) -> Option<LeasedMember<'a>> {
        match self.batch.members {
            [_] => self.members().next()?.1,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Limit,
        backend::LeaseShare,
        transaction::{BucketKey, LimitKey, Mode, Operation},
    };

    /// As of a request that began before a reload, or by an override that the reload has removed.
    #[test]
    fn nothing_is_held_for_an_algorithm_that_is_not_in_force() {
        let limit = |burst| Limit::per_second(1).burst(burst);
        let (known, replaced) = (limit(100), limit(1000));
        let [known, replaced] = [&known, &replaced].map(|limit| limit.algorithm().unwrap());
        let window = Limit::window(100, std::time::Duration::from_secs(1));
        let mut limits = LeasedLimits::default();
        let key = LimitKey::Name("a");
        limits.add(key, LeaseShare::new(1, 10), [known].into_iter());
        let processes = NonZeroU32::new(2).unwrap();
        for (name, algorithm, most, at_store) in [
            ("a", known, Some(10), 80),
            ("a", replaced, None, 800),
            ("a", window.algorithm().unwrap(), None, 100),
        ] {
            let key = BucketKey::new(LimitKey::Name(name), "alice");
            let members = [Member::new(key, algorithm, 1, Mode::CheckAndSpend)];
            let batch = Batch::new(Operation::Spend, &members);
            let splits = Splits::of(&batch, &limits, processes).unwrap();
            assert_eq!(splits.only().map(|split| split.units), most);
            let members = splits.members(&batch);
            assert_eq!(members[0].algorithm.max_cost(), at_store);
            let split = splits.batch(&batch, &members);
            assert_eq!(split.only().map(|leased| leased.most), most);
        }
        let key = BucketKey::new(LimitKey::Name("b"), "alice");
        let members = [Member::new(key, known, 1, Mode::CheckAndSpend)];
        let batch = Batch::new(Operation::Spend, &members);
        assert!(Splits::of(&batch, &limits, processes).is_none());
    }
}
