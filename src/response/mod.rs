//! What the client sees: the one place where responses are built and headers written.
//!
//! | | status | body | headers |
//! |---|---|---|---|
//! | denied | 429 | the container registry's JSON | `Retry-After`, `Cache-Control: no-store` |
//! | denied, gRPC | 200 with `grpc-status: 8` | – | `grpc-message`, `Retry-After` |
//! | no id | 400 or 500 | JSON with the reason | |
//! | backend unavailable | 503 | JSON | `Retry-After: 1` |
//! | anything that a limit was decided for | | | `RateLimit`, `RateLimit-Policy` |
//!
//! Requests are gRPC by their content type. They get a trailers-only response, because a gRPC client
//! takes a bare 429 for `UNAVAILABLE` and tries again at once.
//!
//! The `RateLimit` fields are those of [draft-ietf-httpapi-ratelimit-headers-10]:
//! `RateLimit-Policy: "requests";q=20;w=2` says that 20 pass at once, and that an empty bucket takes
//! 2 seconds to fill; `RateLimit: "requests";r=19;t=1` that 19 are left, and that there is one more
//! within a second. In a denial, `RateLimit` names the limits that deny.
//!
//! [draft-ietf-httpapi-ratelimit-headers-10]:
//!     https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10

mod fields;
mod grpc;
mod registry;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};

pub(crate) use self::fields::{Fields, Policy, Shown};
use crate::{decision::Decision, key::Missing, limiter::LimiterError};

/// A request that is refused because a limit is exhausted.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Denial<'a> {
    /// The limit's name.
    pub limit: &'a str,
    /// Whose bucket it is.
    pub id: &'a str,
    /// The decision on it, the strictest of all that the request met.
    pub decision: &'a Decision,
    /// The head of the request.
    pub request: &'a Parts,
}

impl Denial<'_> {
    /// How long the client should wait, in whole seconds, rounded up and at least 1; `None` if it waits in vain.
    #[must_use]
    pub fn retry_after_secs(&self) -> Option<u64> {
        let wait = self.decision.retry_after();
        let next_token = self.decision.next_token_after();
        let wait = match self.decision.has_tiers() {
            true => wait,
            false => wait.max(next_token.unwrap_or_default()),
        };
        (wait != Decision::NEVER).then(|| ceil_secs(wait).max(1))
    }
}

type Format = dyn Fn(&Denial<'_>) -> Response<Bytes> + Send + Sync;

/// Builds a layer's responses.
#[derive(Clone, Default)]
pub(crate) struct Responder {
    format: Option<Arc<Format>>,
}

impl Responder {
    pub(crate) fn custom(format: Arc<Format>) -> Self {
        Self {
            format: Some(format),
        }
    }

    /// The response to a request that is over a limit.
    pub(crate) fn denied(&self, denial: &Denial<'_>) -> Response<Bytes> {
        let mut response = match &self.format {
            _ if grpc::is_grpc(denial.request) => grpc::denied(denial),
            Some(format) => format(denial),
            None => registry::denied(denial),
        };
        let headers = response.headers_mut();
        if let Some(secs) = denial.retry_after_secs() {
            headers.entry(header::RETRY_AFTER).or_insert(secs.into());
        }
        headers.entry(header::CACHE_CONTROL).or_insert(NO_STORE);
        response
    }

    /// The response to a request that should have an id and has none.
    pub(crate) fn missing(request: &Parts, missing: &Missing) -> Response<Bytes> {
        let refusal = if missing.is_servers_fault() {
            Refusal::internal("the server cannot tell who is asking")
        } else {
            Refusal {
                status: StatusCode::BAD_REQUEST,
                message: missing.reason(),
            }
        };
        refusal.respond(request)
    }

    /// The response to a request that could not be decided.
    pub(crate) fn failed(request: &Parts, error: &LimiterError) -> Response<Bytes> {
        match error {
            LimiterError::Backend(_) => {
                let message = "the rate limit cannot be checked right now";
                let refusal = Refusal {
                    status: StatusCode::SERVICE_UNAVAILABLE,
                    message,
                };
                let mut response = refusal.respond(request);
                response
                    .headers_mut()
                    .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
                response
            }
            _ => Refusal::internal("the rate limit is not set up rightly").respond(request),
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = if self.format.is_some() {
            "custom"
        } else {
            "registry"
        };
        f.debug_struct("Responder")
            .field("format", &format)
            .finish()
    }
}

/// A response to a request that was refused without a decision.
struct Refusal<'a> {
    status: StatusCode,
    message: &'a str,
}

impl<'a> Refusal<'a> {
    fn internal(message: &'a str) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message,
        }
    }

    fn respond(&self, request: &Parts) -> Response<Bytes> {
        let mut response = match grpc::is_grpc(request) {
            true => grpc::refused(self),
            false => registry::refused(self),
        };
        response
            .headers_mut()
            .insert(header::CACHE_CONTROL, NO_STORE);
        response
    }
}

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn ceil_secs(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
