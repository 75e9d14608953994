use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::{Extensions, request::Parts};

use super::{
    additions::ResponseAdditions,
    conclusion::Conclusion,
    config::LayerConfig,
    task::detached,
    verdicts::{Taken, Verdicts},
};
use crate::{
    decision::BatchDecision, key::Missing, limiter::LimiterError, rule::Charges,
    transaction::Operation,
};

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
    pub(super) fn new(
        plan: &Arc<LayerConfig>,
        request: &Parts,
        charges: Charges,
        missing: Option<Missing>,
    ) -> Self {
        let plan = Arc::clone(plan);
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

    pub(super) fn poll(
        &mut self,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
        cx: &mut Context<'_>,
    ) -> Poll<Conclusion> {
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
                self.plan
                    .conclude(request, &limits, spent, taken, missing, additions)
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
