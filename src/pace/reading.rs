//! The rate limit in a response.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};

use super::{
    field::{Left, RetryAdvice, date, retry_after, single, whole},
    figures::{self, Figure, PolicyFigures},
    grpc, x_ratelimit,
};

/// The wait after a refusal without a time to wait for.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);

/// The values of one response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    refusal: Option<RetryAdvice>,
    /// The number of requests that the server still accepts, if the response has it.
    pub(super) remaining: Option<u64>,
    /// Whether the number is that of the time when a cache stored the response.
    pub(super) is_outdated: bool,
    /// The time until there is room again, if there is none now.
    pub(super) wait: Option<Duration>,
    /// What the response says of each policy whose figures are exact.
    pub(super) policies: Vec<Figure>,
    /// Whether the figures and the remaining number say the same, so that one of them counts.
    are_alternatives: bool,
}

impl Reading {
    /// Reads the head of a response that arrived at `now`.
    pub(super) fn of(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Self {
        let now = date(headers, &header::DATE).unwrap_or(now);
        let PolicyFigures {
            mut policies,
            others,
            are_alternatives,
        } = figures::read(headers)
            .or_else(|| x_ratelimit::read(headers, now))
            .unwrap_or_default();
        let has_figures = others.is_some() || !policies.is_empty();
        let is_outdated = has_figures && is_stored(headers);
        if is_outdated {
            policies.clear();
        }
        let left = others.filter(|_| !is_outdated);
        let refusal = grpc::refusal(headers, now).or_else(|| http_refusal(status, headers, now));
        let (remaining, wait) = match refusal {
            Some(RetryAdvice::Later(said)) => after_refusal(said, left, &policies),
            // A final refusal concerns this request only.
            Some(_) => (left.map(|left| left.remaining), None),
            None => (
                left.map(|left| left.remaining),
                left.and_then(|left| left.wait),
            ),
        };
        Self {
            refusal,
            remaining,
            is_outdated,
            wait,
            policies,
            are_alternatives,
        }
    }

    /// Reads gRPC's trailers, if they refuse a call that had begun.
    pub(super) fn of_trailers(trailers: &HeaderMap, now: SystemTime) -> Option<Self> {
        match grpc::refusal(trailers, now)? {
            RetryAdvice::Later(wait) => Some(Self {
                remaining: Some(0),
                wait: Some(wait_after_refusal(wait, None)),
                ..Self::default()
            }),
            RetryAdvice::Final => None,
        }
    }

    /// Chooses between the figures and the remaining number.
    pub(super) fn choose(&mut self, follows: impl Fn(&Figure) -> bool) {
        if !self.are_alternatives {
            return;
        }
        self.policies.retain(follows);
        if !self.policies.is_empty() && self.refusal.is_none() {
            (self.remaining, self.wait) = (None, None);
        }
    }

    /// Returns whether the request was refused.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Returns whether the request was refused, and can pass later.
    pub(super) fn asks_to_retry(&self) -> bool {
        matches!(self.refusal, Some(RetryAdvice::Later(_)))
    }
}

/// Returns what remains after a refusal, and for how long. Exact figures of the policies that deny count instead of whole seconds,
/// unless these ask for a longer wait.
fn after_refusal(
    said: Option<Duration>,
    left: Option<Left>,
    policies: &[Figure],
) -> (Option<u64>, Option<Duration>) {
    let exhausted = policies.iter().filter(|figure| figure.denies());
    let exact = exhausted
        .map(Figure::longest_wait)
        .collect::<Option<Vec<_>>>();
    let exact = exact.and_then(|waits| waits.into_iter().max());
    let most = exact.map(|exact| Duration::from_secs(exact.as_secs() + 1));
    match most {
        Some(most) if left.is_none() && said.is_none_or(|said| said <= most) => (None, None),
        _ => {
            let until_room = left.and_then(|left| left.wait);
            (Some(0), Some(wait_after_refusal(said, until_room)))
        }
    }
}

/// Returns the wait after a refusal: what it says, or the time until the fields show room again. A refusal that says to retry
/// at once, or names a date in the past, waits for the default. Otherwise, retries would be sent in a loop.
fn wait_after_refusal(said: Option<Duration>, until_room: Option<Duration>) -> Duration {
    let mut waits = [said, until_room].into_iter().flatten();
    waits.find(|wait| !wait.is_zero()).unwrap_or(DEFAULT_WAIT)
}

/// Returns whether the response comes from a cache, so that its figures are outdated.
fn is_stored(headers: &HeaderMap) -> bool {
    single(headers, &header::AGE)
        .and_then(whole)
        .is_some_and(|age| age > 0)
}

/// Returns the refusal of a 429, or of a 503 with a time. Other failures are not about rates.
fn http_refusal(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Option<RetryAdvice> {
    let wait = retry_after(headers, now);
    match status {
        StatusCode::TOO_MANY_REQUESTS => Some(RetryAdvice::Later(wait)),
        StatusCode::SERVICE_UNAVAILABLE => wait.map(|wait| RetryAdvice::Later(Some(wait))),
        _ => None,
    }
}
