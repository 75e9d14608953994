use std::{mem, sync::Arc, time::Duration};

use http::Extensions;

use super::{
    assessment::{Assessment, OwnDecisions},
    charged_decisions::{ChargedDecisions, KeptDecisions, RequestDecisions},
    config::LayerConfig,
    request_permits::RequestPermits,
    settlement::{Settlement, told},
    waiting_room::Seat,
};
use crate::{
    decision::BatchDecision,
    few::Count,
    limiter::{PlainCharges, StartTime},
    rule::Charges,
};

/// The place of a request's charges and decisions. Its assessment shares them, if it has one.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one stays on the stack, to save an allocation"
)]
pub(super) enum Spent {
    Unassessed(KeptDecisions<BatchDecision>),
    Assessed(Arc<OwnDecisions>),
}

impl Spent {
    #[inline(always)]
    pub(super) fn new(layer: &Arc<LayerConfig>, is_assessed: bool) -> Self {
        match is_assessed {
            true => Self::Assessed(Arc::new(OwnDecisions::new(layer))),
            false => Self::Unassessed(KeptDecisions::nothing()),
        }
    }

    #[inline(always)]
    pub(super) fn charges_mut(&mut self) -> &mut Charges {
        match self {
            Self::Unassessed(kept) => &mut kept.charges,
            Self::Assessed(ours) => &mut undecided(ours).charges,
        }
    }

    /// Keeps the decisions on plain charges.
    #[inline(always)]
    pub(super) fn show<C: Count>(&mut self, plain: &PlainCharges<'_, C>) {
        match self {
            Self::Unassessed(kept) => {
                plain.show(&mut kept.decisions);
                kept.judge();
            }
            Self::Assessed(ours) => {
                let kept = undecided(ours);
                kept.decisions.reserve(kept.charges.list().len());
                plain.show(&mut kept.decisions);
                kept.judge();
            }
        }
    }

    /// Keeps the decisions of a store.
    pub(super) fn decided(&mut self, batch: BatchDecision) {
        match self {
            Self::Unassessed(kept) => {
                kept.decisions = batch;
                kept.judge();
            }
            Self::Assessed(ours) => {
                let kept = undecided(ours);
                kept.decisions = batch.members().iter().cloned().collect();
                kept.judge();
            }
        }
    }

    #[inline(always)]
    pub(super) fn view(&self) -> ChargedDecisions<'_> {
        match self {
            Self::Unassessed(spent) => spent.view(),
            Self::Assessed(ours) => ours.spent.view(),
        }
    }

    /// Moves the charges and decisions to a place elsewhere.
    pub(super) fn take(&mut self) -> Self {
        mem::replace(self, Self::Unassessed(KeptDecisions::nothing()))
    }

    /// Returns the place for an assessment.
    pub(super) fn assessed(&mut self, layer: &Arc<LayerConfig>) -> Arc<OwnDecisions> {
        match self {
            Self::Unassessed(kept) => {
                let mut ours = Arc::new(OwnDecisions::new(layer));
                let place = undecided(&mut ours);
                mem::swap(&mut place.charges, &mut kept.charges);
                place.decisions = kept.decisions.members().iter().cloned().collect();
                place.judge();
                *self = Self::Assessed(Arc::clone(&ours));
                ours
            }
            Self::Assessed(ours) => Arc::clone(ours),
        }
    }
}

/// Returns the place of decisions that are not made yet, to write them.
#[inline(always)]
pub(super) fn undecided(ours: &mut Arc<OwnDecisions>) -> &mut KeptDecisions<RequestDecisions> {
    let ours = Arc::get_mut(ours).expect("nobody else has it before it is decided");
    &mut ours.spent
}

/// The part of a request's charges that is needed later, by its handler and by its settlement.
#[derive(Default)]
pub(super) struct PendingSettlement {
    pub(super) assessment: Option<Assessment>,
    pub(super) settlement: Option<Box<Settlement>>,
    pub(super) permits: Option<RequestPermits>,
}

/// When a decided request starts: now, or once it has waited in line.
pub(super) enum Start {
    Now(PendingSettlement),
    InLine(Box<QueuedCharges>),
}

/// The charges of a request that has to wait. If they are dropped before its turn, they are refunded.
pub(super) struct QueuedCharges {
    pub(super) assessment: Option<Assessment>,
    pub(super) settlement: Option<Box<Settlement>>,
    permits: Option<RequestPermits>,
    pub(super) delay: Duration,
    pub(super) turn: StartTime,
    /// Given up after the refund.
    _seat: Seat,
}

impl QueuedCharges {
    /// Creates the charges of a request that waits for its turn.
    pub(super) fn new(
        taken: PendingSettlement,
        delay: Duration,
        turn: StartTime,
        mut seat: Seat,
    ) -> Self {
        seat.wait();
        Self {
            assessment: taken.assessment,
            settlement: taken.settlement,
            permits: taken.permits,
            delay,
            turn,
            _seat: seat,
        }
    }

    /// Ends the wait: it is the request's turn, so its charges stay.
    pub(super) fn keep(mut self) -> PendingSettlement {
        PendingSettlement {
            assessment: self.assessment.take(),
            settlement: self.settlement.take(),
            permits: self.permits.take(),
        }
    }
}

impl Drop for QueuedCharges {
    fn drop(&mut self) {
        if let Some(settlement) = &mut self.settlement {
            settlement.leave();
        }
        if let Some(assessment) = &self.assessment {
            give_back(assessment);
        }
    }
}

impl LayerConfig {
    /// Returns when a request starts. If it has to wait, all of its charges are needed later. One without a seat does not
    /// have to wait.
    #[inline(always)]
    pub(super) fn start(
        self: &Arc<Self>,
        request: &Extensions,
        spent: &mut Spent,
        seat: Option<Seat>,
    ) -> Start {
        match spent.view().delay().zip(seat) {
            None => Start::Now(self.taken(request, spent)),
            Some((delay, seat)) => {
                let turn = StartTime::after(&self.limiter, delay);
                let ours = spent.assessed(self);
                let taken = self.assessed(request, &ours);
                Start::InLine(Box::new(QueuedCharges::new(taken, delay, turn, seat)))
            }
        }
    }

    /// Returns the part of a request's charges that is needed later if the request does not have to wait.
    #[inline(always)]
    fn taken(self: &Arc<Self>, request: &Extensions, spent: &Spent) -> PendingSettlement {
        match spent {
            Spent::Assessed(ours) => self.assessed(request, ours),
            Spent::Unassessed(spent) => PendingSettlement {
                permits: self.permits(spent.view()),
                ..PendingSettlement::default()
            },
        }
    }

    pub(super) fn assessed(
        self: &Arc<Self>,
        request: &Extensions,
        ours: &Arc<OwnDecisions>,
    ) -> PendingSettlement {
        let mut assessment = Assessment::new(ours);
        let spent = ours.spent.view();
        let permits = self.permits(spent);
        if let Some(permits) = &permits {
            assessment.lend(permits);
        }
        let settlement = match self.settles && spent.denied.is_none() {
            true => self.settlement(request, &assessment, spent),
            false => None,
        };
        PendingSettlement {
            assessment: Some(assessment),
            settlement,
            permits,
        }
    }

    fn settlement(
        self: &Arc<Self>,
        request: &Extensions,
        assessment: &Assessment,
        spent: ChargedDecisions<'_>,
    ) -> Option<Box<Settlement>> {
        let open = spent.iter().enumerate();
        let open =
            open.filter(|(_, (charge, decision))| self.rules.waits_for_ending(*charge, decision));
        let open = open.map(|(place, (charge, _))| (place, charge.terms.rule));
        Settlement::new(self, assessment, request, open).map(Box::new)
    }
}

/// Refunds all charges of this layer. Grants of tiers stay charged.
fn give_back(assessment: &Assessment) {
    let charges = assessment.iter();
    for assessed in charges.filter(|assessed| !assessed.decision.has_tiers()) {
        match assessed.try_settle(0) {
            Ok(settled) => told(settled),
            Err(correction) => {
                let limiter = &assessed.limiter;
                limiter.detach(Box::pin(async { told(correction.make().await) }));
            }
        }
    }
}
