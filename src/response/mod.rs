//! Responses: how refusals look, and which headers show what is left.
//!
//! ```
//! use tollgate::{ClientIp, Limit, RateLimitLayer, response::{Headers, PlainText}};
//!
//! let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer())
//!     .respond_with(PlainText)
//!     .headers(Headers::XRateLimitDelta);
//! # let _ = layer;
//! ```
//!
//! The [guide](crate::guide::responses) lists statuses, formats and fields, for HTTP and gRPC.

mod accept;
#[cfg(feature = "axum")]
mod any_response;
mod denial;
mod grpc;
mod headers;
mod jitter;
mod plain_text;
mod problem;
mod refusal;
mod registry;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use tracing::Span;

pub use self::{
    denial::{Denial, Excess},
    grpc::Grpc,
    headers::Headers,
    plain_text::PlainText,
    problem::Problem,
    refusal::{Reason, Refusal},
    registry::Registry,
};
pub(crate) use self::{
    headers::{Fields, Policy, Shown},
    refusal::Denials,
};
use crate::{key::Missing, limit::Limits, limiter::LimiterError, metrics, rule::Refused};

/// Builds the response to a refused request that is not gRPC.
///
/// A format chooses the status, the content type and the body. The layer then adds these headers, unless the format
/// has set them: `Retry-After` if there is a wait, `Link` if the limit has documentation, and `Cache-Control:
/// no-store`. The fields of [`Headers`] follow.
///
/// It runs for every refused request, which can be many during an attack. It should neither block nor do much work,
/// and must not panic.
///
/// A closure is a format:
///
/// ```
/// use bytes::Bytes;
/// use tollgate::{ClientIp, Limit, RateLimitLayer, response::{Reason, Refusal}};
///
/// let limited = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer());
/// let layer = limited.respond_with(|refusal: &Refusal<'_>| {
///     let advice = match (&refusal.reason, refusal.retry_after_secs()) {
///         (Reason::OverLimit(_), Some(secs)) => format!("slow down for {secs} s\n"),
///         (Reason::OverLimit(_) | Reason::Blocked(_), _) => "not today\n".into(),
///         _ => refusal.message(),
///     };
///     let mut response = http::Response::new(Bytes::from(advice));
///     *response.status_mut() = refusal.status;
///     response
/// });
/// # let _ = layer;
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how refusals look",
    note = "a closure does: `|refusal: &Refusal<'_>| -> http::Response<Bytes> {{ .. }}`",
    note = "see `tollgate::response` for ready ones, such as `Problem::new()`"
)]
pub trait ResponseFormat: Send + Sync + 'static {
    /// Builds the response.
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes>;

    /// The media type of its responses. If this returns `Some`, a client whose `Accept` prefers a problem document or
    /// plain text gets that instead.
    fn media_type(&self) -> Option<&'static str> {
        None
    }
}

impl<F> ResponseFormat for F
where
    F: Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync + 'static,
{
    fn respond(&self, refusal: &Refusal<'_>) -> Response<Bytes> {
        self(refusal)
    }
}

/// The argument of [`RateLimitLayer::respond_with`](crate::RateLimitLayer::respond_with): a [`ResponseFormat`] or,
/// with the feature `axum`, a closure that returns anything that implements `IntoResponse`.
///
/// `Kind` only tells these apart. You never need to write it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how refusals look",
    note = "a closure does: `|refusal: &Refusal<'_>| -> http::Response<Bytes> {{ .. }}`",
    note = "with the feature `axum`, it may return anything that implements `IntoResponse`",
    note = "see `tollgate::response` for ready ones, such as `Problem::new()`"
)]
pub trait IntoFormat<Kind> {
    /// Converts it into a format.
    fn into_format(self) -> impl ResponseFormat;
}

/// Says that it is a format as it is.
#[doc(hidden)]
#[derive(Debug)]
pub struct AsItIs;

impl<F: ResponseFormat> IntoFormat<AsItIs> for F {
    fn into_format(self) -> impl ResponseFormat {
        self
    }
}

/// Builds a layer's responses.
#[derive(Clone)]
pub(crate) struct Responder {
    pub(crate) format: Arc<dyn ResponseFormat>,
    pub(crate) grpc: Grpc,
    pub(crate) jitter: Duration,
}

impl Responder {
    /// The response to a request that limits deny.
    pub(crate) fn denied<'a>(
        &self,
        request: &'a Parts,
        strictest: Denial<'a>,
        denials: Denials<'a>,
    ) -> Response<Bytes> {
        self.respond(Refusal::denied(strictest, denials, request))
    }

    /// The response to a request that should have an id and has none.
    pub(crate) fn missing(&self, request: &Parts, missing: &Missing) -> Response<Bytes> {
        self.refused(request, Reason::NoId(missing))
    }

    /// The response to a request that could not be decided.
    pub(crate) fn failed(
        &self,
        request: &Parts,
        error: &LimiterError,
        limits: &Limits,
    ) -> Response<Bytes> {
        self.refused(request, Reason::failed(error, limits))
    }

    /// The response to a request that is refused for a reason that is no limit.
    pub(crate) fn refused<'a>(&self, request: &'a Parts, reason: Reason<'a>) -> Response<Bytes> {
        self.respond(Refusal::new(reason, request))
    }

    /// The format that the client likes best of those that there are.
    fn format_for(&self, request: &Parts) -> &dyn ResponseFormat {
        const PROBLEM: &Problem = &Problem::new();
        let Some(own) = self.format.media_type() else {
            return &*self.format;
        };
        let types = [own, problem::MEDIA_TYPE, plain_text::MEDIA_TYPE];
        match accept::preferred(&request.headers, &types) {
            0 => &*self.format,
            1 => PROBLEM,
            _ => &PlainText,
        }
    }

    fn respond(&self, mut refusal: Refusal<'_>) -> Response<Bytes> {
        let reason = refusal.reason.as_str();
        metrics::refused(reason);
        Span::current().record("rate_limiting.refusal", reason);
        if !self.jitter.is_zero() {
            refusal.delay(jitter::varied(self.jitter));
        }
        let is_grpc = self.grpc.is(refusal.request);
        let mut response = match is_grpc {
            true => grpc::refused(&refusal),
            false => self.format_for(refusal.request).respond(&refusal),
        };
        if is_grpc {
            response.extensions_mut().insert(Refused(refusal.status));
        }
        let headers = response.headers_mut();
        if let Some(secs) = refusal.retry_after_secs() {
            headers
                .entry(header::RETRY_AFTER)
                .or_insert_with(|| decimal(secs));
        }
        if let Reason::NoId(missing) = &refusal.reason
            && let Some(challenge) = missing.challenge().filter(|_| !is_grpc)
        {
            headers
                .entry(header::WWW_AUTHENTICATE)
                .or_insert_with(|| challenge.clone());
        }
        if let Some(link) = refusal.docs().filter(|_| !is_grpc).and_then(help) {
            headers.entry(header::LINK).or_insert(link);
        }
        headers.entry(header::CACHE_CONTROL).or_insert(NO_STORE);
        response
    }
}

impl Default for Responder {
    fn default() -> Self {
        Self {
            format: Arc::new(Problem::new()),
            grpc: Grpc::default(),
            jitter: Duration::ZERO,
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("grpc", &self.grpc)
            .field("jitter", &self.jitter)
            .finish_non_exhaustive()
    }
}

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A link to where clients can read about a limit.
fn help(docs: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("<{docs}>;rel=\"help\"")).ok()
}

fn respond(status: StatusCode, content_type: HeaderValue, body: Bytes) -> Response<Bytes> {
    // For Content-Type, Retry-After, Link, Cache-Control and the two fields of the limits. One more would take a table of
    // twice the size.
    let mut headers = HeaderMap::with_capacity(6);
    headers.insert(header::CONTENT_TYPE, content_type);
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A number, in one allocation of its size.
fn decimal(number: u64) -> HeaderValue {
    let digits = HeaderValue::from_str(itoa::Buffer::new().format(number));
    digits.expect("digits are ASCII")
}

fn ceil_secs(duration: Duration) -> u64 {
    duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_nanos() > 0))
}
