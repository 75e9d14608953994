//! What a layer does with a request.

use std::sync::Arc;

use bytes::Bytes;
use http::{Response, request::Parts};
use http_body::Body;
use tokio::time::Instant;
use tracing::Span;

use super::{
    assessment::{Assessment, LayerDecisions},
    body::ResponseBody,
    config::Config,
    unsettled::{RequestStart, Unsettled},
    waiting::{WaitFuture, WaitingRequest},
};
use crate::{
    batch::Member,
    decision::{Decision, strictest},
    key::MissingId,
    limiter::{Failed, LimiterError, Members, Permit, check_line, is_listened_to, owned},
    response::{DecidedCharges, Fields, InForce, Reason, Refusal},
    rule::{FoundClient, RequestResult},
    transaction::{Operation, ResultLabel},
};

/// The place of what a rule finds.
const NONE: FoundClient = FoundClient::NOTHING;
/// The place of a decision.
const OPEN: Decision = Decision::NOT_LIMITED;

pub(super) type RefusalResponse = Box<Response<Bytes>>;

/// What the response of the inner service gets, and what is unsettled until it has ended.
#[derive(Debug, Default)]
pub(super) struct Additions {
    fields: Fields,
    unsettled: Option<Box<Unsettled>>,
}

impl Additions {
    /// Adds the fields to a response, and settles by it what is unsettled.
    #[inline]
    pub(super) fn add_to<B: Body<Data = Bytes>, E>(
        &mut self,
        result: Result<Response<B>, E>,
    ) -> Result<Response<ResponseBody<B>>, E> {
        if let Some(unsettled) = self.unsettled.take() {
            return self.end(unsettled, result);
        }
        let mut response = result?.map(ResponseBody::inner);
        self.fields.add_to(response.headers_mut());
        Ok(response)
    }

    /// Does the same for a request that holds something until it ends. It is out of line to keep the common path small.
    #[inline(never)]
    fn end<B: Body<Data = Bytes>, E>(
        &mut self,
        unsettled: Box<Unsettled>,
        result: Result<Response<B>, E>,
    ) -> Result<Response<ResponseBody<B>>, E> {
        let mut response = unsettled.end_with(result)?;
        self.fields.add_to(response.headers_mut());
        Ok(response)
    }
}

/// What a request is charged, and by what it is decided.
#[derive(Clone, Copy)]
pub(super) struct RequestCharges<'a> {
    pub(super) config: &'a Arc<Config>,
    pub(super) in_force: &'a InForce,
    pub(super) members: &'a [Member<'a>],
}

impl<'a> RequestCharges<'a> {
    #[inline]
    pub(super) fn with(self, decisions: &'a [Decision]) -> DecidedCharges<'a> {
        DecidedCharges {
            in_force: self.in_force,
            members: self.members,
            decisions,
        }
    }
}

impl Config {
    /// Decides a request, at once if the backend can. Otherwise, the request waits. The additions are written where they stay.
    #[inline]
    pub(super) fn start(
        self: &Arc<Self>,
        request: &mut Parts,
        additions: &mut Additions,
    ) -> Result<Option<WaitFuture>, RefusalResponse> {
        if self.exempt.hold(request) {
            self.pass(request);
            return Ok(None);
        }
        let mut listed = self.listed.iter();
        if let Some((list, _)) = listed.find(|(_, conditions)| conditions.may_hold(request)) {
            let refusal = Refusal::new(request, Reason::Listed { list });
            return Err(self.refuse(refusal, &mut Fields::default()));
        }
        let in_force = &*self.bound.in_force.load();
        // One path, with places of three sizes: vectors take 20 ns for one rule.
        match self.rules().iter().len() {
            0..=1 => self.decide(request, in_force, &mut [NONE; 1], &mut [OPEN; 1], additions),
            2..=4 => self.decide(request, in_force, &mut [NONE; 4], &mut [OPEN; 4], additions),
            rules => {
                let mut found = Vec::new();
                let decisions = &mut vec![OPEN; rules];
                found.resize_with(rules, FoundClient::default);
                self.decide(request, in_force, &mut found, decisions, additions)
            }
        }
    }

    /// Decides a request by the rules. There is a place for what each finds, and for its decision.
    #[inline(never)]
    fn decide<'a>(
        self: &Arc<Self>,
        request: &mut Parts,
        in_force: &'a Arc<InForce>,
        found: &'a mut [FoundClient],
        decisions: &mut [Decision],
        additions: &mut Additions,
    ) -> Result<Option<WaitFuture>, RefusalResponse> {
        let mut missing = None;
        let mut members = Members::new();
        let rules = self.rules();
        let limits = &in_force.limits;
        let own = &in_force.own;
        rules.charge(request, limits, own, found, &mut members, &mut missing);
        let members = &mut *members;
        let decisions = &mut decisions[..members.len()];
        self.checks.look_at(request, rules, members);
        // A request that is refused in any case takes no place in a line.
        let seat = self.seat_if(|| missing.is_none() && members.iter().any(Member::may_wait));
        for member in &mut *members {
            member.ask.waits &= seat.is_some();
        }
        let is_decided = self.try_decide(members, decisions);
        let asked = RequestCharges {
            config: self,
            in_force,
            members,
        };
        let is_decided = match is_decided {
            Ok(is_decided) => is_decided,
            Err(error) => {
                let failed = self.fail(request, asked, &error, missing.as_ref());
                return failed.map(|()| None);
            }
        };
        let has_to_wait =
            seat.is_some() && decisions.iter().any(|decision| !decision.delay().is_zero());
        if is_decided && !has_to_wait {
            let unsettled = asked.unsettled(decisions, || RequestStart::of(request), None);
            let concluded = match unsettled {
                Ok(unsettled) => self.conclude(
                    request,
                    asked.with(decisions),
                    unsettled,
                    missing,
                    additions,
                ),
                Err(error) => self.fail(request, asked, &error, missing.as_ref()),
            };
            return concluded.map(|()| None);
        }
        let decisions = is_decided.then(|| decisions.to_vec());
        let members = owned(members);
        let waiting = WaitingRequest::new(self, request, Arc::clone(in_force), members, missing);
        Ok(Some(waiting.wait(decisions, seat)))
    }

    #[inline]
    fn try_decide(
        &self,
        members: &mut [Member<'_>],
        decisions: &mut [Decision],
    ) -> Result<bool, Failed> {
        for member in &mut *members {
            self.limiter.accept(Operation::Spend, false, member)?;
        }
        check_line(Operation::Spend, members)?;
        match members {
            [member] => {
                let decided = self.limiter.decide_one(Operation::Spend, member)?;
                Ok(decided.map(|decision| decisions[0] = decision).is_some())
            }
            _ => self
                .limiter
                .decide_all(Operation::Spend, members, decisions),
        }
    }

    /// Concludes a request whose charges are decided.
    pub(super) fn conclude(
        &self,
        request: &mut Parts,
        decided: DecidedCharges<'_>,
        unsettled: Option<Box<Unsettled>>,
        missing: Option<MissingId>,
        additions: &mut Additions,
    ) -> Result<(), RefusalResponse> {
        self.checks.decided();
        if is_listened_to() {
            record(decided);
        }
        let Additions {
            fields,
            unsettled: place,
        } = additions;
        self.headers.write(decided, || self.limiter.time(), fields);
        if let Some(missing) = missing {
            return Err(self.refuse_without_id(request, &missing, unsettled, fields));
        }
        if decided.is_denied() {
            return Err(self.refuse(Refusal::denied(request, decided), fields));
        }
        if let Some(unsettled) = &unsettled
            && self.extends
        {
            let assessment = unsettled.assessment(request.extensions.get());
            request.extensions.insert(assessment);
        }
        *place = unsettled.filter(|unsettled| unsettled.is_needed());
        Ok(())
    }

    /// Lets a request proceed without charges. Its handler gets an assessment without decisions, or that of outer layers.
    fn pass(&self, request: &mut Parts) {
        if self.extends && request.extensions.get::<Assessment>().is_none() {
            request.extensions.insert(Assessment::default());
        }
    }

    #[cold]
    fn refuse(&self, refusal: Refusal<'_>, fields: &mut Fields) -> RefusalResponse {
        self.checks.refused(refusal.request);
        Box::new(self.responder.respond(refusal, fields))
    }

    /// Refuses a request for which a rule has found no id. For the other rules, this ends the request.
    #[cold]
    fn refuse_without_id(
        &self,
        request: &Parts,
        missing: &MissingId,
        unsettled: Option<Box<Unsettled>>,
        fields: &mut Fields,
    ) -> RefusalResponse {
        let response = self.refuse(Refusal::new(request, Reason::NoId(missing)), fields);
        let (head, body) = response.into_parts();
        if let Some(mut unsettled) = unsettled {
            unsettled.end(RequestResult::Response(&head, body.len() as u64));
        }
        Box::new(Response::from_parts(head, body))
    }

    /// Concludes a request that could not be decided. One that only meets limits in shadow mode proceeds.
    #[cold]
    pub(super) fn fail(
        &self,
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
        Err(self.refuse(refusal, &mut Fields::default()))
    }
}

/// Records the strictest decision on the request's span, if that has fields for it.
fn record(decided: DecidedCharges<'_>) {
    let span = Span::current();
    if span.is_disabled() {
        return;
    }
    let decisions = decided.decisions;
    let place_of = |is: fn(&Decision) -> bool| decisions.iter().position(is);
    // A limit in shadow mode has no vote.
    let shadow = place_of(Decision::would_be_denied).filter(|_| !decided.is_denied());
    let told = shadow.or_else(|| strictest(decisions));
    let told = told.or_else(|| place_of(Decision::limited));
    if let Some((member, decision)) = told.and_then(|place| decided.iter().nth(place)) {
        let label = decision.label(member.mode(), !decided.is_denied());
        span.record("rate_limiting.policy", member.limit.name());
        span.record("rate_limiting.result", label.map(ResultLabel::as_str));
    }
}

impl RequestCharges<'_> {
    /// Opens what a request holds until it has ended, if it holds anything. Its permits count from `since`, or from now.
    #[inline]
    pub(super) fn unsettled(
        &self,
        decisions: &[Decision],
        start: impl FnOnce() -> RequestStart,
        since: Option<Instant>,
    ) -> Result<Option<Box<Unsettled>>, LimiterError> {
        let has_permits = decisions.iter().any(Decision::has_permits);
        let holds = self.config.extends || self.config.bound.settles || has_permits;
        if holds && !decisions.iter().any(Decision::denies) {
            self.open_all(decisions, start(), since).map(Some)
        } else {
            Ok(None)
        }
    }

    fn open_all(
        &self,
        decisions: &[Decision],
        start: RequestStart,
        since: Option<Instant>,
    ) -> Result<Box<Unsettled>, LimiterError> {
        let since = since.unwrap_or_else(Instant::now);
        let with_permits = self
            .members
            .iter()
            .zip(decisions)
            .filter(|(_, decision)| decision.has_permits());
        let permits = with_permits
            .map(|(member, decision)| Permit::hold(&self.config.limiter, member, decision, since));
        let permits = Permit::join(permits.collect::<Result<Vec<_>, _>>()?);
        let decisions = LayerDecisions::new(self, decisions, &permits);
        Ok(Unsettled::new(self.config, start, decisions, permits))
    }
}
