use std::time::Duration;

use crate::algorithm::{Algorithm, Judged, State, TakenPart};

/// A backend's answer for one member of a batch. The [backend docs](crate::backend#a-custom-backend) have an example of a
/// batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The state of the bucket afterwards.
    pub(crate) state: State,
    pub(crate) passed: bool,
    /// Whether the backend has looked at the bucket. If not, the member counts as not limited.
    pub(crate) known: bool,
    /// Whether the request was decided with units that this process holds in advance. The state is then the one that the
    /// store had last.
    pub(crate) leased: bool,
    /// What a debit takes, if that is less than its cost. The figures of a window have the number of units themselves.
    pub(crate) taken: Option<TakenPart>,
    /// The units that this process holds in advance. The state counts them as charged.
    pub(crate) held: u32,
    /// The part of the limit that leases reserve. The state is that of the rest.
    pub(crate) reserved: u32,
}

impl Answer {
    /// The answer for a bucket that was not read: it passes, and there are no figures.
    pub const UNKNOWN: Self = Self::unknown();

    /// [`UNKNOWN`](Self::UNKNOWN), written by its parts, which is shorter than a copy of the constant.
    #[inline(always)]
    pub(crate) const fn unknown() -> Self {
        Self {
            state: State::MISSING,
            passed: true,
            known: false,
            leased: false,
            taken: None,
            held: 0,
            reserved: 0,
        }
    }

    /// For a voting member, whether its own cost fits. For another member, whether it is charged (or would be, for a
    /// check). For a refund, whether anything was given back.
    #[must_use]
    pub const fn passed(&self) -> bool {
        self.passed
    }

    /// Returns what the same answer says after `time`, if nothing else happens to the bucket. The answer is then part of
    /// an [`Outcome`](super::Outcome) whose [`now`](super::Outcome::now) is as much later. For wrappers that remember
    /// answers; the example `custom_wrapper` is one.
    #[must_use]
    pub fn later(self, algorithm: &Algorithm, time: Duration) -> Self {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            state: self.state.later(algorithm, us),
            ..self
        }
    }

    /// Creates an answer.
    pub(crate) const fn new(state: State, passed: bool) -> Self {
        Self {
            state,
            passed,
            known: true,
            leased: false,
            taken: None,
            held: 0,
            reserved: 0,
        }
    }

    /// Fills in what the member has been judged.
    #[inline(always)]
    pub(crate) fn judge(&mut self, judged: Judged<State>) {
        (self.state, self.passed, self.taken) = (judged.state, judged.passed, judged.taken);
        self.known = true;
    }

    /// Shows the bucket as it is, because the batch is denied.
    #[inline(always)]
    pub(super) fn take_nothing(&mut self, state: State, votes: bool) {
        (self.state, self.taken) = (state, None);
        self.passed &= votes;
    }

    /// Marks the answer as one by leased units, of which so many are left.
    #[cfg(feature = "tokio")]
    pub(crate) const fn leased(mut self, left: u32) -> Self {
        (self.leased, self.held) = (true, left);
        self
    }
}
