//! What a handler sees of the decisions on its request, and what it can change.

use std::{fmt, slice, sync::Arc};

use bytes::Bytes;
use http::{Response, request::Parts};
use smallvec::SmallVec;
use tokio::sync::Mutex;

use super::{charges::RequestCharges, config::Config};
use crate::{
    algorithm::AskError,
    backend::BackendError,
    batch::OwnedMember,
    decision::Decision,
    id::Id,
    limiter::{Correction, LentPermit, Limiter, LimiterError, NotAdmitted, NotAdmittedBy, Permit},
    response::{DecidedCharges, ResponseFields},
    transaction::{Mode, Operation, Receipt},
};

/// The decisions of rate limiting layers on a request. With [`extensions(true)`](super::RateLimitLayer::extensions), handlers
/// find it in the extensions of the request. Nested layers add to it.
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
/// let layer = RateLimitLayer::new(Limit::per_second(10), ClientIp::peer())
///     .limit("kilobytes", Limit::per_second(1000), ClientIp::peer());
/// let app: Router = Router::new().route("/", post(upload)).layer(layer.extensions(true));
/// # let _ = app;
/// ```
#[derive(Clone)]
pub struct Assessment {
    /// The outermost first.
    layers: SmallVec<[Arc<LayerDecisions>; 1]>,
    /// The innermost layer, which answers denials of the handler's own.
    innermost: Arc<Config>,
}

/// The decisions of one layer on a request, and the permits that it holds.
#[derive(Debug)]
pub(super) struct LayerDecisions {
    pub(super) all: Box<[LimitAssessment]>,
    permits: LentPermit,
}

/// The decision on one limit. [`Assessment`] has an example.
#[derive(Debug)]
#[non_exhaustive]
pub struct LimitAssessment {
    /// The limit's name.
    pub limit: Arc<str>,
    /// The id of the client, or `None` if requests without an id share a bucket. It can be a [secret](Id::secret): show people
    /// [`Id::shown`].
    pub id: Option<Id>,
    /// The requested cost.
    pub cost: u32,
    /// The decision.
    pub decision: Decision,
    /// The index of the rule in its layer.
    pub(super) rule: u32,
    charges: Arc<BucketCharges>,
}

/// The charges of a request at one bucket.
#[derive(Debug)]
struct BucketCharges {
    limiter: Limiter,
    client: OwnedMember,
    has_tiers: bool,
    /// The ledger is locked during a change, so that changes follow each other.
    charged: Mutex<ChargeLedger>,
}

#[derive(Debug, Default)]
struct ChargeLedger {
    /// The charges that can be refunded, the oldest first.
    receipts: Vec<Receipt>,
    /// The units that cannot be refunded: those of tiers, and those that the store may or may not have charged because its answer
    /// was lost.
    others: u32,
}

impl Assessment {
    /// Returns the assessment of outer layers and of this one. If this layer lets the request pass without a decision, `ours` is
    /// `None`.
    pub(super) fn within(
        outer: Option<&Self>,
        config: &Arc<Config>,
        ours: Option<&Arc<LayerDecisions>>,
    ) -> Self {
        let outer = outer.map(|outer| &outer.layers).into_iter().flatten();
        Self {
            layers: outer.chain(ours).cloned().collect(),
            innermost: Arc::clone(config),
        }
    }

    /// Returns the response that the innermost layer would have sent for a denial by the handler's own limit: its document or gRPC
    /// status, its fields, `Retry-After`, and the reference of the event that is logged. If the store did not answer, the response
    /// is a 503, and if the id is not valid, a 400. `request` is the head of the request, which is an extractor of axum.
    ///
    /// ```
    /// use axum::{body::Body, extract::State, http::request::Parts, response::Response};
    /// use tollgate::{layer::Assessment, limiter::LimitHandle};
    ///
    /// async fn export(assessment: Assessment, State(exports): State<LimitHandle>, request: Parts) -> Response {
    ///     match exports.admit("alice").await {
    ///         Ok(_) => Response::new(Body::from("an export")),
    ///         Err(denied) => assessment.refuse(&request, &denied),
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn refuse<B: From<Bytes>>(&self, request: &Parts, denied: &NotAdmitted) -> Response<B> {
        let config = &self.innermost;
        let mut fields = ResponseFields::default();
        if let NotAdmittedBy::Limit { client, decision } = &*denied.0 {
            let decided = DecidedCharges {
                in_force: &config.active.in_force.load(),
                members: &[client.as_member()],
                decisions: slice::from_ref(decision),
            };
            let now = || config.limiter.time();
            config.headers.write(decided, now, &mut fields);
        }
        let response = denied.refused(request, |refusal| {
            config.responder.respond(refusal, &mut fields)
        });
        response.map(B::from)
    }

    /// The decisions on all limits, those of outer layers first, and those of one layer in the order of its rules.
    pub fn iter(&self) -> impl Iterator<Item = &LimitAssessment> {
        self.layers.iter().flat_map(|layer| &layer.all)
    }

    /// The decision on a limit by the innermost layer that has it, or `None` if no rule of that limit charged the
    /// request, or the name is misspelt.
    #[must_use]
    pub fn of(&self, limit: &str) -> Option<&LimitAssessment> {
        let mut inwards = self.layers.iter().rev().flat_map(|layer| &layer.all);
        inwards.find(|assessed| *assessed.limit == *limit)
    }

    /// The permits of the request, on [concurrency limits](crate::Limit::concurrent). `None` if it has none, or if they were
    /// given back.
    ///
    /// The layers hold them until the body of the response has ended or is dropped. A handler whose work lasts longer, such as
    /// that of a WebSocket, holds them with it:
    ///
    /// ```
    /// use axum::{response::Response, extract::ws::WebSocketUpgrade};
    /// use tollgate::layer::Assessment;
    ///
    /// async fn chat(assessment: Assessment, upgrade: WebSocketUpgrade) -> Response {
    ///     let permits = assessment.permits();
    ///     upgrade.on_upgrade(move |mut socket| async move {
    ///         while let Some(Ok(_)) = socket.recv().await {}
    ///         drop(permits);
    ///     })
    /// }
    /// ```
    #[must_use]
    pub fn permits(&self) -> Option<Permit> {
        let lent = self.layers.iter().map(|layer| layer.permits.permit());
        Some(Permit::join(lent)).filter(|permit| !permit.is_empty())
    }

    /// Refunds everything that the request was charged, for example because the operation failed. Grants of
    /// [tiers](crate::tiers) cannot be refunded, and permits are given back when the response has ended.
    ///
    /// # Errors
    ///
    /// The first error. The other limits are refunded all the same.
    pub async fn refund(&self) -> Result<(), LimiterError> {
        let mut result = Ok(());
        let is_lasting = |assessed: &&LimitAssessment| {
            assessed.charges.has_tiers || assessed.decision.has_permits()
        };
        for assessed in self.iter().filter(|assessed| !is_lasting(assessed)) {
            result = result.and(assessed.settle(0).await);
        }
        result
    }
}

impl fmt::Debug for Assessment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl LayerDecisions {
    pub(super) fn new(
        asked: &RequestCharges<'_>,
        decisions: &[Decision],
        permits: &Permit,
    ) -> Arc<Self> {
        let assessed = asked.with(decisions).iter().map(|(member, decision)| {
            let receipts = decision.receipt();
            let has_tiers = decision.has_tiers();
            let charged = ChargeLedger {
                receipts: receipts.into_iter().collect(),
                others: if has_tiers { decision.charged() } else { 0 },
            };
            LimitAssessment {
                limit: member.limit.shared_name(),
                id: member.client(),
                cost: member.ask.cost,
                decision: decision.clone(),
                rule: member.role.rule,
                charges: Arc::new(BucketCharges {
                    limiter: asked.config.limiter.clone(),
                    client: OwnedMember::from(member),
                    has_tiers,
                    charged: Mutex::new(charged),
                }),
            }
        });
        Arc::new(Self {
            all: assessed.collect(),
            permits: permits.lend(),
        })
    }
}

impl LimitAssessment {
    /// Corrects the charge of the request to `cost`. The difference is refunded or charged, into debt if necessary. From
    /// [tiers](crate::tiers), only the units that they grant are charged.
    ///
    /// It can be called several times. Once polled, it completes even if its future is dropped, for example because the client
    /// disconnected. If the store may have made a change although there was an error, that change is neither repeated nor undone.
    ///
    /// A refund can give nothing back: while others wait in line, if the bucket is full, or after the end of a quota's
    /// period. That part stays charged. A later call does not charge it again, or tries again to refund it.
    ///
    /// # Errors
    ///
    /// If the backend does not answer, if the cost of a limit with tiers would decrease, or if it is a concurrency limit, whose
    /// permits come back by themselves.
    pub async fn settle(&self, cost: u32) -> Result<(), LimiterError> {
        if self.decision.has_permits() {
            let error = AskError::Correction("settle");
            return Err(LimiterError::unsupported(&self.limit, error.to_string()));
        }
        if self.is_settled() {
            Ok(())
        } else {
            let charges = Arc::clone(&self.charges);
            self.charges.limiter.detached(charges.settle(cost)).await
        }
    }

    /// Corrects the charge in the background.
    pub(super) fn settle_later(&self, cost: u32) {
        if self.is_settled() {
            return;
        }
        let charges = Arc::clone(&self.charges);
        self.charges.limiter.detach(Box::pin(async move {
            if let Err(error) = charges.settle(cost).await {
                tracing::debug!(%error, "the charge of a request could not be corrected");
            }
        }));
    }

    /// Fills the client's bucket, for example because it has given the right password.
    ///
    /// # Errors
    ///
    /// As [`Limiter::reset`](crate::Limiter::reset).
    pub async fn reset(&self) -> Result<(), LimiterError> {
        let charges = &self.charges;
        let reset = Correction::new(Operation::Reset);
        charges
            .limiter
            .correct(&charges.client, reset)
            .await
            .map(drop)
    }

    /// Returns whether there is no charge that could be corrected.
    fn is_settled(&self) -> bool {
        !self.decision.limited() || self.decision.blocked()
    }
}

impl BucketCharges {
    async fn settle(self: Arc<Self>, cost: u32) -> Result<(), LimiterError> {
        let mut charged = self.charged.lock().await;
        let before = charged.sum();
        if cost >= before {
            self.charge(cost - before, &mut charged).await
        } else if self.has_tiers {
            let limit = self.client.limit().name();
            let reason = AskError::RefundOfTiers.to_string();
            Err(LimiterError::unsupported(limit, reason))
        } else {
            self.refund(before - cost, &mut charged).await
        }
    }

    async fn charge(&self, units: u32, charged: &mut ChargeLedger) -> Result<(), LimiterError> {
        if units == 0 {
            return Ok(());
        }
        let spend = Correction {
            cost: units,
            ..Correction::new(Operation::Spend)
        };
        let spend = if self.has_tiers {
            Correction {
                mode: Mode::SpendOnly,
                min_cost: Some(1),
                ..spend
            }
        } else {
            // The cost can be more than the burst, which may have been lowered in between.
            Correction {
                mode: Mode::Debit,
                ..spend
            }
        };
        let decided = self.limiter.correct(&self.client, spend).await;
        let decision = decided.inspect_err(|error| {
            if may_be_done(error) {
                charged.others = charged.others.saturating_add(units);
            }
        })?;
        match decision.receipt() {
            Some(receipt) => charged.receipts.push(receipt),
            None => charged.others = charged.others.saturating_add(decision.granted()),
        }
        Ok(())
    }

    /// Refunds units, those of the latest charge first.
    async fn refund(&self, units: u32, charged: &mut ChargeLedger) -> Result<(), LimiterError> {
        let unknown = units.min(charged.others);
        charged.others -= unknown;
        let mut rest = units - unknown;
        while rest > 0
            && let Some(mut receipt) = charged.receipts.pop()
        {
            if receipt.cost() > rest {
                let kept = receipt.cost() - rest;
                charged.receipts.push(receipt.split(kept));
            }
            rest -= receipt.cost();
            let refund = Correction::of_receipt(Operation::Refund, &receipt);
            match self.limiter.correct(&self.client, refund).await {
                // The units that were not refunded stay charged.
                Ok(decision) if decision.given_back() < receipt.cost() => {
                    let kept = receipt.cost() - decision.given_back();
                    charged.receipts.push(receipt.split(kept));
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => {
                    if !may_be_done(&error) {
                        charged.receipts.push(receipt);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl ChargeLedger {
    fn sum(&self) -> u32 {
        let receipts = self.receipts.iter().map(Receipt::cost);
        receipts.fold(self.others, u32::saturating_add)
    }
}

/// Returns whether the store may have made the change despite the error.
fn may_be_done(error: &LimiterError) -> bool {
    matches!(error, LimiterError::Backend(BackendError::Unavailable(_)))
}
