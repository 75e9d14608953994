//! Concludes decided requests: prepares the fields of the response, or refuses the request.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, request::Parts};
use http_body::Body;
use tracing::Span;

use super::{
    assessment::Assessment, body::ResponseBody, charges::RequestCharges, config::Config,
    unsettled::UnsettledRequest,
};
use crate::{
    decision::{Decision, strictest},
    key::MissingId,
    limiter::{LimiterError, is_listened_to},
    response::{DecidedCharges, Reason, Refusal, ResponseFields},
    rule::RequestResult,
    transaction::ResultLabel,
};

pub(super) type RefusalResponse = Box<Response<Bytes>>;

/// The fields for the response of the inner service, and the charges that its end settles.
#[derive(Debug, Default)]
pub(super) struct ResponseAdditions {
    fields: ResponseFields,
    unsettled: Option<Box<UnsettledRequest>>,
}

impl ResponseAdditions {
    /// Adds the fields to a response, and settles the charges that depend on it.
    #[inline]
    pub(super) fn add_to<B: Body<Data = Bytes>, E>(
        &mut self,
        result: Result<Response<B>, E>,
    ) -> Result<Response<ResponseBody<B>>, E> {
        if let Some(unsettled) = self.unsettled.take() {
            return self.settle(unsettled, result);
        }
        let mut response = result?.map(ResponseBody::inner);
        self.fields.add_to(response.headers_mut());
        Ok(response)
    }

    /// Does the same for a request with charges that depend on its response.
    // Not inlined, so that the common path stays small.
    #[inline(never)]
    fn settle<B: Body<Data = Bytes>, E>(
        &mut self,
        unsettled: Box<UnsettledRequest>,
        result: Result<Response<B>, E>,
    ) -> Result<Response<ResponseBody<B>>, E> {
        let mut response = ResponseBody::settling(unsettled, result)?;
        self.fields.add_to(response.headers_mut());
        Ok(response)
    }
}

impl Config {
    /// Concludes a request whose charges are decided.
    pub(super) fn conclude(
        &self,
        request: &mut Parts,
        decided: DecidedCharges<'_>,
        unsettled: Option<Box<UnsettledRequest>>,
        missing: Option<MissingId>,
        additions: &mut ResponseAdditions,
    ) -> Result<(), RefusalResponse> {
        self.checks.decided();
        if is_listened_to() {
            record(decided);
        }
        let ResponseAdditions {
            fields,
            unsettled: unsettled_slot,
        } = additions;
        self.headers.write(decided, || self.limiter.time(), fields);
        if let Some(missing) = missing {
            return Err(self.refuse_without_id(request, &missing, unsettled, fields));
        }
        if decided.is_denied() {
            return Err(self.refuse(Refusal::denied(request, decided.iter()), fields));
        }
        if let Some(unsettled) = &unsettled
            && self.extends
        {
            let assessment = unsettled.assessment(request.extensions.get());
            request.extensions.insert(assessment);
        }
        *unsettled_slot = unsettled.filter(|unsettled| unsettled.is_needed());
        Ok(())
    }

    /// Lets a request proceed without charges. The assessment of its handler contains only the decisions of outer layers.
    pub(super) fn pass(self: &Arc<Self>, request: &mut Parts) {
        if self.extends {
            let assessment = Assessment::within(request.extensions.get(), self, None);
            request.extensions.insert(assessment);
        }
    }

    #[cold]
    pub(super) fn refuse(
        &self,
        refusal: Refusal<'_>,
        fields: &mut ResponseFields,
    ) -> RefusalResponse {
        self.checks.refused(refusal.request);
        Box::new(self.responder.respond(refusal, fields))
    }

    /// Refuses a request for which a rule has found no id. The charges of the other rules are settled by the refusal.
    #[cold]
    fn refuse_without_id(
        &self,
        request: &Parts,
        missing: &MissingId,
        unsettled: Option<Box<UnsettledRequest>>,
        fields: &mut ResponseFields,
    ) -> RefusalResponse {
        let response = self.refuse(Refusal::new(request, Reason::NoId(missing)), fields);
        let (head, body) = response.into_parts();
        if let Some(mut unsettled) = unsettled {
            unsettled.end(RequestResult::Response(&head, body.len() as u64));
        }
        Box::new(Response::from_parts(head, body))
    }

    /// Concludes a request that could not be decided. It proceeds if all its limits are in shadow mode.
    #[cold]
    pub(super) fn fail(
        self: &Arc<Self>,
        request: &mut Parts,
        asked: RequestCharges<'_>,
        error: &LimiterError,
        missing: Option<&MissingId>,
    ) -> Result<(), RefusalResponse> {
        self.checks.failed(error);
        let mut members = asked.members.iter();
        if missing.is_none() && members.all(|member| member.limit.is_shadow()) {
            self.pass(request);
            return Ok(());
        }
        let refusal = match missing {
            Some(missing) => Refusal::new(request, Reason::NoId(missing)),
            None => Refusal::failed(request, error, asked.members),
        };
        Err(self.refuse(refusal, &mut ResponseFields::default()))
    }
}

/// Records the strictest decision on the request's span, if that has fields for it.
fn record(decided: DecidedCharges<'_>) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    let decisions = decided.decisions;
    let index_of = |is: fn(&Decision) -> bool| decisions.iter().position(is);
    // A denial in shadow mode is recorded if the request passes.
    let shadow = index_of(Decision::would_be_denied).filter(|_| !decided.is_denied());
    let told = shadow.or_else(|| strictest(decisions));
    let told = told.or_else(|| index_of(Decision::limited));
    if let Some((member, decision)) = told.and_then(|index| decided.iter().nth(index)) {
        let label = decision.label(member.mode(), !decided.is_denied());
        span.record("rate_limiting.policy", member.limit.name());
        span.record("rate_limiting.result", label.map(ResultLabel::as_str));
    }
}
