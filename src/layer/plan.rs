use std::{
    future::Future,
    pin::Pin,
    slice,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Response, request::Parts};

use super::{assessment::Assessment, health::Health};
use crate::{
    decision::{BatchDecision, Decision},
    limiter::{Limiter, LimiterError},
    response::{Denial, Denials, Fields, Headers, Policy, Responder, Shown},
    rule::{Charge, Charges, Rules},
    transaction::Operation,
};

/// What a layer does, shared by its services.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) limiter: Limiter,
    pub(super) rules: Rules,
    /// For each rule, its limit's policy.
    pub(super) policies: Vec<Policy>,
    pub(super) responder: Responder,
    pub(super) headers: Headers,
    pub(super) extensions: bool,
    pub(super) health: Arc<Health>,
}

/// How far a request has come.
pub(super) enum Progress {
    Decided(Conclusion),
    Waiting(Waiting),
}

/// What becomes of a request.
pub(super) enum Conclusion {
    Proceed(Mark),
    /// Boxed, so that a request that proceeds does not carry the room for it around.
    Refuse(Box<Response<Bytes>>),
}

/// What a request that proceeds leaves on itself and its response.
#[derive(Debug, Default)]
pub(super) struct Mark {
    assessment: Option<Assessment>,
    fields: Option<Fields>,
}

impl Conclusion {
    fn refuse(response: Response<Bytes>) -> Self {
        Self::Refuse(Box::new(response))
    }
}

impl Plan {
    /// Decides a request, or begins to if the backend has to wait.
    pub(super) fn assess(self: &Arc<Self>, request: &Parts) -> Progress {
        let mut charges = Charges::new();
        if let Err(missing) = self.rules.charge(request, &mut charges) {
            return Progress::Decided(Conclusion::refuse(
                self.responder.missing(request, &missing),
            ));
        }
        if charges.is_empty() {
            return Progress::Decided(Conclusion::Proceed(Mark::default()));
        }
        match self.try_spend(request, &charges) {
            Some(conclusion) => Progress::Decided(conclusion),
            None => Progress::Waiting(Waiting::new(Arc::clone(self), charges)),
        }
    }

    /// Decides at once, if the backend does not have to wait.
    fn try_spend(&self, request: &Parts, charges: &[Charge]) -> Option<Conclusion> {
        if let [charge] = charges {
            let spent = self.limiter.try_spend(&self.rules.transaction(charge))?;
            return Some(match &spent {
                Ok(decision) => {
                    let votes = self.rules.mode(charge).votes() && decision.limited();
                    let decisions = slice::from_ref(decision);
                    self.conclude(request, charges, decisions, votes.then_some(0))
                }
                Err(error) => self.fail(request, error),
            });
        }
        let spent = self
            .limiter
            .try_spend_batch(&self.rules.transactions(charges))?;
        Some(self.conclude_batch(request, charges, &spent))
    }

    fn conclude_batch(&self, request: &Parts, charges: &[Charge], spent: &Spent) -> Conclusion {
        match spent {
            Ok(batch) => self.conclude(request, charges, batch.members(), batch.strictest()),
            Err(error) => self.fail(request, error),
        }
    }

    #[inline]
    fn conclude(
        &self,
        request: &Parts,
        charges: &[Charge],
        decisions: &[Decision],
        strictest: Option<usize>,
    ) -> Conclusion {
        self.health.decided();
        let denied = strictest.filter(|i| !decisions[*i].allowed());
        let mark = self.mark(request, charges, decisions, denied.is_none());
        match denied {
            Some(i) => {
                let response = self.refuse(request, charges, decisions, i);
                Conclusion::refuse(mark.put_on(response))
            }
            None => Conclusion::Proceed(mark),
        }
    }

    fn refuse(
        &self,
        request: &Parts,
        charges: &[Charge],
        decisions: &[Decision],
        strictest: usize,
    ) -> Response<Bytes> {
        let limits = self.limiter.limits();
        let denial = |i: usize| {
            let (charge, decision) = (&charges[i], &decisions[i]);
            let (limit, id) = (self.rules.limit(charge), charge.id.as_str());
            Denial::new(&limits, limit, id, charge.cost, decision)
        };
        let denies = |i: &usize| {
            let votes = self.rules.mode(&charges[*i]).votes() && !decisions[*i].in_shadow();
            votes && !decisions[*i].allowed()
        };
        let denials: Denials<'_> = (0..charges.len()).filter(denies).map(denial).collect();
        self.responder.denied(request, denial(strictest), denials)
    }

    fn fail(&self, request: &Parts, error: &LimiterError) -> Conclusion {
        self.health.failed(error);
        let limits = self.limiter.limits();
        Conclusion::refuse(self.responder.failed(request, error, &limits))
    }

    #[inline]
    fn mark(
        &self,
        request: &Parts,
        charges: &[Charge],
        decisions: &[Decision],
        allowed: bool,
    ) -> Mark {
        let decided = charges.iter().zip(decisions);
        let fields = self
            .headers
            .write(decided.clone().map(|(charge, decision)| Shown {
                limit: self.rules.limit(charge),
                decision,
                policy: &self.policies[charge.rule],
                votes: self.rules.mode(charge).votes(),
            }));
        let assessment = self.extensions.then(|| {
            let outer = request.extensions.get();
            Assessment::new(outer, &self.limiter, &self.rules, decided, allowed)
        });
        Mark { assessment, fields }
    }
}

impl Mark {
    /// Puts the assessment on a request for its handler.
    pub(super) fn announce(&self, request: &mut Parts) {
        if let Some(assessment) = &self.assessment {
            request.extensions.insert(assessment.clone());
        }
    }

    /// Puts the fields and, unless an inner layer has put its own, the assessment on a response.
    pub(super) fn put_on<B>(self, mut response: Response<B>) -> Response<B> {
        if let Some(fields) = self.fields {
            fields.put_on(response.headers_mut());
        }
        if let Some(assessment) = self.assessment
            && response.extensions().get::<Assessment>().is_none()
        {
            response.extensions_mut().insert(assessment);
        }
        response
    }
}

/// A decision that the backend has to wait for.
pub(super) struct Waiting {
    plan: Arc<Plan>,
    deciding: Pin<Box<dyn Future<Output = (Charges, Spent)> + Send>>,
}

type Spent = Result<BatchDecision, LimiterError>;

impl Waiting {
    fn new(plan: Arc<Plan>, charges: Charges) -> Self {
        let spending = Arc::clone(&plan);
        let deciding = Box::pin(async move {
            let transactions = spending.rules.transactions(&charges);
            let spent = spending
                .limiter
                .wait_batch(Operation::Spend, &transactions)
                .await;
            drop(transactions);
            (charges, spent)
        });
        Self { plan, deciding }
    }

    pub(super) fn poll(&mut self, request: &Parts, cx: &mut Context<'_>) -> Poll<Conclusion> {
        let (charges, spent) = ready!(self.deciding.as_mut().poll(cx));
        Poll::Ready(self.plan.conclude_batch(request, &charges, &spent))
    }
}
