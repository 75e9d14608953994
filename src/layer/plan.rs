use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Response, request::Parts};

use super::assessment::Assessment;
use crate::{
    decision::BatchDecision,
    limiter::{Limiter, LimiterError},
    response::{Denial, Fields, Responder},
    rule::{Charges, Rules},
};

/// What a layer does, shared by its services.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) limiter: Limiter,
    pub(super) rules: Rules,
    pub(super) responder: Responder,
    pub(super) headers: bool,
    pub(super) extensions: bool,
}

/// How far a request has come.
pub(super) enum Progress {
    Decided(Conclusion),
    Waiting(Waiting),
}

/// What becomes of a request.
pub(super) enum Conclusion {
    Proceed(Mark),
    Refuse(Response<Bytes>),
}

/// What a request that proceeds leaves on itself and its response.
#[derive(Debug, Default)]
pub(super) struct Mark {
    assessment: Option<Assessment>,
    fields: Option<Fields>,
}

impl Plan {
    /// Decides a request, or begins to if the backend has to wait.
    pub(super) fn assess(self: &Arc<Self>, request: &Parts) -> Progress {
        let charges = match self.rules.charges(request) {
            Ok(charges) => charges,
            Err(missing) => {
                return Progress::Decided(Conclusion::Refuse(Responder::missing(
                    request, &missing,
                )));
            }
        };
        let spent = self
            .limiter
            .try_spend_batch(&self.rules.transactions(&charges));
        match spent {
            Some(spent) => Progress::Decided(self.conclude(request, &charges, spent)),
            None => Progress::Waiting(Waiting::new(Arc::clone(self), charges)),
        }
    }

    fn conclude(&self, request: &Parts, charges: &Charges, spent: Spent) -> Conclusion {
        let batch = match spent {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(%error, "a request could not be rate limited");
                return Conclusion::Refuse(Responder::failed(request, &error));
            }
        };
        let mark = self.mark(request, charges, &batch);
        match batch.strictest().filter(|_| !batch.allowed()) {
            Some(strictest) => Conclusion::Refuse(mark.put_on(self.responder.denied(&Denial {
                limit: self.rules.limit(&charges[strictest]),
                id: charges[strictest].id.as_str(),
                decision: batch.decision(),
                request,
            }))),
            None => Conclusion::Proceed(mark),
        }
    }

    fn mark(&self, request: &Parts, charges: &Charges, batch: &BatchDecision) -> Mark {
        let limits = charges.iter().map(|charge| &**self.rules.limit(charge));
        Mark {
            assessment: self.extensions.then(|| {
                Assessment::new(
                    &request.extensions,
                    &self.limiter,
                    &self.rules,
                    charges,
                    batch,
                )
            }),
            fields: self
                .headers
                .then(|| Fields::new(limits.zip(batch.members())))
                .flatten(),
        }
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
            fields.append_to(response.headers_mut());
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
            let spent = spending.limiter.spend_batch(&transactions).await;
            drop(transactions);
            (charges, spent)
        });
        Self { plan, deciding }
    }

    pub(super) fn poll(&mut self, request: &Parts, cx: &mut Context<'_>) -> Poll<Conclusion> {
        let (charges, spent) = ready!(self.deciding.as_mut().poll(cx));
        Poll::Ready(self.plan.conclude(request, &charges, spent))
    }
}
