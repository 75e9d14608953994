use std::{fmt, time::Duration};

use http::{StatusCode, request::Parts};

use super::{
    denial::{CostExceeded, Denial},
    message::Message,
    refusal_id::RefusalId,
    retry_after,
};
use crate::{decision::Decision, key::MissingId, limit::Limits, limiter::LimiterError};

/// A refused request: everything that a [`ResponseFormat`](super::ResponseFormat) can show.
#[derive(Clone)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The HTTP status for the reason.
    pub status: StatusCode,
    /// The reason for the refusal.
    pub reason: Reason<'a>,
    /// The head of the request.
    pub request: &'a Parts,
    denials: &'a [Denial<'a>],
    /// The charges that could not be decided.
    pub(super) undecided: &'a [Denial<'a>],
    pub(super) id: Option<RefusalId>,
    wait: Option<Duration>,
}

/// The reason for a refusal. The [guide](crate::guide::responses) lists the status for each.
/// [`ResponseFormat`](super::ResponseFormat) has an example.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Reason<'a> {
    /// A limit is exhausted. If several are, this is the strictest.
    OverLimit(Denial<'a>),
    /// The client is blocked, by an [override](crate::Limit::BLOCKED) or for a time
    /// ([`Limiter::block`](crate::Limiter::block)).
    Blocked(Denial<'a>),
    /// The cost is higher than the limit can ever admit.
    TooCostly(CostExceeded<'a>),
    /// The client is on a deny list.
    Listed {
        /// The list's name.
        list: &'a str,
    },
    /// The request should have an id, but has none.
    NoId(&'a MissingId),
    /// The store does not answer.
    Unavailable,
    /// The rules do not fit the limits, which is logged.
    Misconfigured,
}

impl Reason<'_> {
    /// Returns the reason in the words of the metrics.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::OverLimit(_) => "over_limit",
            Self::Blocked(_) => "blocked",
            Self::TooCostly(_) => "too_costly",
            Self::Listed { .. } => "listed",
            Self::NoId(_) => "no_id",
            Self::Unavailable => "unavailable",
            Self::Misconfigured => "misconfigured",
        }
    }

    /// Returns the list, the reason for a missing id, or that of a block, for operators.
    pub(super) fn detail(&self) -> Option<&str> {
        match self {
            Self::Listed { list } => Some(list),
            Self::NoId(missing) => Some(missing.reason()),
            Self::Blocked(denial) => denial.block(),
            _ => None,
        }
    }
}

impl<'a> Refusal<'a> {
    pub(super) fn new(reason: Reason<'a>, request: &'a Parts) -> Self {
        let wait = match &reason {
            Reason::Unavailable => Some(Duration::from_secs(1)),
            _ => None,
        };
        Self {
            status: reason.status(),
            reason,
            request,
            denials: &[],
            undecided: &[],
            id: None,
            wait,
        }
    }

    /// Creates the refusal by all limits that deny. The strictest is the reason. Permits come back at an unknown time, so the
    /// client should wait `for_permits`.
    pub(super) fn denied(
        strictest: Denial<'a>,
        denials: &'a [Denial<'a>],
        request: &'a Parts,
        for_permits: Duration,
    ) -> Self {
        let own = strictest.wait(for_permits);
        let reason = Reason::denied(strictest, own);
        // A single denial is also the strictest one.
        let wait = match denials.len() {
            0 | 1 => own,
            _ => {
                let waits = denials.iter().map(|denial| denial.wait(for_permits));
                waits.fold(own, Duration::max)
            }
        };
        let ends = wait != Decision::NEVER && reason.can_end();
        Self {
            status: reason.status(),
            reason,
            request,
            denials,
            undecided: &[],
            id: None,
            wait: ends.then_some(wait),
        }
    }

    /// Lengthens the wait, if there is one.
    pub(super) fn delay(&mut self, by: Duration) {
        self.wait = self.wait.map(|wait| wait.saturating_add(by));
    }

    /// Returns the time that the client should wait, exact to a microsecond; `None` if waiting is pointless. It is the
    /// same on each call, and in gRPC's `RetryInfo`.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.wait
    }

    /// Returns [`retry_after`](Self::retry_after) in whole seconds, rounded up, at least 1, as in `Retry-After`.
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.wait.map(retry_after::seconds)
    }

    /// The reference of this refusal, if [`RateLimitLayer::refusal_ids`](crate::RateLimitLayer::refusal_ids) is on.
    #[must_use]
    pub fn id(&self) -> Option<RefusalId> {
        self.id
    }

    /// The denial by the strictest limit, if a limit is the reason.
    #[must_use]
    pub fn denial(&self) -> Option<&Denial<'a>> {
        match &self.reason {
            Reason::OverLimit(denial) | Reason::Blocked(denial) => Some(denial),
            _ => None,
        }
    }

    /// All limits that deny the request, in the order of the rules. `RateLimit` lists the same ones.
    #[must_use]
    pub fn denials(&self) -> impl ExactSizeIterator<Item = &Denial<'a>> {
        self.denials.iter()
    }

    /// The charges that deny the request, or could not be decided.
    pub(super) fn charged(&self) -> &'a [Denial<'a>] {
        match self.denials {
            [] => self.undecided,
            denials => denials,
        }
    }

    /// The link to the limit's documentation, if its name has one.
    #[must_use]
    pub fn docs(&self) -> Option<&'a str> {
        match &self.reason {
            Reason::OverLimit(denial) | Reason::Blocked(denial) => denial.docs,
            Reason::TooCostly(excess) => excess.docs,
            _ => None,
        }
    }

    /// The message for humans: one sentence without a full stop, such as `too many new orders (300 per 3h0m0s, 300 at
    /// once) from 12345678: retry in 36 s, see https://example.com/limits`.
    #[must_use]
    pub fn message(&self) -> String {
        let mut text = String::with_capacity(160);
        self.write_message(&mut text);
        text
    }

    pub(super) fn write_message(&self, message: &mut impl Message) {
        match &self.reason {
            Reason::OverLimit(denial) => {
                denial.write(message);
                match self.retry_after_secs() {
                    Some(secs) => {
                        message.words(": retry in ");
                        retry_after::write(secs, message);
                    }
                    None => message.words(": this limit admits no more requests"),
                }
            }
            Reason::Blocked(denial) => {
                denial.write(message);
                if let Some(secs) = self.retry_after_secs() {
                    message.words(", retry in ");
                    retry_after::write(secs, message);
                }
            }
            reason => message.text(&reason.message()),
        }
        if let Some(docs) = self.docs() {
            message.words(", see ");
            message.text(docs);
        }
    }
}

/// Leaves out the headers and the URI of the request, which can contain secrets.
impl fmt::Debug for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusal")
            .field("status", &self.status)
            .field("reason", &self.reason)
            .field("method", &self.request.method)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

impl<'a> Reason<'a> {
    /// A limit that denies, with the wait for it.
    fn denied(denial: Denial<'a>, wait: Duration) -> Self {
        if denial.decision.blocked() || denial.block().is_some() {
            return Self::Blocked(denial);
        }
        let never = wait == Decision::NEVER;
        match never.then(|| denial.exceeded()).flatten() {
            Some(most) => Self::TooCostly(CostExceeded::of(&denial, most)),
            None => Self::OverLimit(denial),
        }
    }

    /// Returns the reason for a request that could not be decided.
    pub(super) fn failed(error: &'a LimiterError, limits: &'a Limits) -> Self {
        match error {
            LimiterError::Backend(_) => Self::Unavailable,
            LimiterError::CostAboveBurst {
                limit, cost, burst, ..
            } => Self::TooCostly(CostExceeded::new(limits, limit, *cost, *burst)),
            _ => Self::Misconfigured,
        }
    }

    /// Returns whether the same request can pass later.
    fn can_end(&self) -> bool {
        match self {
            Self::OverLimit(_) => true,
            Self::Blocked(denial) => denial.block().is_some(),
            _ => false,
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::OverLimit(_) | Self::Blocked(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::TooCostly(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Listed { .. } => StatusCode::FORBIDDEN,
            Self::NoId(missing) => missing.status(),
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn message(&self) -> String {
        match self {
            Self::OverLimit(denial) | Self::Blocked(denial) => denial.to_string(),
            Self::TooCostly(excess) => excess.to_string(),
            Self::Listed { list } => format!("access is denied by the list `{list}`"),
            Self::NoId(missing) if missing.is_unknown_limit() => {
                "the server has chosen a limit that it does not have".into()
            }
            Self::NoId(missing) if missing.is_servers_fault() => {
                "the server cannot identify the client".into()
            }
            Self::NoId(missing) => missing.reason().into(),
            Self::Unavailable => "the rate limit cannot be checked right now".into(),
            Self::Misconfigured => "the rate limit is misconfigured".into(),
        }
    }
}
