use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Response, request::Parts};
use tracing::Span;

use super::{
    accept,
    denial::Denial,
    extras::Extras,
    format::ResponseFormat,
    grpc::{self, Grpc},
    head::{self, Convention},
    headers::Fields,
    plain_text::{self, PlainText},
    problem::{self, Problem},
    refusal::{Reason, Refusal},
};
use crate::{
    key::MissingId,
    limit::Limits,
    limiter::{LimiterError, is_listened_to},
    metrics,
    rule::Refused,
};

/// Builds a layer's responses.
#[derive(Clone)]
pub(crate) struct Responder {
    pub(crate) format: Arc<dyn ResponseFormat>,
    pub(crate) grpc: Grpc,
    /// Work on each refusal, if there is any.
    pub(crate) extras: Option<Box<Extras>>,
    /// The wait for permits, which come back at an unknown time.
    pub(crate) for_permits: Duration,
}

impl Responder {
    /// The response to a request that limits deny, with the fields that show how much is left.
    pub(crate) fn denied<'a>(
        &self,
        request: &'a Parts,
        strictest: Denial<'a>,
        denials: &'a [Denial<'a>],
        fields: Option<Fields>,
    ) -> Response<Bytes> {
        self.respond(
            Refusal::denied(strictest, denials, request, self.for_permits),
            fields,
        )
    }

    /// Builds the response to a request without a required id.
    pub(crate) fn missing(&self, request: &Parts, missing: &MissingId) -> Response<Bytes> {
        self.refused(request, Reason::NoId(missing))
    }

    /// Builds the response to a request that could not be decided. Operators see which charges these were.
    pub(crate) fn failed(
        &self,
        request: &Parts,
        error: &LimiterError,
        limits: &Limits,
        charges: &[Denial<'_>],
    ) -> Response<Bytes> {
        let mut refusal = Refusal::new(Reason::failed(error, limits), request);
        refusal.undecided = charges;
        self.respond(refusal, None)
    }

    /// Builds the response to a request that is refused for another reason than a limit.
    pub(crate) fn refused<'a>(&self, request: &'a Parts, reason: Reason<'a>) -> Response<Bytes> {
        self.respond(Refusal::new(reason, request), None)
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

    fn respond(&self, mut refusal: Refusal<'_>, fields: Option<Fields>) -> Response<Bytes> {
        let reason = refusal.reason.as_str();
        metrics::refused(reason);
        if is_listened_to() {
            Span::current().record("rate_limiting.refusal", reason);
        }
        if let Some(extras) = &self.extras {
            extras.apply(&mut refusal);
        }
        if self.grpc.is(refusal.request) {
            let mut response = grpc::refused(&refusal);
            head::complete(response.headers_mut(), &refusal, fields, Convention::Grpc);
            response.extensions_mut().insert(Refused(refusal.status));
            return response;
        }
        let format = self.format_for(refusal.request);
        if let Some(body) = format.body(&refusal) {
            return head::with_body(body, &refusal, fields);
        }
        let mut response = format.respond(&refusal);
        head::complete(response.headers_mut(), &refusal, fields, Convention::Http);
        response
    }
}

impl Default for Responder {
    fn default() -> Self {
        Self {
            format: Arc::new(Problem::new()),
            grpc: Grpc::default(),
            extras: None,
            for_permits: Duration::from_secs(1),
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("grpc", &self.grpc)
            .field("extras", &self.extras)
            .finish_non_exhaustive()
    }
}
