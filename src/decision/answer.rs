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
    /// What a debit takes, if that is less than its cost. The figures of a window have the number of units themselves.
    pub(crate) taken: Option<TakenPart>,
}

impl Answer {
    /// The answer for a bucket that was not read: it passes, and there are no figures.
    pub const UNKNOWN: Self = Self {
        state: State::MISSING,
        passed: true,
        known: false,
        taken: None,
    };

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
            taken: None,
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
    pub(crate) fn take_nothing(&mut self, state: State, votes: bool) {
        (self.state, self.taken) = (state, None);
        self.passed &= votes;
    }
}
