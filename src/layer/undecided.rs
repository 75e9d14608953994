use std::{future::Future, pin::Pin, sync::Arc};

use http::{Extensions, request::Parts};

use super::{config::LayerConfig, taken::Taken, verdicts::Verdicts};
use crate::{
    decision::BatchDecision, key::Missing, limiter::LimiterError, rule::Charges, task::detached,
    transaction::Operation,
};

/// A decision that waits for the backend.
pub(super) struct Undecided {
    pub(super) plan: Arc<LayerConfig>,
    /// The reason for a refusal that does not depend on the decision: a rule has found no id.
    pub(super) missing: Option<Missing>,
    pub(super) deciding: Pin<Box<dyn Future<Output = Decided> + Send>>,
}

/// The charges of a request, and their decisions.
pub(super) struct Decided {
    pub(super) charges: Charges,
    pub(super) spent: Result<BatchDecision, LimiterError>,
    pub(super) taken: Taken,
}

impl Undecided {
    pub(super) fn new(
        plan: &Arc<LayerConfig>,
        request: &Parts,
        charges: Charges,
        missing: Option<Missing>,
    ) -> Self {
        let plan = Arc::clone(plan);
        // If the client disconnects in the meantime, the charge must still be settled, or the place in line released.
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
