use std::{mem, sync::Arc, time::Duration};

use super::{
    assessment::{Assessment, OwnDecisions},
    charged_decisions::{ChargedDecisions, KeptDecisions},
    config::LayerConfig,
    request_permits::RequestPermits,
    settlement::{Settlement, told},
    waiting_room::Seat,
};
use crate::limiter::StartTime;

/// The place of a request's charges and decisions. Its assessment shares them, if it has one.
#[expect(
    clippy::large_enum_variant,
    reason = "the large one stays on the stack, to save an allocation"
)]
pub(super) enum Spent {
    Unassessed(KeptDecisions),
    Assessed(Arc<OwnDecisions>),
}

impl Spent {
    #[inline(always)]
    pub(super) fn new(layer: &Arc<LayerConfig>, is_assessed: bool) -> Self {
        match is_assessed {
            true => {
                let nothing = KeptDecisions::nothing();
                Self::Assessed(Arc::new(OwnDecisions::new(layer, nothing)))
            }
            false => Self::Unassessed(KeptDecisions::nothing()),
        }
    }

    /// Returns the place, to write the charges and decisions.
    #[inline(always)]
    pub(super) fn place(&mut self) -> &mut KeptDecisions {
        match self {
            Self::Unassessed(spent) => spent,
            Self::Assessed(ours) => {
                let ours = Arc::get_mut(ours).expect("nobody else has it before it is decided");
                &mut ours.spent
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
            Self::Unassessed(spent) => {
                let ours = Arc::new(OwnDecisions::new(
                    layer,
                    mem::replace(spent, KeptDecisions::nothing()),
                ));
                *self = Self::Assessed(Arc::clone(&ours));
                ours
            }
            Self::Assessed(ours) => Arc::clone(ours),
        }
    }
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
