//! What a layer does with a request.

use std::{mem, sync::Arc};

use arc_swap::Guard;
use bytes::Bytes;
use http::{Response, request::Parts};
use http_body::Body;
use smallvec::SmallVec;
use tokio::time::Instant;
use tracing::Span;

use super::{
    assessment::{Assessment, LayerDecisions},
    body::ResponseBody,
    config::Config,
    open::{Open, RequestStart},
    waiting::{Waited, Waiting},
};
use crate::{
    decision::{Decision, ResultLabel, strictest},
    key::MissingId,
    limit::{Limit, NamedLimit},
    limiter::{LimiterError, Permit, Transaction, is_listened_to},
    response::{Decided, Fields, InForce, Reason, Refusal},
    rule::{Charge, Outcome},
    transaction::Operation,
};

/// The place of a charge.
const NONE: Charge = Charge::NONE;
/// The place of a decision.
const OPEN: Decision = Decision::NOT_LIMITED;

pub(super) type Refused = Box<Response<Bytes>>;

/// What the response of the inner service gets, and what is open until it has ended.
#[derive(Debug, Default)]
pub(super) struct Additions {
    fields: Fields,
    open: Option<Box<Open>>,
}

impl Additions {
    /// Adds the fields to a response, and settles by it what is open.
    #[inline]
    pub(super) fn add_to<B: Body<Data = Bytes>, E>(
        &mut self,
        result: Result<Response<B>, E>,
    ) -> Result<Response<ResponseBody<B>>, E> {
        if let Some(open) = self.open.take() {
            return self.end(open, result);
        }
        let mut response = result?.map(ResponseBody::inner);
        self.fields.add_to(response.headers_mut());
        Ok(response)
    }

    /// Does the same for a request that holds something until it ends. It is out of line to keep the common path small.
    #[inline(never)]
    fn end<B: Body<Data = Bytes>, E>(
        &mut self,
        open: Box<Open>,
        result: Result<Response<B>, E>,
    ) -> Result<Response<ResponseBody<B>>, E> {
        let mut response = open.end_with(result)?;
        self.fields.add_to(response.headers_mut());
        Ok(response)
    }
}

/// The charges of a request, and by what they are decided.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) config: &'a Arc<Config>,
    pub(super) in_force: &'a InForce,
    pub(super) charges: &'a [Charge],
    /// Whether the request can wait in line.
    pub(super) can_wait: bool,
}

impl<'a> Asked<'a> {
    #[inline]
    pub(super) fn transaction(&self, charge: &'a Charge) -> Transaction<'a> {
        let rule = self.config.rule(charge.rule);
        rule.transaction(charge, &self.in_force.limits, self.can_wait)
    }

    pub(super) fn transactions(&self) -> SmallVec<[Transaction<'a>; 4]> {
        let charges = self.charges.iter();
        charges.map(|charge| self.transaction(charge)).collect()
    }

    /// Decides the charges, if the backend answers at once. Each decision is written to its place.
    #[inline]
    fn try_decide(&self, decisions: &mut [Decision]) -> Result<bool, Box<LimiterError>> {
        let (limiter, limits) = (&self.config.limiter, &self.in_force.limits);
        Ok(match self.charges {
            [] => true,
            [charge] => {
                let decided =
                    limiter.try_one(limits, Operation::Spend, &self.transaction(charge))?;
                decided.map(|decision| decisions[0] = decision).is_some()
            }
            _ => {
                let transactions = self.transactions();
                let decided =
                    limiter.try_many(limits, Operation::Spend, &transactions, decisions)?;
                decided.is_some()
            }
        })
    }

    pub(super) fn with(self, decisions: &'a [Decision]) -> Decided<'a> {
        Decided {
            in_force: self.in_force,
            charges: self.charges,
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
    ) -> Result<Option<Waiting>, Refused> {
        if self.exempt.hold(request) {
            self.pass(request);
            return Ok(None);
        }
        let mut listed = self.listed.iter();
        if let Some((list, _)) = listed.find(|(_, conditions)| conditions.may_hold(request)) {
            let refusal = Refusal::new(request, Reason::Listed { list });
            return Err(self.refuse(refusal, &mut Fields::default()));
        }
        // One path, with places of three sizes: vectors take 20 ns for one rule.
        match self.rules().iter().len() {
            0..=1 => self.decide(request, &mut [NONE; 1], &mut [OPEN; 1], additions),
            2..=4 => self.decide(request, &mut [NONE; 4], &mut [OPEN; 4], additions),
            rules => {
                let mut charges = Vec::new();
                charges.resize(rules, NONE);
                self.decide(request, &mut charges, &mut vec![OPEN; rules], additions)
            }
        }
    }

    /// Decides a request by the rules. There is a place for the charge of each, and for its decision.
    #[inline(never)]
    fn decide(
        self: &Arc<Self>,
        request: &mut Parts,
        charges: &mut [Charge],
        decisions: &mut [Decision],
        additions: &mut Additions,
    ) -> Result<Option<Waiting>, Refused> {
        let in_force = self.bound.in_force.load();
        let mut missing = None;
        let (limits, own) = (&in_force.limits, &in_force.own);
        let rules = self.rules();
        let len = rules.charge(request, limits, own, charges, &mut missing);
        let decisions = &mut decisions[..len];
        self.checks.look_at(request, self.rules(), &charges[..len]);
        // A request that is refused in any case takes no place in a line.
        let may_wait = |charge: &Charge| missing.is_none() && self.may_wait(&in_force, charge);
        let seat = self.seat_if(|| charges[..len].iter().any(may_wait));
        let asked = Asked {
            config: self,
            in_force: &in_force,
            charges: &charges[..len],
            can_wait: seat.is_some(),
        };
        let is_decided = match asked.try_decide(decisions) {
            Ok(is_decided) => is_decided,
            Err(error) => {
                let failed = self.fail(request, asked, &error, missing.as_ref());
                return failed.map(|()| None);
            }
        };
        let has_to_wait =
            seat.is_some() && decisions.iter().any(|decision| !decision.delay().is_zero());
        if is_decided && !has_to_wait {
            let open = asked.open(decisions, || RequestStart::of(request), None);
            let concluded = match open {
                Ok(open) => self.conclude(request, asked.with(decisions), open, missing, additions),
                Err(error) => self.fail(request, asked, &error, missing.as_ref()),
            };
            return concluded.map(|()| None);
        }
        let decisions = is_decided.then(|| decisions.to_vec());
        let charges = charges[..len]
            .iter_mut()
            .map(|charge| mem::replace(charge, NONE))
            .collect();
        let waited = Waited::new(self, request, Guard::into_inner(in_force), charges, missing);
        Ok(Some(waited.wait(decisions, seat)))
    }

    /// Returns whether a charge may have to wait in line.
    #[inline]
    fn may_wait(&self, in_force: &InForce, charge: &Charge) -> bool {
        let has_line = |limit: &Limit| limit.line().is_some();
        self.rule(charge.rule).waits()
            && in_force.limit_of(charge).is_some_and(has_line)
            && !in_force.named(charge).is_shadow()
    }

    /// Concludes a request whose charges are decided.
    pub(super) fn conclude(
        &self,
        request: &mut Parts,
        decided: Decided<'_>,
        open: Option<Box<Open>>,
        missing: Option<MissingId>,
        additions: &mut Additions,
    ) -> Result<(), Refused> {
        self.checks.decided();
        if is_listened_to() {
            self.record(decided);
        }
        let Additions {
            fields,
            open: place,
        } = additions;
        self.headers.write(decided, || self.limiter.time(), fields);
        if let Some(missing) = missing {
            return Err(self.refuse_without_id(request, &missing, open, fields));
        }
        if decided.is_denied() {
            return Err(self.refuse(Refusal::denied(request, decided), fields));
        }
        if let Some(open) = &open
            && self.extends
        {
            let assessment = open.assessment(request.extensions.get());
            request.extensions.insert(assessment);
        }
        *place = open.filter(|open| open.is_needed());
        Ok(())
    }

    /// Lets a request proceed without charges. Its handler gets an assessment without decisions, or that of outer layers.
    fn pass(&self, request: &mut Parts) {
        if self.extends && request.extensions.get::<Assessment>().is_none() {
            request.extensions.insert(Assessment::default());
        }
    }

    #[cold]
    fn refuse(&self, refusal: Refusal<'_>, fields: &mut Fields) -> Refused {
        self.checks.refused(refusal.request);
        Box::new(self.responder.respond(refusal, fields))
    }

    /// Refuses a request for which a rule has found no id. For the other rules, this ends the request.
    #[cold]
    fn refuse_without_id(
        &self,
        request: &Parts,
        missing: &MissingId,
        open: Option<Box<Open>>,
        fields: &mut Fields,
    ) -> Refused {
        let response = self.refuse(Refusal::new(request, Reason::NoId(missing)), fields);
        let (head, body) = response.into_parts();
        if let Some(mut open) = open {
            open.end(Outcome::Response(&head, body.len() as u64));
        }
        Box::new(Response::from_parts(head, body))
    }

    /// Concludes a request that could not be decided. One that only meets limits in shadow mode proceeds.
    #[cold]
    pub(super) fn fail(
        &self,
        request: &mut Parts,
        asked: Asked<'_>,
        error: &LimiterError,
        missing: Option<&MissingId>,
    ) -> Result<(), Refused> {
        self.checks.failed(error);
        let mut limits = asked
            .charges
            .iter()
            .map(|charge| asked.in_force.named(charge));
        if missing.is_none() && limits.all(NamedLimit::is_shadow) {
            self.pass(request);
            return Ok(());
        }
        let refusal = match missing {
            Some(missing) => Refusal::new(request, Reason::NoId(missing)),
            None => Refusal::failed(request, error, asked.in_force, asked.charges),
        };
        Err(self.refuse(refusal, &mut Fields::default()))
    }

    /// Records the strictest decision on the request's span, if that has fields for it.
    fn record(&self, decided: Decided<'_>) {
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
        if let Some((charge, decision)) = told.and_then(|place| decided.iter().nth(place)) {
            let mode = self.rule(charge.rule).mode;
            let label = ResultLabel::of(decision, mode, !decided.is_denied());
            span.record(
                "rate_limiting.policy",
                decided.in_force.named(charge).name(),
            );
            span.record("rate_limiting.result", label.map(ResultLabel::as_str));
        }
    }
}

impl Asked<'_> {
    /// Opens what a request holds until it has ended, if it holds anything. Its permits count from `since`, or from now.
    #[inline]
    pub(super) fn open(
        &self,
        decisions: &[Decision],
        start: impl FnOnce() -> RequestStart,
        since: Option<Instant>,
    ) -> Result<Option<Box<Open>>, LimiterError> {
        let has_permits = decisions.iter().any(Decision::has_permits);
        let holds = self.config.extends || self.config.bound.settles || has_permits;
        match holds && !decisions.iter().any(Decision::denies) {
            true => self.open_all(decisions, start(), since).map(Some),
            false => Ok(None),
        }
    }

    fn open_all(
        &self,
        decisions: &[Decision],
        start: RequestStart,
        since: Option<Instant>,
    ) -> Result<Box<Open>, LimiterError> {
        let since = since.unwrap_or_else(Instant::now);
        let with_permits = self
            .charges
            .iter()
            .zip(decisions)
            .filter(|(_, decision)| decision.has_permits());
        let permits = with_permits.map(|(charge, decision)| {
            Permit::hold(
                &self.config.limiter,
                &self.transaction(charge),
                decision,
                since,
            )
        });
        let permits = Permit::join(permits.collect::<Result<Vec<_>, _>>()?);
        let decisions = LayerDecisions::new(self, decisions, &permits);
        Ok(Open::new(self.config, start, decisions, permits))
    }
}
