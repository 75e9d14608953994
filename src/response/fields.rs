//! The fields that show how much is left.

use std::{mem, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::policy::{DecidedCharges, value};
use crate::{clock::Timestamp, decision::ceil_secs};

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Selects the headers that show how much is left. The [module docs](super) have an example.
///
/// Limits in shadow mode are never shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Headers {
    /// `RateLimit` and `RateLimit-Policy` of [draft-ietf-httpapi-ratelimit-headers-11], for all limits.
    ///
    /// [draft-ietf-httpapi-ratelimit-headers-11]:
    ///     https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-11
    #[default]
    Draft11,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset` for the strictest limit. The reset is in seconds since the Unix epoch.
    XRateLimitEpoch,
    /// The fields of [`XRateLimitEpoch`](Self::XRateLimitEpoch), with the reset in seconds from now.
    XRateLimitDelta,
    /// No headers.
    None,
}

/// The fields that a layer adds to a response.
#[derive(Debug, Default)]
pub(crate) struct ResponseFields {
    policy: Option<HeaderValue>,
    state: Option<HeaderValue>,
    x: Option<Box<XRateLimit>>,
}

impl Headers {
    /// The names of the headers that a browser must be allowed to read, for `expose_headers` of tower-http's
    /// `CorsLayer`. The [guide](crate::guide::responses#cors) has an example.
    #[must_use]
    pub fn exposed(self) -> Vec<HeaderName> {
        let fields: &[HeaderName] = match self {
            Self::Draft11 => &[RATELIMIT, RATELIMIT_POLICY],
            Self::XRateLimitEpoch | Self::XRateLimitDelta => &[X_LIMIT, X_REMAINING, X_RESET],
            Self::None => &[],
        };
        let ours = [header::RETRY_AFTER, header::LINK];
        fields.iter().cloned().chain(ours).collect()
    }

    /// Writes the fields. They are passed by reference, because moving them takes time.
    #[inline]
    pub(crate) fn write(
        self,
        decided: DecidedCharges<'_>,
        now: impl FnOnce() -> Timestamp,
        fields: &mut ResponseFields,
    ) {
        match self {
            Self::None => {}
            Self::Draft11 => {
                state(decided, &mut fields.state);
                fields.policy = decided.in_force.policy(decided);
            }
            Self::XRateLimitEpoch => fields.x = XRateLimit::new(decided, Some(now())),
            Self::XRateLimitDelta => fields.x = XRateLimit::new(decided, None),
        }
    }
}

impl ResponseFields {
    /// Adds the fields to those of inner layers. A field that can occur only once shows the layer that has less left.
    // Not inlined, so that the caller can be. Otherwise, the response is copied twice.
    #[inline(never)]
    pub(crate) fn add_to(&mut self, headers: &mut HeaderMap) {
        if let Some(policy) = self.policy.take() {
            headers.append(RATELIMIT_POLICY, policy);
        }
        if let Some(state) = self.state.take() {
            headers.append(RATELIMIT, state);
        }
        if let Some(x) = self.x.take() {
            x.add_to(headers);
        }
    }
}

/// The most bytes of an item of `RateLimit`, apart from its lead: a separator, two numbers, and the name of a parameter.
const FIGURES: usize = 2 + 10 + ";t=".len() + 20;
/// The longest list that is written on the stack, such as that of four limits with short names.
const SHORT: usize = 256;

/// Writes `RateLimit`, which lists the limits that deny a request or, if none does, all of them.
#[inline]
fn state(decided: DecidedCharges<'_>, field: &mut Option<HeaderValue>) {
    let is_denied = decided.is_denied();
    let listed = || {
        let mut shown = decided.shown();
        std::iter::from_fn(move || shown.find(|(_, decision)| !is_denied || decision.denies()))
    };
    let room = listed().map(|(member, _)| member.limit.lead().len() + FIGURES);
    let room = room.sum();
    let mut short = [0; SHORT];
    let mut long = Vec::new();
    let list = match short.get_mut(..room) {
        Some(short) => short,
        None => {
            long.resize(room, 0);
            &mut long[..]
        }
    };
    let mut rest = &mut *list;
    for (index, (member, decision)) in listed().enumerate() {
        if index > 0 {
            push(&mut rest, b", ");
        }
        push(&mut rest, member.limit.lead().as_bytes());
        push_number(&mut rest, decision.remaining().unwrap_or_default().into());
        if let Some(wait) = decision.more_after().filter(|wait| !wait.is_zero()) {
            push(&mut rest, b";t=");
            push_number(&mut rest, ceil_secs(wait));
        }
    }
    let len = room - rest.len();
    if len > 0 {
        *field = Some(value(&list[..len]));
    }
}

/// Writes a text at the beginning of a buffer that has room for it.
#[inline]
fn push(rest: &mut &mut [u8], text: &[u8]) {
    let (front, behind) = mem::take(rest).split_at_mut(text.len());
    front.copy_from_slice(text);
    *rest = behind;
}

#[inline]
fn push_number(rest: &mut &mut [u8], number: u64) {
    push(rest, itoa::Buffer::new().format(number).as_bytes());
}

/// The three fields of one limit.
#[derive(Debug)]
struct XRateLimit {
    limit: u32,
    remaining: u32,
    /// `None` if it is not known when the bucket is full, or if it never is.
    reset: Option<u64>,
}

impl XRateLimit {
    /// Creates the fields of the strictest limit. With `now`, the reset counts from 1970, and otherwise from the present.
    fn new(decided: DecidedCharges<'_>, now: Option<Timestamp>) -> Option<Box<Self>> {
        let (member, decision) = decided.strictest()?;
        let limit = member.by?;
        let since = now.map_or(Duration::ZERO, |now| Duration::from_micros(now.as_micros()));
        // Rounded once, so that it stays the same while the bucket is not used.
        let reset = decision
            .reset_after()
            .map(|after| ceil_secs(since.saturating_add(after)));
        Some(Box::new(Self {
            limit: limit.max_cost().unwrap_or_default(),
            remaining: decision.remaining()?,
            reset,
        }))
    }

    fn add_to(self, headers: &mut HeaderMap) {
        let theirs = headers
            .get(X_REMAINING)
            .and_then(|value| value.to_str().ok());
        let theirs = theirs.and_then(|value| value.parse::<u32>().ok());
        if theirs.is_some_and(|theirs| theirs <= self.remaining) {
            return;
        }
        headers.insert(X_LIMIT, self.limit.into());
        headers.insert(X_REMAINING, self.remaining.into());
        match self.reset {
            Some(reset) => headers.insert(X_RESET, reset.into()),
            None => headers.remove(X_RESET),
        };
    }
}
