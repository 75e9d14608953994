use std::{
    fmt, iter,
    sync::{Arc, OnceLock},
};

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::{
    charged_decisions::{ChargedDecisions, denied},
    config::LayerConfig,
    request_charges::{Changes, ChargeChange, RequestCharges},
    request_permits::{RequestPermits, WeakPermits},
};
use crate::{
    backend::BackendError,
    decision::{BatchDecision, Decision},
    id::Id,
    limiter::{Limiter, LimiterError},
    rule::{Charge, KeptCharges, charged},
    task::detached,
    transaction::{LimitRef, Mode, Operation, Transaction},
};

/// The decisions of rate limiting layers on a request. With [`extensions(true)`](super::RateLimitLayer::extensions), handlers
/// find it in the extensions of the request. With [`response_extension`](super::RateLimitLayer::response_extension), outer
/// layers find it in the extensions of the response. Nested layers add to it.
///
/// A handler can settle what a rule has charged, or refund it. With the feature `axum`, an `Assessment` is an extractor, which
/// answers 500 if no layer has `extensions(true)`:
///
/// ```
/// use axum::{Router, http::StatusCode, routing::post};
/// use tollgate::{ClientIp, Limit, RateLimitLayer, layer::Assessment};
///
/// async fn upload(assessment: Assessment, body: String) -> StatusCode {
///     let Some(kilobytes) = assessment.of("kilobytes") else { return StatusCode::OK };
///     // Each kilobyte counts, also one that is not full.
///     match kilobytes.settle((body.len() as u32).div_ceil(1024)).await {
///         Ok(()) => StatusCode::OK,
///         Err(_) => StatusCode::SERVICE_UNAVAILABLE,
///     }
/// }
///
/// let layer = RateLimitLayer::new(Limit::per_second(1000), ClientIp::peer()).named("kilobytes");
/// let app: Router = Router::new().route("/", post(upload)).layer(layer.extensions(true));
/// # let _ = app;
/// ```
#[derive(Clone)]
pub struct Assessment {
    outer: Option<Arc<Self>>,
    ours: Arc<OwnDecisions>,
    permits: WeakPermits,
}

/// The decisions of one layer, as it has made them. They are large, so `Arc::default` constructs them on the heap, without a
/// copy.
pub(super) struct OwnDecisions {
    /// Set before the first decision.
    layer: Option<Arc<LayerConfig>>,
    pub(super) charges: KeptCharges,
    pub(super) decisions: BatchDecision,
    denied: Option<usize>,
    /// The same for handlers. Most of them never ask.
    assessed: OnceLock<Box<[Assessed]>>,
}

/// The decision on one limit. [`Assessment`] has an example.
#[derive(Debug)]
#[non_exhaustive]
pub struct Assessed {
    /// The limit's name.
    pub limit: Arc<str>,
    /// The id of the client. It can be a [secret](Id::secret): show people [`Id::shown`].
    pub id: Id,
    /// The requested cost.
    pub cost: u32,
    /// The mode of the rule.
    pub mode: Mode,
    /// The decision.
    pub decision: Decision,
    /// The limiter that decided.
    pub limiter: Limiter,
    /// The amount that the decision has charged.
    charged_at_first: u32,
    /// The charges of this request, once they have been changed.
    charges: OnceLock<Arc<SharedCharges>>,
}

impl Assessment {
    /// Creates the assessment of a layer's own decisions.
    pub(super) fn new(ours: &Arc<OwnDecisions>) -> Self {
        Self {
            outer: None,
            permits: WeakPermits::default(),
            ours: Arc::clone(ours),
        }
    }

    /// Creates the assessment of a request that no rule charges.
    pub(super) fn without_charge() -> Self {
        Self::new(&Arc::default())
    }

    /// Adds this assessment to the decisions of outer layers.
    pub(super) fn within(mut self, outer: &Self) -> Self {
        self.outer = Some(Arc::new(outer.clone()));
        self
    }

    /// The decisions on all limits: those of outer layers first, then in the order of rules.
    pub fn iter(&self) -> impl Iterator<Item = &Assessed> {
        let outwards = iter::successors(Some(self), |inner| inner.outer.as_deref());
        let mut layers: SmallVec<[_; 2]> = outwards.map(|layer| layer.ours.assessed()).collect();
        layers.reverse();
        layers.into_iter().flatten()
    }

    /// The decision on a limit by the innermost layer that has it, or `None` if no rule of that limit charged the
    /// request.
    ///
    /// The limit is given by name or by a [handle](crate::limiter::LimitHandle). A misspelt name also returns `None`.
    /// A handle rules that out, because it only exists for known names.
    #[must_use]
    pub fn of<'a>(&self, limit: impl Into<LimitRef<'a>>) -> Option<&Assessed> {
        let name = limit.into().as_str();
        let mut outwards = iter::successors(Some(self), |inner| inner.outer.as_deref());
        outwards.find_map(|layer| {
            let mut ours = layer.ours.assessed().iter();
            ours.find(|assessed| *assessed.limit == *name)
        })
    }

    /// The permits of the request that the innermost layer holds, for work that lasts longer than the response. `None` if it
    /// has none, or if they were given back.
    #[must_use]
    pub fn permits(&self) -> Option<RequestPermits> {
        self.permits.upgrade()
    }

    /// Lends the permits of the request.
    pub(super) fn lend(&mut self, permits: &RequestPermits) {
        self.permits = permits.downgrade();
    }

    /// Refunds everything that the request was charged, for example because the operation failed. Grants of
    /// [tiers](crate::tiers) cannot be refunded, and permits are given back when the response has ended. A second call refunds only what the first one could not give back
    /// ([`Assessed::settle`]).
    ///
    /// # Errors
    ///
    /// The first error. The other limits are refunded all the same.
    pub async fn refund(&self) -> Result<(), LimiterError> {
        let mut result = Ok(());
        for assessed in self
            .iter()
            .filter(|assessed| !assessed.decision.has_tiers())
        {
            result = result.and(assessed.settle(0).await);
        }
        result
    }

    /// Returns the decision at an index among the layer's own.
    pub(super) fn own(&self, place: usize) -> &Assessed {
        &self.ours.assessed()[place]
    }

    /// Returns the requested cost at an index among the layer's own.
    pub(super) fn own_cost(&self, place: usize) -> u32 {
        self.ours.charges.list().at(place).terms.cost
    }
}

impl fmt::Debug for Assessment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Default for OwnDecisions {
    #[inline(always)]
    fn default() -> Self {
        Self {
            layer: None,
            charges: KeptCharges::default(),
            decisions: BatchDecision::default(),
            denied: None,
            assessed: OnceLock::new(),
        }
    }
}

impl OwnDecisions {
    /// Begins without decisions.
    #[inline(always)]
    pub(super) fn new(layer: &Arc<LayerConfig>) -> Arc<Self> {
        let mut ours = Arc::<Self>::default();
        Self::undecided(&mut ours).layer = Some(Arc::clone(layer));
        ours
    }

    /// Returns decisions that nobody shares yet, to write them.
    #[inline(always)]
    pub(super) fn undecided(ours: &mut Arc<Self>) -> &mut Self {
        Arc::get_mut(ours).expect("nobody else has it before it is decided")
    }

    /// Finds the decision that denies the request, once all are made.
    #[inline(always)]
    pub(super) fn judge(&mut self) {
        self.denied = denied(&self.decisions);
    }

    #[inline(always)]
    pub(super) fn view(&self) -> ChargedDecisions<'_> {
        ChargedDecisions {
            charges: self.charges.list(),
            decisions: self.decisions.members(),
            denied: self.denied,
        }
    }

    fn assessed(&self) -> &[Assessed] {
        self.assessed.get_or_init(|| {
            let Some(layer) = &self.layer else {
                return Box::default();
            };
            let decisions = self.view().iter();
            let assessed = decisions.map(|(charge, decision)| self.assess(layer, charge, decision));
            assessed.collect()
        })
    }

    fn assess(&self, layer: &LayerConfig, charge: Charge<'_>, decision: &Decision) -> Assessed {
        let LayerConfig { limiter, rules, .. } = layer;
        let mode = rules.mode(charge);
        let takes = self.denied.is_none() && mode.spends() && decision.limited();
        Assessed {
            limit: Arc::clone(rules.limit(charge)),
            id: charge.id.as_found().clone(),
            cost: charge.terms.cost,
            mode,
            decision: decision.clone(),
            limiter: limiter.clone(),
            charged_at_first: if takes { decision.granted() } else { 0 },
            charges: OnceLock::new(),
        }
    }
}

impl Assessed {
    /// A transaction that would charge the same again.
    #[must_use]
    pub fn transaction(&self) -> Transaction<'_> {
        charged(&self.limit, &self.id)
            .cost(self.cost)
            .mode(self.mode)
    }

    /// Returns the current charge of this request to the bucket: what was charged, and not given back.
    #[must_use]
    pub fn charged(&self) -> u32 {
        let charges = self.charges.get();
        charges.map_or(self.charged_at_first, |charges| charges.lock().charge())
    }

    /// Corrects the charge of the request to `cost`. The difference is refunded or charged, into debt if necessary.
    /// [Tiers](crate::tiers) are charged as much as they grant.
    ///
    /// It can be called several times, and concurrently; the last cost counts. Once polled, it completes even if its
    /// future is dropped, for example because the client disconnected. If an error leaves open whether the store has
    /// made a change, that change is neither repeated nor undone.
    ///
    /// A refund can give nothing back: while others wait in line, if the bucket is full, or after the end of a quota's
    /// period. That part stays charged. A later call does not charge it again, or tries again to refund it.
    ///
    /// # Errors
    ///
    /// If the backend does not answer, or if the cost of a limit with tiers would decrease.
    pub async fn settle(&self, cost: u32) -> Result<(), LimiterError> {
        match self.try_settle(cost) {
            Ok(settled) => settled,
            Err(correction) => detached(correction.make()).await,
        }
    }

    /// Corrects the charge without waiting, or returns the changes that remain. Permits are given back when the response has
    /// ended.
    pub(super) fn try_settle(
        &self,
        cost: u32,
    ) -> Result<Result<(), LimiterError>, Box<Correction>> {
        let is_settled = self.decision.blocked() || self.decision.hold().is_some();
        if !self.decision.limited() || is_settled {
            return Ok(Ok(()));
        }
        if self.decision.has_tiers() && cost < self.charged() {
            return Ok(Err(LimiterError::not_with_tiers(&self.limit, "refunded")));
        }
        let changes = self.charges().lock().settle(cost);
        let mut correction = Correction {
            limiter: self.limiter.clone(),
            limit: Arc::clone(&self.limit),
            id: self.id.clone(),
            has_tiers: self.decision.has_tiers(),
            charges: Arc::clone(self.charges()),
            changes,
        };
        match correction.try_make() {
            Some(made) => Ok(made),
            None => Err(Box::new(correction)),
        }
    }

    /// Returns the charges, which exist from the first change on.
    fn charges(&self) -> &Arc<SharedCharges> {
        self.charges.get_or_init(|| {
            let charges = RequestCharges::new(self.charged_at_first, self.decision.receipt());
            Arc::new(SharedCharges(Mutex::new(charges)))
        })
    }
}

/// The charges of one request, which can be changed concurrently.
#[derive(Debug)]
struct SharedCharges(Mutex<RequestCharges>);

impl SharedCharges {
    fn lock(&self) -> MutexGuard<'_, RequestCharges> {
        self.0.lock()
    }
}

/// Changes of the charges, which may have to wait for the store.
#[derive(Debug)]
pub(super) struct Correction {
    limiter: Limiter,
    limit: Arc<str>,
    id: Id,
    has_tiers: bool,
    charges: Arc<SharedCharges>,
    changes: Changes,
}

impl Correction {
    /// Makes the changes that do not have to wait, or returns `None` if one does. An error ends all of them, because
    /// the state of the store is then unknown.
    fn try_make(&mut self) -> Option<Result<(), LimiterError>> {
        while let Some(change) = self.changes.first() {
            let (operation, transaction) = self.transaction(change);
            let decided = self.limiter.try_decide_one(operation, &transaction)?;
            let change = self.changes.remove(0);
            match decided {
                Ok(decision) => self.made(change, &decision),
                Err(error) => return Some(Err(self.failed(change, error))),
            }
        }
        Some(Ok(()))
    }

    pub(super) async fn make(mut self) -> Result<(), LimiterError> {
        while !self.changes.is_empty() {
            let change = self.changes.remove(0);
            let (operation, transaction) = self.transaction(&change);
            match self.limiter.decide_one(operation, &transaction).await {
                Ok(decision) => self.made(change, &decision),
                Err(error) => return Err(self.failed(change, error)),
            }
        }
        Ok(())
    }

    /// Records a change. The charge can be smaller than requested if tiers grant less, and zero if the limit is off by now
    /// or the store did not decide. Only the answer tells whether a refund has given anything back.
    fn made(&mut self, change: ChargeChange, decision: &Decision) {
        let mut charges = self.charges.lock();
        let next = match change {
            ChargeChange::Charge(cost) => {
                charges.charged(cost, decision.granted(), decision.receipt())
            }
            ChargeChange::Refund(receipt) => {
                let given = decision.given_back(receipt.cost());
                charges.refunded(receipt, given)
            }
        };
        drop(charges);
        self.changes.extend(next);
    }

    /// Records a change that has failed, and those that are not made because of it. A store that did not answer may have
    /// made the change.
    fn failed(&mut self, change: ChargeChange, error: LimiterError) -> LimiterError {
        let is_unknown = matches!(error, LimiterError::Backend(BackendError::Unavailable(_)));
        let mut charges = self.charges.lock();
        match change {
            ChargeChange::Charge(cost) if is_unknown => charges.unknown(cost),
            ChargeChange::Refund(receipt) if is_unknown => charges.unknown_refund(receipt.cost()),
            change => charges.not_made(change),
        }
        for change in self.changes.drain(..) {
            charges.not_made(change);
        }
        drop(charges);
        error
    }

    fn transaction<'a>(&'a self, change: &'a ChargeChange) -> (Operation, Transaction<'a>) {
        let transaction = charged(&self.limit, &self.id).correction();
        match change {
            ChargeChange::Refund(receipt) => (
                Operation::Refund,
                transaction.mode(Mode::Debit).of_receipt(receipt),
            ),
            ChargeChange::Charge(cost) if self.has_tiers => (
                Operation::Spend,
                transaction.cost(*cost).mode(Mode::SpendOnly).min_cost(1),
            ),
            // The cost can be more than the burst, which may have been lowered in between.
            ChargeChange::Charge(cost) => {
                (Operation::Spend, transaction.cost(*cost).mode(Mode::Debit))
            }
        }
    }
}
