use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, header, request::Parts};
use tracing::Span;

use super::{
    accept,
    denial::Denial,
    format::ResponseFormat,
    grpc::{self, Grpc},
    jitter,
    plain_text::{self, PlainText},
    problem::{self, Problem},
    refusal::{Denials, Reason, Refusal},
};
use crate::{key::Missing, limit::Limits, limiter::LimiterError, metrics, rule::Refused};

/// Builds a layer's responses.
#[derive(Clone)]
pub(crate) struct Responder {
    pub(crate) format: Arc<dyn ResponseFormat>,
    pub(crate) grpc: Grpc,
    pub(crate) jitter: Duration,
}

impl Responder {
    /// Builds the response to a request that limits deny.
    pub(crate) fn denied<'a>(
        &self,
        request: &'a Parts,
        strictest: Denial<'a>,
        denials: Denials<'a>,
    ) -> Response<Bytes> {
        self.respond(Refusal::denied(strictest, denials, request))
    }

    /// Builds the response to a request without a required id.
    pub(crate) fn missing(&self, request: &Parts, missing: &Missing) -> Response<Bytes> {
        self.refused(request, Reason::NoId(missing))
    }

    /// Builds the response to a request that could not be decided.
    pub(crate) fn failed(
        &self,
        request: &Parts,
        error: &LimiterError,
        limits: &Limits,
    ) -> Response<Bytes> {
        self.refused(request, Reason::failed(error, limits))
    }

    /// Builds the response to a request that is refused for another reason than a limit.
    pub(crate) fn refused<'a>(&self, request: &'a Parts, reason: Reason<'a>) -> Response<Bytes> {
        self.respond(Refusal::new(reason, request))
    }

    /// Returns the format that the client prefers.
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

/// Builds the link to a limit's documentation.
fn help(docs: &str) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("<{docs}>;rel=\"help\"")).ok()
}

/// Formats a number, with one allocation of its exact size.
fn decimal(number: u64) -> HeaderValue {
    let digits = HeaderValue::from_str(itoa::Buffer::new().format(number));
    digits.expect("digits are ASCII")
}
