use std::{
    cmp::Ordering,
    mem::{self, ManuallyDrop},
    time::Duration,
};

use crate::algorithm::{ClientFigures, FOREVER, ShownBucket};

/// What a decision knows of its bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BucketFigures {
    /// Nothing: no limit is configured, or nobody has looked at the bucket.
    None,
    /// The client is blocked, so nothing passes.
    Blocked,
    Known(ShownBucket),
}

impl BucketFigures {
    /// Fills in the bucket of a decision that has none. There is nothing to drop, so the compiler need not check for it. A
    /// second call would leak the first bucket.
    #[inline(always)]
    pub(super) fn fill(&mut self, bucket: ShownBucket) {
        debug_assert!(self.is_none(), "a decision is written once");
        let _none = ManuallyDrop::new(mem::replace(self, Self::Known(bucket)));
    }

    #[inline]
    pub(super) const fn known(&self) -> Option<&ShownBucket> {
        match self {
            Self::Known(bucket) => Some(bucket),
            Self::None | Self::Blocked => None,
        }
    }

    #[inline]
    pub(super) const fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    #[inline]
    pub(super) const fn is_blocked(&self) -> bool {
        matches!(self, Self::Blocked)
    }

    /// Returns what passes at once, if there is a limit.
    pub(super) fn remaining(&self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Blocked => Some(0),
            Self::Known(bucket) => Some(bucket.remaining()),
        }
    }

    /// Returns a wait: none without a limit, and an endless one for a blocked client.
    pub(super) fn wait(&self, of: impl FnOnce(&ShownBucket) -> Duration) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Blocked => FOREVER,
            Self::Known(bucket) => of(bucket),
        }
    }

    /// Returns the figures for the client, if there is a limit, of which leases reserve a part.
    #[inline(always)]
    pub(super) fn for_client(&self, reserved: u32) -> Option<ClientFigures<'_>> {
        match self {
            Self::None => None,
            Self::Blocked => Some(ClientFigures::BLOCKED),
            Self::Known(bucket) => Some(ClientFigures::of(bucket, reserved)),
        }
    }

    /// Returns the bucket `us` microseconds later, if there were no other requests.
    pub(super) fn later(self, us: u64) -> Self {
        match self {
            Self::Known(bucket) => Self::Known(bucket.later(us)),
            other => other,
        }
    }

    /// Orders two buckets with limits by strictness: the longer wait, then the fewer tokens.
    pub(super) fn strictness(
        &self,
        other: &Self,
        amount: impl Fn(&ShownBucket) -> u32,
    ) -> Ordering {
        match (self, other) {
            (Self::Known(a), Self::Known(b)) => {
                let waits = a.compare_waits(b);
                waits.then_with(|| amount(b).cmp(&amount(a)))
            }
            _ => self.is_blocked().cmp(&other.is_blocked()),
        }
    }
}
