use crate::{
    clock::Timestamp,
    gcra::{Tat, Ticks},
    quota::Usage,
    tiers::TierSnapshot,
    window::WindowSnapshot,
};

/// The part of a bucket's state that a decision shows.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The theoretical arrival time of a GCRA bucket.
    Gcra(Tat),
    /// The figures of a bucket with tiers. Times count from the decision.
    Tiers(TierSnapshot),
    /// The figures of a bucket with a window. Times count from the decision.
    Window(WindowSnapshot),
    /// The usage of a quota.
    Quota(Usage),
}

impl State {
    /// The state of a missing bucket, which is full.
    pub const MISSING: Self = Self::Gcra(Tat { us: 0, frac: 0 });

    /// Converts the state to another clock, so that it is as far from `to` as it was from `from`.
    /// A missing bucket is full by any clock.
    #[must_use]
    pub(crate) fn by_clock(self, from: Timestamp, to: Timestamp) -> Self {
        match self {
            Self::Gcra(mut tat) if tat.us > 0 => {
                let later = to.as_micros().saturating_sub(from.as_micros());
                let earlier = from.as_micros().saturating_sub(to.as_micros());
                tat.us = tat.us.saturating_add(later).saturating_sub(earlier);
                Self::Gcra(tat.storable())
            }
            state => state,
        }
    }
}

/// The part of its cost that a debit takes from a bucket which cannot hold more debt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenPart {
    /// The number of tokens, rounded up.
    pub(crate) cost: u32,
    /// By how much the time taken from a GCRA bucket is shorter than the time of these tokens.
    pub(crate) short: Ticks,
}

/// A backend's answer for one member of a batch.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The state of the bucket afterwards.
    pub state: State,
    /// For a voting member, whether its own cost fits. For another member, whether it is charged (or would be, for a
    /// check). For a refund, whether anything was given back.
    pub passed: bool,
    /// Whether the backend has looked at the bucket. If not, the member counts as not limited.
    pub known: bool,
    /// Whether the request was decided with units that this process holds in advance. The state is then the one that the
    /// store had last.
    pub(crate) leased: bool,
    /// What a debit takes, if that is less than its cost. The figures of a window have the number of units themselves.
    pub(crate) taken: Option<TakenPart>,
    /// The units that this process holds in advance. The state counts them as charged.
    pub(crate) held: u32,
}

impl Answer {
    /// The answer for a bucket that was not read: it passes, and there are no figures.
    pub const UNKNOWN: Self = Self {
        state: State::MISSING,
        passed: true,
        known: false,
        leased: false,
        taken: None,
        held: 0,
    };

    /// Creates an answer.
    #[must_use]
    pub const fn new(state: State, passed: bool) -> Self {
        Self {
            state,
            passed,
            known: true,
            leased: false,
            taken: None,
            held: 0,
        }
    }

    /// Marks the answer as one by leased units, of which so many are left.
    #[cfg(feature = "tokio")]
    pub(crate) const fn leased(mut self, left: u32) -> Self {
        (self.leased, self.held) = (true, left);
        self
    }
}
