use std::sync::Arc;

use crate::{
    decision::Decision,
    id::Id,
    limiter::{Limiter, LimiterError},
    rule::{Charge, Rules, charged},
    transaction::{Mode, Transaction},
};

/// What rate limiting layers have decided on a request: among the extensions of the request, for
/// handlers, and of the response, for outer layers. Layers inside others add to it.
///
/// ```
/// use axum::{Extension, http::StatusCode};
/// use tollgate::{Transaction, layer::Assessment};
///
/// async fn upload(Extension(assessment): Extension<Assessment>, body: String) -> StatusCode {
///     let Some(client) = assessment.iter().next() else { return StatusCode::OK };
///     // Each kilobyte counts.
///     let kilobytes = Transaction::new("bytes", client.id.as_str()).cost(body.len() as u32 / 1024);
///     match client.limiter.spend(&kilobytes).await {
///         Ok(decision) if decision.allowed() => StatusCode::OK,
///         Ok(_) => StatusCode::TOO_MANY_REQUESTS,
///         Err(_) => StatusCode::SERVICE_UNAVAILABLE,
///     }
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Assessment(Arc<[Assessed]>);

/// What was decided for one limit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Assessed {
    /// The limit's name.
    pub limit: Arc<str>,
    /// Whose bucket it is.
    pub id: Id,
    /// What was charged, or would have been.
    pub cost: u32,
    /// How it took part.
    pub mode: Mode,
    /// The decision.
    pub decision: Decision,
    /// The limiter that decided.
    pub limiter: Limiter,
    charged: bool,
}

impl Assessment {
    /// Adds a layer's decisions to those of the layers outside of it.
    pub(super) fn new<'a>(
        outer: Option<&Self>,
        limiter: &Limiter,
        rules: &Rules,
        decisions: impl Iterator<Item = (&'a Charge, &'a Decision)>,
        allowed: bool,
    ) -> Self {
        let ours = decisions.map(|(charge, decision)| Assessed {
            limit: Arc::clone(rules.limit(charge)),
            id: charge.id.clone(),
            cost: charge.cost,
            mode: rules.mode(charge),
            decision: decision.clone(),
            limiter: limiter.clone(),
            charged: allowed && decision.allowed(),
        });
        match outer {
            Some(Self(outer)) => Self(outer.iter().cloned().chain(ours).collect()),
            None => Self(ours.collect()),
        }
    }

    /// Each limit with its decision: those of outer layers first, then in the order of rules.
    pub fn iter(&self) -> impl Iterator<Item = &Assessed> {
        self.0.iter()
    }

    /// Gives back everything that the request was charged, as when what it asked for has failed. What
    /// [tiers](crate::tiers) have granted stays so.
    ///
    /// It is for the caller to do so once.
    ///
    /// # Errors
    ///
    /// The first error of a limiter. All others have given back nevertheless.
    pub async fn refund(&self) -> Result<(), LimiterError> {
        let mut result = Ok(());
        for assessed in self.0.iter().filter(|assessed| assessed.is_refundable()) {
            let refunded = assessed.limiter.refund(&assessed.transaction()).await;
            result = result.and(refunded.map(drop));
        }
        result
    }
}

impl Assessed {
    fn is_refundable(&self) -> bool {
        self.charged && !self.decision.has_tiers()
    }

    /// The transaction by which the same would be charged again.
    #[must_use]
    pub fn transaction(&self) -> Transaction<'_> {
        charged(&self.limit, &self.id)
            .cost(self.cost)
            .mode(self.mode)
    }
}
