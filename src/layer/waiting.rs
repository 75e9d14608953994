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
    deciding::Progress,
    line::Line,
    task::detached,
    verdicts::{Taken, Verdicts},
};
use crate::{
    decision::BatchDecision, key::Missing, limiter::LimiterError, rule::Charges,
    transaction::Operation,
};

/// What a request waits for.
pub(super) enum Waiting {
    ForStore(Undecided),
    InLine(Line),
}

impl Waiting {
    pub(super) fn poll(
        &mut self,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
        cx: &mut Context<'_>,
    ) -> Poll<Conclusion> {
        loop {
            match self {
                Self::ForStore(undecided) => match ready!(undecided.poll(request, additions, cx)) {
                    Progress::Decided(conclusion) => return Poll::Ready(conclusion),
                    Progress::Waiting(next) => *self = *next,
                },
                Self::InLine(line) => {
                    *additions = ready!(line.poll(cx));
                    return Poll::Ready(Conclusion::Proceed);
                }
            }
        }
    }
}

/// A decision that the backend has to wait for.
pub(super) struct Undecided {
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

impl Undecided {
    pub(super) fn new(
        plan: &Arc<LayerConfig>,
        request: &Parts,
        charges: Charges,
        missing: Option<Missing>,
    ) -> Self {
        let plan = Arc::clone(plan);
        // If the client goes away meanwhile, what will have been charged has to be settled, or its place in line left.
        let outlives = plan.settles || plan.limiter.in_force().has_lines();
        let deciding: Pin<Box<_>> = match outlives {
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

    fn poll(
        &mut self,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
        cx: &mut Context<'_>,
    ) -> Poll<Progress> {
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
                    .proceed(request, &limits, spent, taken, missing, additions)
            }
            Err(error) => Progress::Decided(self.plan.fail(request, &charges, error, missing)),
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
