use std::{borrow::Cow, cmp::Reverse, fmt, time::Duration};

use http::{StatusCode, request::Parts};

use crate::{
    batch::{Member, OwnedMember},
    decision::{Decision, ceil_secs},
    id::{Id, redacted},
    key::MissingId,
    limit::Limit,
    limiter::{DenialText, LimiterError, NotAdmitted, NotAdmittedBy, wait_in_words},
    random,
};

/// The time after which a client should come back if no better one is known: if the store does not answer, or for a permit.
const SOON: Duration = Duration::from_secs(1);

/// Registered types of problem documents, with their titles.
const QUOTA: Option<(&str, &str)> = Some((
    "https://iana.org/assignments/http-problem-types#quota-exceeded",
    "Quota Exceeded",
));
const ABNORMAL: Option<(&str, &str)> = Some((
    "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
    "Abnormal Usage Detected",
));
const REDUCED: Option<(&str, &str)> = Some((
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
    "Temporary Reduced Capacity",
));
/// Types of ACME.
const LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";
const MALFORMED: &str = "urn:ietf:params:acme:error:malformed";
const UNAUTHORIZED: &str = "urn:ietf:params:acme:error:unauthorized";
const INTERNAL: &str = "urn:ietf:params:acme:error:serverInternal";

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
    /// The reference: twelve random letters and digits, such as `4zk9w2m7q1xd`, by which an operator finds the
    /// [event](crate::guide::why_denied) of the refusal. It is not a secret, and allows nothing.
    pub id: String,
    /// The limits that deny the request or, for other reasons, could not be decided.
    pub(super) limits: Vec<Denial<'a>>,
    pub(super) wait: Option<Duration>,
}

/// The reason for a refusal. The [guide](crate::guide::responses) lists the status for each.
/// [`ResponseFormat`](super::ResponseFormat) has an example.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Reason<'a> {
    /// A limit is exhausted.
    OverLimit,
    /// The client is blocked, by an [override](crate::Limit::BLOCKED) or for a time
    /// ([`Limiter::block`](crate::Limiter::block)).
    Blocked,
    /// The cost is higher than the limit can ever admit.
    TooCostly {
        /// The most that passes at once.
        most: u32,
    },
    /// The client is on a deny list.
    Listed {
        /// The list's name.
        list: &'a str,
    },
    /// The request should have an id, but has none.
    NoId(&'a MissingId),
    /// The store did not answer.
    Unavailable,
    /// The rules do not fit the limits, which is logged.
    Misconfigured,
}

/// A limit that refuses a request. [`ResponseFormat`](super::ResponseFormat) has an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Denial<'a> {
    /// The limit's name.
    pub limit: &'a str,
    /// The id of the client, or `None` if requests without an id share a bucket. It can be a
    /// [secret](Id::secret): show people [`client`](Self::client) instead.
    pub id: Option<Id>,
    /// The cost of the request.
    pub cost: u32,
    /// The description of the limit, if its name has one.
    pub description: Option<&'a str>,
    /// The link to documentation for clients, if the limit's name has one.
    pub docs: Option<&'a str>,
    /// The decision on the limit.
    pub decision: &'a Decision,
    pub(super) member: &'a Member<'a>,
}

/// The names and codes of a reason in the protocols and the metrics.
pub(super) struct RefusalCodes {
    /// In metrics and events.
    pub(super) name: &'static str,
    status: StatusCode,
    pub(super) grpc: i32,
    /// The registered type of a problem document, and its title.
    pub(super) problem: Option<(&'static str, &'static str)>,
    pub(super) acme: &'static str,
    pub(super) registry: &'static str,
}

impl Reason<'_> {
    pub(super) fn codes(&self) -> RefusalCodes {
        let (name, status, grpc, problem, acme, registry) = match self {
            Self::OverLimit => ("over_limit", 429, 8, QUOTA, LIMITED, "TOOMANYREQUESTS"),
            Self::Blocked => ("blocked", 429, 8, ABNORMAL, LIMITED, "TOOMANYREQUESTS"),
            Self::TooCostly { .. } => ("too_costly", 413, 8, None, MALFORMED, "TOOCOSTLY"),
            Self::Listed { .. } => ("listed", 403, 7, None, UNAUTHORIZED, "DENIED"),
            Self::NoId(missing) => match missing.status().as_u16() {
                400 => ("no_id", 400, 3, None, MALFORMED, "BADREQUEST"),
                401 => ("no_id", 401, 16, None, MALFORMED, "UNAUTHORIZED"),
                _ => ("no_id", 500, 13, None, INTERNAL, "INTERNAL"),
            },
            Self::Unavailable => ("unavailable", 503, 14, REDUCED, INTERNAL, "UNAVAILABLE"),
            Self::Misconfigured => ("misconfigured", 500, 13, None, INTERNAL, "INTERNAL"),
        };
        RefusalCodes {
            name,
            status: StatusCode::from_u16(status).expect("these are known"),
            grpc,
            problem,
            acme,
            registry,
        }
    }
}

impl<'a> Refusal<'a> {
    pub(crate) fn new(request: &'a Parts, reason: Reason<'a>) -> Self {
        let wait = matches!(reason, Reason::Unavailable).then_some(SOON);
        Self {
            status: reason.codes().status,
            reason,
            request,
            id: reference(),
            limits: Vec::new(),
            wait,
        }
    }

    /// Creates the refusal of a request by the limits that deny it.
    pub(crate) fn denied(
        request: &'a Parts,
        decided: impl Iterator<Item = (&'a Member<'a>, &'a Decision)>,
    ) -> Self {
        let denying = decided.filter(|(_, decision)| decision.denies());
        let mut denials: Vec<_> = denying
            .map(|(member, decision)| Denial::new(member, decision))
            .collect();
        // The sort is stable, so equal denials stay in the order of their rules.
        denials.sort_by_key(|denial| Reverse(denial.decision.strictness()));
        let waits = denials.iter().map(Denial::wait);
        let wait = waits.reduce(|one, other| Some(one?.max(other?))).flatten();
        let reason = denials.first().map_or(Reason::OverLimit, Denial::reason);
        Self {
            limits: denials,
            wait,
            ..Self::new(request, reason)
        }
    }

    /// Creates the refusal of a request that could not be decided.
    pub(crate) fn failed(
        request: &'a Parts,
        error: &LimiterError,
        members: &'a [Member<'a>],
    ) -> Self {
        let undecided = |member| Denial::new(member, const { &Decision::NOT_LIMITED });
        let mut limits: Vec<_> = members.iter().map(undecided).collect();
        let reason = match error {
            LimiterError::Backend(_) => Reason::Unavailable,
            LimiterError::CostAboveBurst { limit, cost, burst } => {
                limits.retain(|denial| denial.limit == limit && denial.cost == *cost);
                Reason::TooCostly { most: *burst }
            }
            _ => Reason::Misconfigured,
        };
        Self {
            limits,
            ..Self::new(request, reason)
        }
    }

    /// Returns the time that the client should wait, exact to the microsecond; `None` if waiting does not help. It is the same on
    /// each call, and the same as in gRPC's `RetryInfo`.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.wait
    }

    /// Returns [`retry_after`](Self::retry_after) in whole seconds, rounded up, at least 1, as in `Retry-After`.
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        // With 0, clients would send the next request at once.
        self.wait.map(|wait| ceil_secs(wait).max(1))
    }

    /// All limits that deny the request, the strictest first. For a cost that can never pass, the limit that it exceeds.
    #[must_use]
    pub fn denials(&self) -> &[Denial<'a>] {
        match self.reason {
            Reason::OverLimit | Reason::Blocked | Reason::TooCostly { .. } => &self.limits,
            _ => &[],
        }
    }

    /// Returns the link to documentation of the limit that is the reason.
    pub(super) fn docs(&self) -> Option<&'a str> {
        self.denials().first()?.docs
    }

    /// The message for humans: one sentence without a full stop, such as `too many new orders (300 per 3 hours, 300 at
    /// once) from 12345678: retry in 36 s, see https://example.com/limits`.
    #[must_use]
    pub fn message(&self) -> String {
        let wait = self.retry_after_secs().map(wait_in_words);
        let mut message = match (&self.reason, self.limits.first()) {
            (Reason::OverLimit | Reason::Blocked, Some(denial)) => match (wait, self.reason) {
                (Some(wait), _) => format!("{denial}: retry in {wait}"),
                (None, Reason::Blocked) => denial.to_string(),
                (None, _) => format!("{denial}: this limit admits no more requests"),
            },
            (Reason::TooCostly { most }, Some(denial)) => format!(
                "the request costs {}, and limit `{}` admits at most {most} at once",
                denial.cost, denial.limit
            ),
            (Reason::Listed { list }, _) => format!("access is denied by the list `{list}`"),
            (Reason::NoId(missing), _) => missing.reason_for_clients().into(),
            (Reason::Unavailable, _) => "the rate limit cannot be checked right now".into(),
            _ => "the rate limit is misconfigured".into(),
        };
        if let Some(docs) = self.docs() {
            message.push_str(", see ");
            message.push_str(docs);
        }
        message
    }
}

impl NotAdmitted {
    /// Creates the refusal of a request by a handler's own limit, and answers with it.
    pub(crate) fn refused<T>(&self, request: &Parts, answer: impl FnOnce(Refusal<'_>) -> T) -> T {
        match &*self.0 {
            NotAdmittedBy::Limit { client, decision } => {
                let decided = [(&client.as_member(), decision)];
                answer(Refusal::denied(request, decided.into_iter()))
            }
            NotAdmittedBy::Error {
                error: LimiterError::InvalidId { source, .. },
                ..
            } => {
                let missing = MissingId::client(source.to_string());
                answer(Refusal::new(request, Reason::NoId(&missing)))
            }
            NotAdmittedBy::Error { client, error } => {
                let member = client.as_ref().map(OwnedMember::as_member);
                answer(Refusal::failed(request, error, member.as_slice()))
            }
        }
    }
}

/// Returns the reference of a refusal. Among a thousand million refusals, two have the same reference with a probability of 0.35.
fn reference() -> String {
    // Crockford's base 32, without I, L, O and U, which people misread.
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let random = random::number();
    let digits = (0..12).map(|digit| DIGITS[(random >> (5 * digit) & 31) as usize]);
    digits.map(char::from).collect()
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

impl<'a> Denial<'a> {
    fn new(member: &'a Member<'a>, decision: &'a Decision) -> Self {
        Self {
            limit: member.limit.name(),
            id: member.client(),
            cost: member.ask.cost,
            description: member.limit.description(),
            docs: member.limit.docs(),
            decision,
            member,
        }
    }

    /// The client, as a text for people: its id or, if that is a [secret](Id::secret), a hash of it. `None` if requests
    /// without an id share the bucket.
    #[must_use]
    pub fn client(&self) -> Option<Cow<'_, str>> {
        self.id.as_ref().map(Id::shown)
    }

    /// Returns the client for events: a hash of its id if that is a secret, or too long, or if the limit has no ids in events.
    pub(super) fn client_in_events(&self) -> Option<Cow<'_, str>> {
        const LONGEST: usize = 128;
        let id = self.id.as_ref()?;
        let is_hidden = self.member.is_hidden() || id.as_str().len() > LONGEST;
        Some(if is_hidden {
            redacted(id.as_str()).into()
        } else {
            id.shown()
        })
    }

    /// Returns the reason of a block, if the limit is a list of blocked clients. It is the description of the list.
    pub(super) fn block(&self) -> Option<&'a str> {
        self.member.block_reason()
    }

    fn reason(&self) -> Reason<'static> {
        let is_blocked = self.member.limit.is_block() || self.decision.blocked();
        let most = self.member.by.and_then(Limit::max_cost);
        match most.filter(|most| self.cost > *most) {
            _ if is_blocked => Reason::Blocked,
            // Only tiers have such a most.
            Some(most) => Reason::TooCostly { most },
            None => Reason::OverLimit,
        }
    }

    /// Returns the time until the limit would admit the request; `None` if it never will.
    fn wait(&self) -> Option<Duration> {
        match self.decision.retry_after() {
            // It is not known when a permit comes back.
            None if self.decision.has_permits() => Some(SOON),
            wait => wait,
        }
    }
}

impl fmt::Display for Denial<'_> {
    /// Writes `too many new orders (300 per 3 hours, 300 at once) from 12345678` or, for a limit without a description,
    /// ``limit `free` exceeded (1000 per calendar month) from alice``.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DenialText::new(self.member, self.decision).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_place_of_a_reference_has_all_digits() {
        let references: Vec<_> = (0..2000).map(|_| reference()).collect();
        for place in 0..12 {
            let digits: HashSet<_> = references
                .iter()
                .map(|reference| reference.as_bytes()[place])
                .collect();
            assert_eq!(digits.len(), 32, "place {place}");
        }
    }
}
