//! From the head of a request to what becomes of it.

use std::{
    future::Future,
    pin::Pin,
    slice,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Extensions, Response, request::Parts};
use tracing::{Span, dispatcher};

use super::{
    additions::ResponseAdditions,
    assessment::Assessment,
    conclusion::{Conclusion, FinalResponse},
    config::{DenyList, LayerConfig},
    settlement::Settlement,
    task::{Closing, detached},
};
use crate::{
    decision::{BatchDecision, Decision, Decisions, OneDecision, ResultLabel},
    key::Missing,
    limit::Limits,
    limiter::{Capacity, LimiterError, Many, One},
    response::{Denial, Denials, Reason, Shown},
    rule::{Charge, Charges, Outcome, undisguised},
    transaction::{Operation, Transaction},
};

/// How far a request has come.
pub(super) enum Progress {
    Decided(Conclusion),
    Waiting(Waiting),
}

impl LayerConfig {
    /// Decides a request, or begins to if the backend has to wait.
    pub(super) fn assess(self: &Arc<Self>, request: &Parts) -> Progress {
        if self.exempt.any(request) {
            return Progress::Decided(Conclusion::Proceed(ResponseAdditions::default()));
        }
        if let Some(list) = self.listing(request) {
            let reason = Reason::Listed { list: &list.name };
            return Progress::Decided(Conclusion::refuse(self.responder.refused(request, reason)));
        }
        let mut charges = Charges::new();
        let missing = self.rules.charge(request, &self.limiter, &mut charges);
        if charges.is_empty() {
            return Progress::Decided(self.without_charge(request, missing.as_ref()));
        }
        self.traffic
            .look(request, &self.limiter, &self.rules, &charges);
        match self.try_spend(request, &charges, missing.as_ref()) {
            Some(conclusion) => Progress::Decided(conclusion),
            None => {
                let plan = Arc::clone(self);
                Progress::Waiting(Waiting::new(plan, request, charges, missing))
            }
        }
    }

    /// What becomes of a request that is charged nothing.
    fn without_charge(&self, request: &Parts, missing: Option<&Missing>) -> Conclusion {
        match missing {
            Some(missing) => Conclusion::refuse(self.responder.missing(request, missing)),
            None => Conclusion::Proceed(ResponseAdditions::default()),
        }
    }

    /// The list that a request is on, by its path as it is sent, or as a router may resolve it.
    #[inline]
    fn listing(&self, request: &Parts) -> Option<&DenyList> {
        if self.listed.is_empty() {
            return None;
        }
        let resolved = undisguised(request);
        let holds = |list: &&DenyList| {
            list.predicate.holds(request)
                || resolved
                    .as_ref()
                    .is_some_and(|request| list.predicate.holds(request))
        };
        self.listed.iter().find(holds)
    }

    /// Decides at once, if the backend does not have to wait.
    #[inline]
    fn try_spend(
        self: &Arc<Self>,
        request: &Parts,
        charges: &[Charge],
        missing: Option<&Missing>,
    ) -> Option<Conclusion> {
        if let [charge] = charges {
            let transaction = self.rules.transaction(charge);
            let transactions = slice::from_ref(&transaction);
            let mut one = OneDecision::default();
            return self.try_spend_as::<One>(request, charges, transactions, &mut one, missing);
        }
        let transactions = self.rules.transactions(charges);
        let mut batch = BatchDecision::default();
        self.try_spend_as::<Many>(request, charges, &transactions, &mut batch, missing)
    }

    #[inline(always)]
    fn try_spend_as<C: Capacity>(
        self: &Arc<Self>,
        request: &Parts,
        charges: &[Charge],
        transactions: &[Transaction<'_>],
        decisions: &mut impl Decisions,
        missing: Option<&Missing>,
    ) -> Option<Conclusion> {
        let limits = self.limiter.in_force();
        let spend = Operation::Spend;
        let decided = self
            .limiter
            .try_decide::<C>(&limits, spend, transactions, decisions)?;
        Some(match decided {
            Ok(()) => {
                let spent = Verdicts::of(charges, decisions);
                let taken = self.taken(&request.extensions, spent);
                self.conclude(request, &limits, spent, taken, missing)
            }
            Err(error) => self.fail(request, charges, &error, missing),
        })
    }

    /// What a request has taken, for its handler and for how it ends.
    #[inline]
    fn taken(self: &Arc<Self>, request: &Extensions, spent: Verdicts<'_>) -> Taken {
        let allowed = spent.denied().is_none();
        let extends = self.response_extension || self.request_extension && allowed;
        if !extends && !self.settles {
            return Taken::default();
        }
        let assessment = Assessment::new(&self.limiter, &self.rules, spent.iter(), allowed);
        let settlement = match self.settles && allowed {
            true => self.settlement(request, &assessment, spent),
            false => None,
        };
        Taken {
            assessment: Some(assessment),
            extends,
            settlement,
        }
    }

    fn settlement(
        self: &Arc<Self>,
        request: &Extensions,
        assessment: &Assessment,
        spent: Verdicts<'_>,
    ) -> Option<Box<Settlement>> {
        let open = spent.iter().enumerate();
        let open =
            open.filter(|(_, (charge, decision))| self.rules.waits_for_ending(charge, decision));
        let open = open.map(|(place, (charge, _))| (place, charge.rule));
        Settlement::new(self, assessment, request, open).map(Box::new)
    }

    #[inline]
    fn conclude(
        &self,
        request: &Parts,
        limits: &Limits,
        spent: Verdicts<'_>,
        taken: Taken,
        missing: Option<&Missing>,
    ) -> Conclusion {
        self.health.decided();
        self.record(spent);
        let mark = self.mark(request, spent, taken);
        match (missing, spent.denied()) {
            (Some(missing), _) => self.refuse_without_id(request, missing, mark),
            (None, Some(i)) => {
                Conclusion::refuse(mark.put_on(self.refuse(request, limits, spent, i)))
            }
            (None, None) => Conclusion::Proceed(mark),
        }
    }

    /// Refuses a request for which one rule has found no id, whatever the others say. For these it has ended.
    #[cold]
    fn refuse_without_id(
        &self,
        request: &Parts,
        missing: &Missing,
        mut mark: ResponseAdditions,
    ) -> Conclusion {
        let response = self.responder.missing(request, missing);
        let settlement = mark.settlement.take();
        let (head, body) = mark.put_on(response).into_parts();
        let sent = body.len() as u64;
        let closing = settlement.and_then(|mut settlement| {
            settlement.close(Outcome::Response(&head, sent, true), true)
        });
        let response = Response::from_parts(head, body);
        Conclusion::Refuse(Box::new(FinalResponse {
            response,
            closing: closing.map(|closing| -> Closing { detached(closing) }),
        }))
    }

    /// Says on the request's span what was decided, if that has fields for it.
    #[inline]
    fn record(&self, spent: Verdicts<'_>) {
        if !dispatcher::has_been_set() {
            return;
        }
        let span = Span::current();
        if span.is_disabled() {
            return;
        }
        let would_deny = |decision: &Decision| decision.would_be_denied();
        let told = spent.denied();
        let told = told.or_else(|| spent.decisions.iter().position(would_deny));
        // A limit in shadow mode has no vote.
        let told = told.or(spent.strictest);
        let told = told.or_else(|| spent.decisions.iter().position(Decision::limited));
        if let Some(i) = told {
            let (charge, decision) = (&spent.charges[i], &spent.decisions[i]);
            let fate = ResultLabel::of(decision, self.rules.mode(charge), spent.denied().is_none());
            span.record("rate_limiting.policy", &**self.rules.limit(charge));
            span.record("rate_limiting.result", fate.map(ResultLabel::as_str));
        }
    }

    fn refuse(
        &self,
        request: &Parts,
        limits: &Limits,
        spent: Verdicts<'_>,
        strictest: usize,
    ) -> Response<Bytes> {
        let Verdicts {
            charges, decisions, ..
        } = spent;
        let denial = |i: usize| {
            let (charge, decision) = (&charges[i], &decisions[i]);
            let (limit, id) = (self.rules.limit(charge), charge.id.as_str());
            Denial::new(limits, limit, id, charge.cost, decision)
        };
        let denies = |i: &usize| {
            let votes = self.rules.mode(&charges[*i]).votes() && !decisions[*i].in_shadow();
            votes && !decisions[*i].allowed()
        };
        let denials: Denials<'_> = (0..charges.len()).filter(denies).map(denial).collect();
        self.responder.denied(request, denial(strictest), denials)
    }

    fn fail(
        &self,
        request: &Parts,
        charges: &[Charge],
        error: &LimiterError,
        missing: Option<&Missing>,
    ) -> Conclusion {
        self.health.failed(error);
        if missing.is_some() {
            return self.without_charge(request, missing);
        }
        let limits = self.limiter.limits();
        let mut charges = charges.iter();
        match charges.all(|charge| self.rules.is_harmless(charge, &limits)) {
            true => Conclusion::Proceed(ResponseAdditions::default()),
            false => Conclusion::refuse(self.responder.failed(request, error, &limits)),
        }
    }

    #[inline]
    fn mark(&self, request: &Parts, spent: Verdicts<'_>, taken: Taken) -> ResponseAdditions {
        let fields = self
            .headers
            .write(spent.iter().map(|(charge, decision)| Shown {
                limit: self.rules.limit(charge),
                decision,
                policy: &self.policies[charge.target],
                votes: self.rules.mode(charge).votes(),
            }));
        let assessment = taken.assessment.filter(|_| taken.extends);
        let assessment = assessment.map(|ours| {
            let outer = request.extensions.get();
            if let Some(outer) = outer {
                self.traffic.look_at_outer(outer, &ours);
            }
            ours.within(outer)
        });
        ResponseAdditions {
            assessment,
            is_for_request: self.request_extension,
            is_for_response: self.response_extension,
            fields,
            settlement: taken.settlement,
            connects: false,
        }
    }
}

/// What a request was charged for, the decisions on that, and which of them is the strictest.
#[derive(Clone, Copy)]
struct Verdicts<'a> {
    charges: &'a [Charge],
    decisions: &'a [Decision],
    strictest: Option<usize>,
}

impl<'a> Verdicts<'a> {
    #[inline(always)]
    fn of(charges: &'a [Charge], decisions: &'a impl Decisions) -> Self {
        Self {
            charges,
            decisions: decisions.members(),
            strictest: decisions.strictest(),
        }
    }

    /// Which of them denies the request, if any does.
    fn denied(&self) -> Option<usize> {
        self.strictest.filter(|i| !self.decisions[*i].allowed())
    }

    fn iter(&self) -> impl Iterator<Item = (&'a Charge, &'a Decision)> + Clone + use<'a> {
        self.charges.iter().zip(self.decisions)
    }
}

/// What a request has taken.
#[derive(Default)]
struct Taken {
    assessment: Option<Assessment>,
    /// Whether the assessment is for others.
    extends: bool,
    settlement: Option<Box<Settlement>>,
}

/// A decision that the backend has to wait for.
pub(super) struct Waiting {
    plan: Arc<LayerConfig>,
    /// Why it is refused whatever is decided, if a rule has found no id.
    missing: Option<Missing>,
    deciding: Pin<Box<dyn Future<Output = Decided> + Send>>,
}

/// What a request was charged for, and what came of it.
struct Decided {
    charges: Charges,
    spent: Result<BatchDecision, LimiterError>,
    taken: Taken,
}

impl Waiting {
    fn new(
        plan: Arc<LayerConfig>,
        request: &Parts,
        charges: Charges,
        missing: Option<Missing>,
    ) -> Self {
        let deciding: Pin<Box<_>> = match plan.settles {
            // If the client goes away meanwhile, what will have been charged has to be settled.
            true => {
                let extensions = request.extensions.clone();
                detached(decide(Arc::clone(&plan), extensions, charges))
            }
            false => Box::pin(decide(Arc::clone(&plan), Extensions::new(), charges)),
        };
        Self {
            plan,
            missing,
            deciding,
        }
    }

    pub(super) fn poll(&mut self, request: &Parts, cx: &mut Context<'_>) -> Poll<Conclusion> {
        let Decided {
            charges,
            spent,
            taken,
        } = ready!(self.deciding.as_mut().poll(cx));
        let missing = self.missing.as_ref();
        Poll::Ready(match &spent {
            Ok(batch) => {
                let spent = Verdicts::of(&charges, batch);
                let limits = self.plan.limiter.in_force();
                self.plan.conclude(request, &limits, spent, taken, missing)
            }
            Err(error) => self.plan.fail(request, &charges, error, missing),
        })
    }
}

async fn decide(plan: Arc<LayerConfig>, request: Extensions, charges: Charges) -> Decided {
    let transactions = plan.rules.transactions(&charges);
    let spent = plan.limiter.decide_batch(Operation::Spend, &transactions);
    let spent = spent.await;
    drop(transactions);
    let taken = spent
        .as_ref()
        .map(|batch| plan.taken(&request, Verdicts::of(&charges, batch)));
    Decided {
        taken: taken.unwrap_or_default(),
        charges,
        spent,
    }
}
