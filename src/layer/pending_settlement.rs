use std::{sync::Arc, time::Duration};

use http::Extensions;

use super::{
    assessment::{Assessment, OwnDecisions},
    charged_decisions::ChargedDecisions,
    config::LayerConfig,
    request_permits::RequestPermits,
    settlement::{Settlement, told},
    waiting_room::Seat,
};
use crate::limiter::StartTime;

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
    /// Returns when a request starts. One without a seat does not have to wait.
    pub(super) fn start(
        self: &Arc<Self>,
        request: &Extensions,
        ours: &Arc<OwnDecisions>,
        seat: Option<Seat>,
    ) -> Start {
        let spent = ours.view();
        let taken = self.taken(request, ours, spent);
        match seat.and_then(|seat| Some((seat, spent.delay()?))) {
            None => Start::Now(taken),
            Some((seat, delay)) => {
                let turn = StartTime::after(&self.limiter, delay);
                Start::InLine(Box::new(QueuedCharges::new(taken, delay, turn, seat)))
            }
        }
    }

    /// Returns the part of a request's charges that is needed later.
    fn taken(
        self: &Arc<Self>,
        request: &Extensions,
        ours: &Arc<OwnDecisions>,
        spent: ChargedDecisions<'_>,
    ) -> PendingSettlement {
        let mut assessment = Assessment::new(ours);
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
        let open = open.map(|(place, (charge, _))| (place, charge.terms.rule.index()));
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
