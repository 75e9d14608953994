use std::{
    future::Future,
    pin::Pin,
    slice,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Response, request::Parts};
use http_body::Body;

use super::{
    assessment::Assessment,
    body::ResponseBody,
    health::Health,
    settlement::{Closing, Settlement, detached},
    traffic::Traffic,
};
use crate::{
    check::{Check, Finding},
    decision::{BatchDecision, Decision},
    limiter::{Limiter, LimiterError},
    response::{Denial, Fields, Policy, Responder, Shown},
    rule::{Charge, Charges, Ending, Predicates, Rules},
    transaction::Operation,
};

/// What a layer does, shared by its services.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) limiter: Limiter,
    pub(super) rules: Rules,
    /// For each limit of each rule, its policy.
    pub(super) policies: Vec<Policy>,
    pub(super) responder: Responder,
    pub(super) headers: bool,
    pub(super) extensions: bool,
    /// Requests that no rule is for.
    pub(super) exempt: Predicates,
    /// Whether a rule is charged by how requests end.
    pub(super) settles: bool,
    pub(super) health: Arc<Health>,
    pub(super) traffic: Arc<Traffic>,
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

/// What a request that proceeds leaves on itself and its response, and what is open until it has ended.
#[derive(Debug, Default)]
pub(super) struct Mark {
    assessment: Option<Assessment>,
    fields: Option<Fields>,
    pub(super) settlement: Option<Box<Settlement>>,
}

impl Conclusion {
    fn refuse(response: Response<Bytes>) -> Self {
        Self::Refuse(Box::new(response))
    }
}

impl Plan {
    /// Tells what is known at start to be a mistake, or refuses it.
    pub(super) fn verify(&self) -> Result<(), Finding> {
        const CHECK: Check = Check::EveryoneTrusted;
        let checks = self.traffic.checks();
        for limit in self.rules.gullible().filter(|_| checks.has(CHECK)) {
            let seen =
                format!("the rule of limit `{limit}` believes whoever sends a proxy's header");
            let finding = Finding::new(CHECK, seen);
            if checks.is_strict() {
                return Err(finding);
            }
            self.traffic.tell(&finding);
        }
        Ok(())
    }

    /// Decides a request, or begins to if the backend has to wait.
    pub(super) fn assess(self: &Arc<Self>, request: &Parts) -> Progress {
        if self.exempt.any(request) {
            return Progress::Decided(Conclusion::Proceed(Mark::default()));
        }
        let mut charges = Charges::new();
        if let Err(missing) = self.rules.charge(request, &self.limiter, &mut charges) {
            return Progress::Decided(Conclusion::refuse(Responder::missing(request, &missing)));
        }
        if charges.is_empty() {
            return Progress::Decided(Conclusion::Proceed(Mark::default()));
        }
        self.traffic.look(request, &self.rules, &charges);
        match self.try_spend(request, &charges) {
            Some(conclusion) => Progress::Decided(conclusion),
            None => Progress::Waiting(Waiting::new(Arc::clone(self), charges)),
        }
    }

    /// Decides at once, if the backend does not have to wait.
    fn try_spend(self: &Arc<Self>, request: &Parts, charges: &[Charge]) -> Option<Conclusion> {
        if let [charge] = charges {
            let spent = self.limiter.try_spend(&self.rules.transaction(charge))?;
            return Some(match &spent {
                Ok(decision) => {
                    let votes = self.rules.mode(charge).votes() && decision.limited();
                    let spent = Verdicts {
                        charges,
                        decisions: slice::from_ref(decision),
                        strictest: votes.then_some(0),
                    };
                    self.conclude(request, spent, self.taken(spent))
                }
                Err(error) => self.fail(request, charges, error),
            });
        }
        let spent = self
            .limiter
            .try_spend_batch(&self.rules.transactions(charges))?;
        Some(match &spent {
            Ok(batch) => {
                let spent = Verdicts::of(charges, batch);
                self.conclude(request, spent, self.taken(spent))
            }
            Err(error) => self.fail(request, charges, error),
        })
    }

    /// What a request has taken, for its handler and for how it ends.
    #[inline]
    fn taken(self: &Arc<Self>, spent: Verdicts<'_>) -> Taken {
        if !self.extensions && !self.settles {
            return Taken::default();
        }
        let allowed = spent.denied().is_none();
        let assessment = Assessment::new(&self.limiter, &self.rules, spent.iter(), allowed);
        let settlement = match self.settles && allowed {
            true => self.settlement(&assessment, spent),
            false => None,
        };
        Taken {
            assessment: Some(assessment),
            settlement,
        }
    }

    fn settlement(
        self: &Arc<Self>,
        assessment: &Assessment,
        spent: Verdicts<'_>,
    ) -> Option<Box<Settlement>> {
        let open = spent.iter().enumerate();
        let open = open.filter(|(_, (charge, decision))| {
            let passes = decision.allowed() && !decision.would_be_denied();
            passes && decision.limited() && self.rules.waits_for_ending(charge)
        });
        let open = open.map(|(place, (charge, _))| (place, charge.rule));
        Settlement::new(self, assessment, open).map(Box::new)
    }

    #[inline]
    fn conclude(&self, request: &Parts, spent: Verdicts<'_>, taken: Taken) -> Conclusion {
        self.health.decided();
        let mark = self.mark(request, spent, taken);
        let Verdicts {
            charges, decisions, ..
        } = spent;
        match spent.denied() {
            Some(i) => Conclusion::refuse(mark.put_on(self.responder.denied(&Denial {
                limit: self.rules.limit(&charges[i]),
                id: charges[i].id.as_str(),
                decision: &decisions[i],
                request,
            }))),
            None => Conclusion::Proceed(mark),
        }
    }

    fn fail(&self, request: &Parts, charges: &[Charge], error: &LimiterError) -> Conclusion {
        self.health.failed(error);
        let mut limits = charges.iter().map(|charge| self.rules.limit(charge));
        match limits.all(|limit| self.limiter.is_shadow(limit)) {
            true => Conclusion::Proceed(Mark::default()),
            false => Conclusion::refuse(Responder::failed(request, error)),
        }
    }

    #[inline]
    fn mark(&self, request: &Parts, spent: Verdicts<'_>, taken: Taken) -> Mark {
        let mut mark = Mark {
            settlement: taken.settlement,
            ..Mark::default()
        };
        if self.headers {
            mark.fields = Fields::new(spent.iter().map(|(charge, decision)| Shown {
                limit: self.rules.limit(charge),
                decision,
                policy: &self.policies[charge.target],
                votes: self.rules.mode(charge).votes(),
            }));
        }
        if self.extensions {
            let outer = request.extensions.get();
            if let Some((outer, ours)) = outer.zip(taken.assessment.as_ref()) {
                self.traffic.look_at_outer(outer, ours);
            }
            mark.assessment = taken.assessment.map(|ours| ours.within(outer));
        }
        mark
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
    fn of(charges: &'a [Charge], batch: &'a BatchDecision) -> Self {
        Self {
            charges,
            decisions: batch.members(),
            strictest: batch.strictest(),
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
    settlement: Option<Box<Settlement>>,
}

impl Mark {
    /// Puts the assessment on a request for its handler.
    pub(super) fn announce(&self, request: &mut Parts) {
        if let Some(assessment) = &self.assessment {
            request.extensions.insert(assessment.clone());
        }
    }

    /// Settles what is charged by how the inner service has ended. Returns what has to be waited for.
    pub(super) fn settle<B, E>(
        &mut self,
        ended: Result<Response<B>, E>,
    ) -> (Result<Response<B>, E>, Option<Closing>) {
        let Some(settlement) = &mut self.settlement else {
            return (ended, None);
        };
        let (ended, closing) = match ended {
            Ok(response) => {
                let (head, body) = response.into_parts();
                let closing = settlement.close(&Ending::with(&head, 0, false), false);
                (Ok(Response::from_parts(head, body)), closing)
            }
            Err(error) => (Err(error), settlement.close(&Ending::FAILED, true)),
        };
        if settlement.is_closed() {
            self.settlement = None;
        }
        (ended, closing)
    }

    /// Puts the fields and, unless an inner layer has put its own, the assessment on a response.
    pub(super) fn put_on<B>(self, mut response: Response<B>) -> Response<B> {
        if let Some(fields) = self.fields {
            fields.append_to(response.headers_mut());
        }
        if let Some(assessment) = self.assessment
            && response.extensions().get::<Assessment>().is_none()
        {
            response.extensions_mut().insert(assessment);
        }
        response
    }

    /// The same for the inner service's response, whose body settles what is still open.
    #[inline]
    pub(super) fn put_on_inner<B: Body<Data = Bytes>, E>(
        mut self,
        ended: Result<Response<B>, E>,
    ) -> Result<Response<ResponseBody<B>>, E> {
        let settlement = self.settlement.take();
        let response = self.put_on(ended?);
        Ok(match settlement {
            None => response.map(ResponseBody::inner),
            Some(settlement) => {
                let (head, body) = response.into_parts();
                let body = ResponseBody::watched(body, head.clone(), *settlement);
                Response::from_parts(head, body)
            }
        })
    }
}

/// A decision that the backend has to wait for.
pub(super) struct Waiting {
    plan: Arc<Plan>,
    deciding: Pin<Box<dyn Future<Output = Decided> + Send>>,
}

/// What a request was charged for, and what came of it.
struct Decided {
    charges: Charges,
    spent: Result<BatchDecision, LimiterError>,
    taken: Taken,
}

impl Waiting {
    fn new(plan: Arc<Plan>, charges: Charges) -> Self {
        let settles = plan.settles;
        let deciding = decide(Arc::clone(&plan), charges);
        // If the client goes away meanwhile, what will have been charged has to be settled.
        let deciding = match settles {
            true => detached(deciding),
            false => Box::pin(deciding),
        };
        Self { plan, deciding }
    }

    pub(super) fn poll(&mut self, request: &Parts, cx: &mut Context<'_>) -> Poll<Conclusion> {
        let Decided {
            charges,
            spent,
            taken,
        } = ready!(self.deciding.as_mut().poll(cx));
        Poll::Ready(match &spent {
            Ok(batch) => self
                .plan
                .conclude(request, Verdicts::of(&charges, batch), taken),
            Err(error) => self.plan.fail(request, &charges, error),
        })
    }
}

async fn decide(plan: Arc<Plan>, charges: Charges) -> Decided {
    let transactions = plan.rules.transactions(&charges);
    let spent = plan.limiter.wait_batch(Operation::Spend, &transactions);
    let spent = spent.await;
    drop(transactions);
    let taken = spent
        .as_ref()
        .map(|batch| plan.taken(Verdicts::of(&charges, batch)));
    Decided {
        taken: taken.unwrap_or_default(),
        charges,
        spent,
    }
}
