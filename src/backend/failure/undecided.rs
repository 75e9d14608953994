//! The charges that the store has yet to decide.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
};

use ahash::RandomState;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    algorithm::Action,
    backend::sharded::Sharded,
    transaction::{Batch, Fingerprint, Member},
};

type UnitsOfBuckets = HashMap<Fingerprint, u32, RandomState>;

/// The units of each bucket that batches of this process ask the store for, or wait to ask for.
///
/// A local decision counts them as spent: if the store admits them all, nothing is admitted twice. So a client gains
/// nothing by sending more requests at once than the store may be asked for, or more than it decides in time.
#[derive(Default)]
pub(super) struct UndecidedUnits {
    units: Sharded<UnitsOfBuckets>,
    batches: AtomicUsize,
    turn: Mutex<()>,
}

/// The units of one batch. They are undecided until this value is dropped.
pub(super) struct UndecidedBatch<'a> {
    undecided: &'a UndecidedUnits,
    batch: &'a Batch<'a>,
}

impl UndecidedUnits {
    /// Adds the charges of a batch.
    pub(super) fn begin<'a>(&'a self, batch: &'a Batch<'a>) -> UndecidedBatch<'a> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        for member in charged(batch) {
            let mut part = self.units.lock(&member.fingerprint);
            let units = part.entry(member.fingerprint).or_default();
            *units = units.saturating_add(member.cost);
        }
        UndecidedBatch {
            undecided: self,
            batch,
        }
    }

    /// Returns whether batches other than `own` are undecided.
    #[inline]
    pub(super) fn has_others(&self, own: Option<&UndecidedBatch<'_>>) -> bool {
        self.batches.load(Ordering::Relaxed) > usize::from(own.is_some())
    }

    /// Lets one thread at a time decide locally and end its own batch, so that no other counts its charge in both places,
    /// or in neither.
    pub(super) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Returns the undecided units of a member's bucket, without those of the member itself if its batch is `own`.
    pub(super) fn others(&self, member: &Member<'_>, own: Option<&UndecidedBatch<'_>>) -> u32 {
        let part = self.units.lock(&member.fingerprint);
        let units = part.get(&member.fingerprint).copied();
        let own = own.map_or(0, |own| own.units(member));
        units.unwrap_or(0).saturating_sub(own)
    }
}

impl UndecidedBatch<'_> {
    fn units(&self, member: &Member<'_>) -> u32 {
        let mut own = charged(self.batch);
        let found = own.find(|own| own.fingerprint == member.fingerprint);
        found.map_or(0, |own| own.cost)
    }
}

impl Drop for UndecidedBatch<'_> {
    fn drop(&mut self) {
        for member in charged(self.batch) {
            let mut part = self.undecided.units.lock(&member.fingerprint);
            if let Entry::Occupied(mut units) = part.entry(member.fingerprint) {
                let left = units.get().saturating_sub(member.cost);
                match left {
                    0 => drop(units.remove()),
                    left => *units.get_mut() = left,
                }
            }
        }
        self.undecided.batches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the members that a batch may charge.
fn charged<'a>(batch: &'a Batch<'a>) -> impl Iterator<Item = &'a Member<'a>> {
    let members = batch.members.iter();
    members.filter(|member| matches!(batch.action(member), Action::Spend | Action::Debit))
}

/// Prints no buckets, because there can be many.
impl fmt::Debug for UndecidedUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UndecidedUnits")
            .field("batches", &self.batches)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Limit,
        transaction::{BucketKey, LimitKey, Mode, Operation},
    };

    #[test]
    fn units_are_undecided_until_the_batch_has_ended() {
        let limit = Limit::per_second(10);
        let algorithm = limit.algorithm().unwrap();
        let member = |id, cost, mode| {
            let key = BucketKey::new(LimitKey::Number(1), id);
            Member::new(key, algorithm, cost, mode)
        };
        let undecided = UndecidedUnits::default();
        let [alice, bob] = ["alice", "bob"].map(|id| [member(id, 3, Mode::CheckAndSpend)]);
        let both = [
            member("alice", 2, Mode::Debit),
            member("bob", 5, Mode::CheckOnly),
        ];
        let (one, two) = (
            Batch::new(Operation::Spend, &alice),
            Batch::new(Operation::Spend, &both),
        );
        let one = undecided.begin(&one);
        assert!(!undecided.has_others(Some(&one)) && undecided.has_others(None));
        let two = undecided.begin(&two);
        assert_eq!(undecided.others(&alice[0], None), 5);
        assert_eq!(undecided.others(&alice[0], Some(&one)), 2);
        assert_eq!(
            undecided.others(&bob[0], Some(&one)),
            0,
            "a check charges nothing"
        );
        drop(one);
        assert_eq!(undecided.others(&alice[0], None), 2);
        drop(two);
        assert!(!undecided.has_others(None));
        assert!(undecided.units.iter().all(|part| part.is_empty()));
    }
}
