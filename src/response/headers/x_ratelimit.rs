//! `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, of one limit.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::shown::Shown;
use crate::{
    decision::{Decision, ceil_secs},
    response::text::number,
};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
pub(super) const NAMES: [HeaderName; 3] = [LIMIT, REMAINING, RESET];

/// The start from which a reset is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reset {
    /// 1970.
    Epoch,
    /// Now.
    Delta,
}

/// The three fields.
#[derive(Debug)]
pub(crate) struct XRateLimit {
    limit: u32,
    remaining: u32,
    /// The time at which the bucket is full, in seconds; `None` if it never is.
    reset: Option<u64>,
}

impl XRateLimit {
    /// Writes the fields for the strictest limit, or `None` if there is none.
    pub(super) fn new<'a>(
        decisions: impl Iterator<Item = Shown<'a>>,
        reset: Reset,
    ) -> Option<Self> {
        let limited = decisions.filter(|shown| shown.decision.limited());
        let limited = limited.filter(|shown| shown.policy.state().is_some());
        let decision = limited.reduce(stricter)?.decision;
        let quota = decision.figures()?;
        Some(Self {
            limit: quota.allowance().0,
            remaining: quota.remaining,
            reset: reset.of(decision),
        })
    }

    /// Puts the fields on a response, unless an inner layer has put some with as few remaining.
    pub(super) fn put_on(self, headers: &mut HeaderMap) {
        let theirs = headers.get(REMAINING).and_then(|value| value.to_str().ok());
        let theirs = theirs.and_then(|value| value.parse::<u32>().ok());
        if theirs.is_some_and(|theirs| theirs <= self.remaining) {
            return;
        }
        headers.insert(LIMIT, number(self.limit));
        headers.insert(REMAINING, number(self.remaining));
        match self.reset {
            Some(secs) => headers.insert(RESET, number(secs)),
            None => headers.remove(RESET),
        };
    }
}

impl Reset {
    /// Returns the reset, rounded up only once, so that it stays the same while the bucket is unused.
    fn of(self, decision: &Decision) -> Option<u64> {
        let after = decision.reset_after();
        let after = Some(after).filter(|after| *after != Decision::NEVER)?;
        let since = match self {
            Self::Epoch => Duration::from_micros(decision.decided_at()?.as_micros()),
            Self::Delta => Duration::ZERO,
        };
        Some(ceil_secs(since.saturating_add(after)))
    }
}

/// Returns the stricter limit. Limits without a vote are the least strict. Of equal ones, the first wins, as in a batch.
/// The room in a line counts, because requests that wait in it are not refused.
fn stricter<'a>(first: Shown<'a>, second: Shown<'a>) -> Shown<'a> {
    let votes = second.policy.votes().cmp(&first.policy.votes());
    let order = votes.then_with(|| second.decision.strictness_to_client(first.decision));
    if order.is_gt() { second } else { first }
}
