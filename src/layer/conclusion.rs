//! From the decision on a request to its response, or to its handler.

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, request::Parts};
use smallvec::SmallVec;
use tracing::Span;

use super::{
    additions::ResponseAdditions, assessment::Assessment, charged_decisions::ChargedDecisions,
    config::LayerConfig, pending_settlement::PendingSettlement,
};
use crate::{
    decision::{Decision, ResultLabel, strictest},
    key::MissingId,
    limit::Limits,
    limiter::{LimiterError, is_listened_to},
    response::{Denial, Headers, Shown},
    rule::{Charge, ChargeList, EndingKind},
    task::{Closing, detached},
};

/// The result for a request.
pub(super) enum Conclusion {
    Proceed,
    /// Boxed, to keep the result small for requests that proceed.
    Refuse(Box<FinalResponse>),
}

/// The response to a refused request, and the corrections to wait for before it.
pub(super) struct FinalResponse {
    pub(super) response: Response<Bytes>,
    pub(super) closing: Option<Closing>,
}

impl FinalResponse {
    #[inline]
    fn new(response: Response<Bytes>) -> Box<Self> {
        let closing = None;
        Box::new(Self { response, closing })
    }

    /// Takes the response, once the corrections before it are done.
    #[inline]
    pub(super) fn poll(this: &mut Option<Box<Self>>, cx: &mut Context<'_>) -> Poll<Box<Self>> {
        if let Some(closing) = this.as_mut().and_then(|this| this.closing.as_mut()) {
            ready!(closing.as_mut().poll(cx));
        }
        Poll::Ready(this.take().expect("polled again after it was ready"))
    }
}

impl Conclusion {
    pub(super) fn refuse(response: Response<Bytes>) -> Self {
        Self::Refuse(FinalResponse::new(response))
    }
}

impl LayerConfig {
    /// Returns whether an allowed request that need not wait in line needs no further work: no extension, header, event or
    /// settlement.
    #[inline(always)]
    pub(super) fn is_quiet(&self) -> bool {
        // Almost all requests need all of these, so no branch between them saves anything.
        let extensions = self.request_extension | self.response_extension;
        let adds = extensions | (self.headers != Headers::None) | self.settles;
        let tells = is_listened_to() | self.health.is_failing();
        !(adds | tells)
    }

    /// Concludes a request whose charges are decided. What is done here for an allowed request has to be known to
    /// [`is_quiet`](Self::is_quiet).
    #[inline(always)]
    pub(super) fn conclude(
        &self,
        request: &mut Parts,
        limits: &Limits,
        spent: ChargedDecisions<'_>,
        taken: PendingSettlement,
        missing: Option<&MissingId>,
        additions: &mut ResponseAdditions,
    ) -> Conclusion {
        self.health.decided();
        if is_listened_to() {
            self.record(spent);
        }
        let proceeds = spent.denied.is_none() && missing.is_none();
        self.add(request, spent, taken, proceeds, additions);
        match (missing, spent.denied) {
            (None, None) => Conclusion::Proceed,
            (None, Some(i)) => self.refuse(request, limits, spent, i, additions),
            (Some(missing), _) => self.refuse_without_id(request, missing, additions),
        }
    }

    /// Returns whether a handler or an outer layer gets the assessment.
    #[inline]
    pub(super) fn extends(&self, allows: bool) -> bool {
        self.response_extension || self.request_extension && allows
    }

    /// Returns whether the assessment of a request is needed, by a handler, an outer layer or a settlement.
    #[inline(always)]
    pub(super) fn assesses(&self, allows: bool) -> bool {
        self.extends(allows) || self.settles && allows
    }

    /// Collects the additions to the response. If the request proceeds, also puts the assessment on it, for its
    /// handler.
    #[inline(always)]
    fn add(
        &self,
        request: &mut Parts,
        spent: ChargedDecisions<'_>,
        taken: PendingSettlement,
        proceeds: bool,
        additions: &mut ResponseAdditions,
    ) {
        let shown = spent.terms().map(|(terms, decision)| Shown {
            decision,
            policy: &self.policies[terms.target.index()],
        });
        additions.fields = self.headers.write(shown, spent.denied.is_some());
        additions.permits = taken.permits.filter(|_| proceeds);
        if let Some(mut settlement) = taken.settlement {
            settlement.begin(&request.method);
            additions.settlement = Some(settlement);
        }
        if let Some(ours) = taken.assessment
            && self.extends(spent.denied.is_none())
        {
            self.extend(request, ours, proceeds, additions);
        }
    }

    /// Adds the assessment to those of outer layers, and puts it where this layer is configured to.
    fn extend(
        &self,
        request: &mut Parts,
        ours: Assessment,
        proceeds: bool,
        additions: &mut ResponseAdditions,
    ) {
        let assessment = match request.extensions.get() {
            None => ours,
            Some(outer) => ours.within(outer),
        };
        if self.response_extension {
            additions.assessment = Some(assessment.clone());
        }
        if self.request_extension && proceeds {
            request.extensions.insert(assessment);
        }
    }

    /// Concludes a request without charges.
    pub(super) fn without_charge(
        &self,
        request: &mut Parts,
        missing: Option<&MissingId>,
    ) -> Conclusion {
        match missing {
            Some(missing) => {
                self.traffic.inspect_refused(request);
                Conclusion::refuse(self.responder.missing(request, missing))
            }
            None => self.pass(request),
        }
    }

    /// Lets a request proceed without charges. Its handler gets an assessment without decisions, or that of outer layers.
    pub(super) fn pass(&self, request: &mut Parts) -> Conclusion {
        if self.request_extension && request.extensions.get::<Assessment>().is_none() {
            request.extensions.insert(Assessment::without_charge());
        }
        Conclusion::Proceed
    }

    /// Records the decision on the request's span, if that has fields for it.
    fn record(&self, spent: ChargedDecisions<'_>) {
        let span = Span::current();
        if span.is_disabled() {
            return;
        }
        let would_deny = |decision: &Decision| decision.would_be_denied();
        let told = spent.denied;
        let told = told.or_else(|| spent.decisions.iter().position(would_deny));
        // A limit in shadow mode has no vote.
        let told = told.or_else(|| strictest(spent.decisions));
        let told = told.or_else(|| spent.decisions.iter().position(Decision::limited));
        if let Some(i) = told {
            let (charge, decision) = spent.at(i);
            let label = ResultLabel::of(decision, self.rules.mode(charge), spent.denied.is_none());
            span.record("rate_limiting.policy", &**self.rules.limit(charge));
            span.record("rate_limiting.result", label.map(ResultLabel::as_str));
        }
    }

    fn refuse(
        &self,
        request: &Parts,
        limits: &Limits,
        spent: ChargedDecisions<'_>,
        strictest: usize,
        additions: &mut ResponseAdditions,
    ) -> Conclusion {
        let denial = |(charge, decision)| self.denial(limits, charge, decision);
        let mut denials: SmallVec<[Denial<'_>; 2]> = SmallVec::new();
        for (charge, decision) in spent.iter() {
            let votes = self.rules.mode(charge).votes() && !decision.in_shadow();
            if votes && !decision.allowed() {
                denials.push(denial((charge, decision)));
            }
        }
        let strictest = match &*denials {
            [only] => *only,
            _ => denial(spent.at(strictest)),
        };
        self.traffic.inspect_refused(request);
        let fields = additions.fields.take();
        let response = self.responder.denied(request, strictest, &denials, fields);
        let mut refused = FinalResponse::new(response);
        additions.put_on(&mut refused.response);
        Conclusion::Refuse(refused)
    }

    fn denial<'a>(
        &'a self,
        limits: &'a Limits,
        charge: Charge<'a>,
        decision: &'a Decision,
    ) -> Denial<'a> {
        let named = self.rules.named(charge, limits);
        let (limit, id) = (self.rules.limit(charge), charge.id.as_found());
        Denial::new(named, limit, id, charge.terms.cost, decision)
    }

    /// Refuses a request for which a rule has found no id. For the other rules, this ends the request.
    #[cold]
    fn refuse_without_id(
        &self,
        request: &Parts,
        missing: &MissingId,
        additions: &mut ResponseAdditions,
    ) -> Conclusion {
        self.traffic.inspect_refused(request);
        let mut response = self.responder.missing(request, missing);
        additions.put_on(&mut response);
        let (head, body) = response.into_parts();
        let closing = additions.settlement.take().and_then(|mut settlement| {
            let sent = match settlement.has_no_body(head.status) {
                true => 0,
                false => body.len() as u64,
            };
            settlement.close(EndingKind::Response(&head, sent, true), true)
        });
        let response = Response::from_parts(head, body);
        Conclusion::Refuse(Box::new(FinalResponse {
            response,
            closing: closing.map(|closing| -> Closing { detached(closing) }),
        }))
    }

    /// Concludes a request that could not be decided.
    #[cold]
    pub(super) fn fail(
        &self,
        request: &mut Parts,
        limits: &Limits,
        charges: ChargeList<'_>,
        error: &LimiterError,
        missing: Option<&MissingId>,
    ) -> Conclusion {
        self.health.failed(error);
        if missing.is_some() {
            return self.without_charge(request, missing);
        }
        let mut all = charges.iter();
        match all.all(|charge| self.rules.is_harmless(charge, limits)) {
            true => self.pass(request),
            false => Conclusion::refuse(self.failed(request, limits, charges, error)),
        }
    }

    #[cold]
    fn failed(
        &self,
        request: &Parts,
        limits: &Limits,
        charges: ChargeList<'_>,
        error: &LimiterError,
    ) -> Response<Bytes> {
        let undecided = charges.iter();
        let undecided =
            undecided.map(|charge| self.denial(limits, charge, const { &Decision::NOT_LIMITED }));
        let undecided: SmallVec<[Denial<'_>; 2]> = undecided.collect();
        self.responder.failed(request, error, limits, &undecided)
    }
}
