//! Requests that are admitted to the line of a limit with [`Limit::max_wait`](crate::Limit::max_wait).

use std::sync::Arc;

use http::request::Parts;

use super::{
    additions::ResponseAdditions,
    config::LayerConfig,
    queued_request::QueuedRequest,
    taken::{QueuedCharges, Taken},
    verdicts::Verdicts,
    waiting::{Progress, Waiting},
};
use crate::{decision::BatchDecision, key::Missing, limit::Limits};

impl LayerConfig {
    /// Lets a request wait for its turn, or refuses it if too many wait.
    #[cold]
    pub(super) fn wait_in_line(
        self: &Arc<Self>,
        request: &mut Parts,
        limits: &Limits,
        spent: Verdicts<'_>,
        mut queued: QueuedCharges,
        missing: Option<&Missing>,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        if missing.is_some() {
            let taken = queued.keep();
            let refused = self.conclude(request, limits, spent, taken, missing, additions);
            return Progress::Decided(refused);
        }
        let Some((seat, sleep)) = self.room.enter().zip(queued.turn.sleep()) else {
            drop(queued);
            return self.refuse_to_wait(request, limits, spent, additions);
        };
        let taken = Taken {
            assessment: queued.assessment.clone(),
            settlement: queued.settlement.take(),
        };
        self.conclude(request, limits, spent, taken, None, additions);
        queued.settlement = additions.settlement.take();
        let line = QueuedRequest {
            sleep,
            queued: Some(queued),
            additions: std::mem::take(additions),
            _seat: seat,
        };
        Progress::Waiting(Box::new(Waiting::InLine(line)))
    }

    /// Refuses a request as if it had declined to wait.
    fn refuse_to_wait(
        self: &Arc<Self>,
        request: &mut Parts,
        limits: &Limits,
        spent: Verdicts<'_>,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        let mut denied = BatchDecision::default();
        for decision in spent.decisions {
            denied.push(decision.without_waiting());
        }
        let spent = Verdicts::of(spent.charges, &denied);
        let taken = self.taken(&request.extensions, spent);
        let refused = self.conclude(request, limits, spent, taken, None, additions);
        Progress::Decided(refused)
    }
}
