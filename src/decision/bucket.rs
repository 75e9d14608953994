use std::{cmp::Ordering, time::Duration};

use super::{Decision, State};
use crate::{
    clock::Timestamp,
    gcra::{Gcra, Tat, Ticks},
    tiers::{Figures, NEVER},
    transaction::Algorithm,
};

/// A bucket as a decision shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) algorithm: Algorithm,
    pub(super) state: State,
    pub(super) now: Timestamp,
    pub(super) cost: u32,
    /// How much of it is taken.
    pub(super) granted: u32,
}

/// A wait as people are told it.
pub(super) fn waiting(wait: Ticks) -> Duration {
    match wait.us {
        NEVER => Decision::NEVER,
        _ => wait.ceil(),
    }
}

/// What a client is to know of a bucket.
pub(crate) struct Quota<'a> {
    pub(crate) algorithm: &'a Algorithm,
    /// The highest tier that is active, 0 being the lowest and all there is without tiers.
    pub(crate) tier: usize,
    /// What the bucket holds, or the tier has room for.
    pub(crate) remaining: u32,
    /// How long until there is more, or another tier; `None` if it is full.
    pub(crate) next: Option<Duration>,
}

/// What is decided by: the two always belong together, but for a bucket of which nothing is known.
enum Known<'a> {
    Gcra(&'a Gcra, Tat, u64),
    Tiers(&'a Figures),
    Nothing,
}

impl Bucket {
    #[inline]
    fn known(&self) -> Known<'_> {
        match (&self.algorithm, &self.state) {
            (Algorithm::Gcra(gcra), State::Gcra(tat)) => {
                Known::Gcra(gcra, *tat, self.now.as_micros())
            }
            (Algorithm::Tiers(_), State::Tiers(figures)) => Known::Tiers(figures),
            _ => Known::Nothing,
        }
    }

    pub(super) fn remaining(&self) -> u32 {
        match self.known() {
            Known::Gcra(gcra, tat, now) => gcra.remaining(tat, now),
            Known::Tiers(figures) => figures.remaining,
            Known::Nothing => 0,
        }
    }

    pub(super) fn next_after(&self) -> Ticks {
        match self.known() {
            Known::Gcra(gcra, tat, now) => gcra.wait(tat, now, self.cost),
            Known::Tiers(figures) => Ticks::from_micros(figures.next_after),
            Known::Nothing => Ticks::default(),
        }
    }

    pub(super) fn reset_after(&self) -> Ticks {
        match self.known() {
            Known::Gcra(gcra, tat, now) => gcra.reset_after(tat, now),
            Known::Tiers(figures) => Ticks::from_micros(figures.reset_after),
            Known::Nothing => Ticks::default(),
        }
    }

    #[inline]
    pub(super) fn quota(&self) -> Quota<'_> {
        let (tier, remaining, next) = match self.known() {
            Known::Gcra(gcra, tat, now) => {
                let (remaining, next) = gcra.quota(tat, now);
                (0, remaining, next)
            }
            Known::Tiers(figures) => {
                let turn = Some(figures.turn_after).filter(|turn| *turn > 0);
                (
                    figures.in_force(),
                    figures.free,
                    turn.map(Ticks::from_micros),
                )
            }
            Known::Nothing => (0, 0, None),
        };
        Quota {
            algorithm: &self.algorithm,
            tier,
            remaining,
            next: next.map(waiting),
        }
    }

    /// What the fractions of waits are counted in.
    fn count(&self) -> u32 {
        match &self.algorithm {
            Algorithm::Gcra(gcra) => gcra.count(),
            Algorithm::Tiers(_) => 1,
        }
    }

    pub(super) fn compare_waits(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.next_after(), other.next_after());
        ours.compare(self.count(), theirs, other.count())
    }
}
