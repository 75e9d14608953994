use std::{future::Future, pin::Pin, sync::Arc};

use http::{Extensions, request::Parts};

use super::{
    assessment::OwnDecisions, config::LayerConfig, pending_settlement::Start, waiting_room::Seat,
};
use crate::{
    decision::BatchDecision,
    key::MissingId,
    limit::Limits,
    limiter::{Limiter, LimiterError},
    rule::KeptCharges,
    task::detached,
    transaction::{Operation, Transaction},
};

/// A decision that waits for the backend.
pub(super) struct StoreWait {
    pub(super) config: Arc<LayerConfig>,
    /// The limits that decide, whatever is reloaded in the meantime.
    pub(super) limits: Arc<Limits>,
    /// The reason for a refusal that does not depend on the decision: a rule has found no id.
    pub(super) missing: Option<Box<MissingId>>,
    pub(super) deciding: Pin<Box<dyn Future<Output = StoreDecision> + Send>>,
}

/// The decisions on a request and when it starts, or why its charges could not be decided.
pub(super) type StoreDecision = Result<(Arc<OwnDecisions>, Start), (KeptCharges, LimiterError)>;

impl StoreWait {
    pub(super) fn new(
        config: &Arc<LayerConfig>,
        request: &Parts,
        charges: KeptCharges,
        missing: Option<Box<MissingId>>,
    ) -> Self {
        let (config, limits) = (Arc::clone(config), config.limiter.limits());
        // If the client disconnects in the meantime, the charge must still be settled, or the place in line or the permit
        // given back.
        let is_needed = config.settles || limits.has_lines() || limits.has_permits();
        // In memory, a request only waits for permits, and has not been charged until it has them.
        let outlives = is_needed && !config.limiter.decides_at_once();
        let extensions = match is_needed {
            true => request.extensions.clone(),
            false => Extensions::new(),
        };
        let seat = config.seat(&limits, charges.list(), missing.as_deref());
        let spend = WaitingSpend {
            config: Arc::clone(&config),
            limits: Arc::clone(&limits),
            request: extensions,
            charges,
            seat,
        };
        let deciding = spend.decide();
        let deciding: Pin<Box<_>> = match outlives {
            true => detached(deciding),
            false => Box::pin(deciding),
        };
        Self {
            config,
            limits,
            missing,
            deciding,
        }
    }
}

/// The charges of a request to decide, and all that the decision needs if the request has gone.
struct WaitingSpend {
    config: Arc<LayerConfig>,
    limits: Arc<Limits>,
    request: Extensions,
    charges: KeptCharges,
    /// The seat of a request that may have to wait in line.
    seat: Option<Seat>,
}

impl WaitingSpend {
    async fn decide(self) -> StoreDecision {
        let Self {
            config,
            limits,
            request,
            charges,
            seat,
        } = self;
        let transactions = config.rules.transactions(charges.list(), seat.is_some());
        let decided = spend(&config.limiter, &limits, &transactions, seat.as_ref()).await;
        drop(transactions);
        match decided {
            Ok(decisions) => {
                let mut ours = OwnDecisions::new(&config);
                let place = OwnDecisions::undecided(&mut ours);
                (place.charges, place.decisions) = (charges, decisions);
                place.judge();
                let start = config.start(&request, &ours, seat);
                Ok((ours, start))
            }
            Err(error) => Err((charges, error)),
        }
    }
}

/// Decides the charges of a request. In memory, one that may wait for permits does so, in order of arrival.
async fn spend(
    limiter: &Limiter,
    limits: &Limits,
    transactions: &[Transaction<'_>],
    seat: Option<&Seat>,
) -> Result<BatchDecision, LimiterError> {
    #[cfg(feature = "tokio")]
    if seat.is_some()
        && let Some(turn) = limiter.join_lines(limits, transactions)
    {
        turn.comes().await;
        loop {
            let spent = limiter
                .decide(limits, Operation::Spend, transactions)
                .await?;
            if !turn.comes_after(&spent).await {
                return Ok(spent);
            }
        }
    }
    let _ = seat;
    limiter.decide(limits, Operation::Spend, transactions).await
}
