//! Requests that are admitted to the line of a limit with [`Limit::max_wait`](crate::Limit::max_wait).

use std::sync::Arc;

use http::request::Parts;

use super::{
    additions::ResponseAdditions,
    charged_decisions::ChargedDecisions,
    config::LayerConfig,
    pending_settlement::{PendingSettlement, QueuedCharges},
    queued_request::QueuedRequest,
    waiting::{Progress, Waiting},
    waiting_room::Seat,
};
use crate::{decision::BatchDecision, key::MissingId, limit::Limits, rule::ChargeList};

impl LayerConfig {
    /// Takes a seat for a request that may have to wait in line. Without one, the request is decided as if its rules had
    /// [`no_wait`](crate::Rule::no_wait). A request that is refused in any case, because it has no id, takes no place in a
    /// line.
    #[inline]
    pub(super) fn seat(
        &self,
        limits: &Limits,
        charges: ChargeList<'_>,
        missing: Option<&MissingId>,
    ) -> Option<Seat> {
        match limits.has_lines() && missing.is_none() {
            true => self.seat_in_line(limits, charges),
            false => None,
        }
    }

    #[inline(never)]
    fn seat_in_line(&self, limits: &Limits, charges: ChargeList<'_>) -> Option<Seat> {
        let mut charges = charges.iter();
        let may_wait = charges.any(|charge| self.rules.may_wait(charge, limits));
        may_wait.then(|| self.room.enter()).flatten()
    }

    /// Lets a request wait for its turn. The response shows the figures of that instant.
    #[cold]
    pub(super) fn wait_in_line(
        self: &Arc<Self>,
        request: &mut Parts,
        limits: &Limits,
        spent: ChargedDecisions<'_>,
        mut queued: QueuedCharges,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let taken = PendingSettlement {
            assessment: queued.assessment.clone(),
            settlement: queued.settlement.take(),
            permits: None,
        };
        let at_its_turn =
            BatchDecision::map(spent.decisions, |decision| decision.later(queued.delay));
        let spent = ChargedDecisions::of(spent.charges, &at_its_turn);
        self.conclude(request, limits, spent, taken, None, additions);
        queued.settlement = additions.settlement.take();
        let line = QueuedRequest {
            sleep: queued.turn.sleep(),
            queued: Some(queued),
            additions: std::mem::take(additions),
        };
        Progress::Waiting(Waiting::InLine(Box::new(line)))
    }
}
