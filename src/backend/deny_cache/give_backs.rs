use std::sync::atomic::{AtomicU32, Ordering};

use crate::{
    clock::Timestamp,
    transaction::{Batch, Fingerprint, Member, Mode, Operation},
};

/// Counts what this process has given back to the store, in classes of buckets.
///
/// The store may have denied a request before it was given something back, and answer afterwards. So a denial is only
/// remembered if nothing was given back to its class between the question and the answer.
pub(super) struct GiveBacks {
    classes: Box<[AtomicU32]>,
}

/// Large enough that a refund of one bucket rarely prevents others from being remembered.
const CLASSES: usize = 1024;

impl GiveBacks {
    pub(super) fn new() -> Self {
        Self {
            classes: (0..CLASSES).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Counts one, and returns the count before it.
    pub(super) fn count(&self, bucket: &Fingerprint) -> u32 {
        self.class(bucket).fetch_add(1, Ordering::AcqRel)
    }

    pub(super) fn so_far(&self, bucket: &Fingerprint) -> u32 {
        self.class(bucket).load(Ordering::Acquire)
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    fn class(&self, bucket: &Fingerprint) -> &AtomicU32 {
        &self.classes[bucket.high as usize % CLASSES]
    }
}

/// Returns whether a store can give something back while it decides a batch, and can say so only by its answer: a store
/// that decides several buckets one after the other refunds the first ones if a later one denies.
pub(super) fn may_give_back(batch: &Batch<'_>) -> bool {
    let charged = batch
        .members
        .iter()
        .filter(|member| is_charged_first(member));
    batch.operation == Operation::Spend && charged.count() > 1
}

/// Returns whether a member of a spend is charged before it is known whether all others pass.
pub(super) fn is_charged_first(member: &Member<'_>) -> bool {
    member.mode == Mode::CheckAndSpend && member.cost > 0
}

/// Returns the time until which a give-back may still be made whose answer was not awaited, or was an error.
pub(super) fn open_until(now: Timestamp) -> Timestamp {
    /// Longer than the timeouts of stores.
    const LONGEST_US: u64 = 10_000_000;
    Timestamp::from_micros(now.as_micros().saturating_add(LONGEST_US))
}
