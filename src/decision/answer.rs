use crate::{
    clock::Timestamp, gcra::Tat, quota::Usage, tiers::TierSnapshot, window::WindowSnapshot,
};

/// What a decision knows of one bucket.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The theoretical arrival time of a GCRA bucket.
    Gcra(Tat),
    /// How a bucket with tiers stands, counted from the instant of the decision.
    Tiers(TierSnapshot),
    /// How a bucket with a window stands, counted from the instant of the decision.
    Window(WindowSnapshot),
    /// How much of a quota is used.
    Quota(Usage),
}

impl State {
    /// The state of a bucket of which nothing is stored: full.
    pub const MISSING: Self = Self::Gcra(Tat { us: 0, frac: 0 });

    /// The state that is as far from `to` as this one is from `from`: the same bucket, told by another
    /// clock. A missing bucket is full by all of them.
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

/// A backend's answer for one member of a batch.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// How the bucket stands afterwards.
    pub state: State,
    /// Whether the member's own cost fits, if it votes; whether it is charged (for a check: would
    /// be), if it does not; whether anything was given back, for a refund.
    pub passed: bool,
    /// Whether the backend has looked at the bucket. If not, the member counts as not limited.
    pub known: bool,
    /// Whether it is of units that this process has charged ahead, and not of the bucket.
    pub(crate) leased: bool,
}

impl Answer {
    /// The answer for a bucket that was not looked at: it passes, and there are no figures.
    pub const UNKNOWN: Self = Self {
        state: State::MISSING,
        passed: true,
        known: false,
        leased: false,
    };

    /// An answer.
    #[must_use]
    pub const fn new(state: State, passed: bool) -> Self {
        Self {
            state,
            passed,
            known: true,
            leased: false,
        }
    }

    /// Says that it is of units that were charged ahead.
    #[cfg(feature = "tokio")]
    pub(crate) const fn leased(mut self) -> Self {
        self.leased = true;
        self
    }
}
