//! Requests that wait in line for their limits, by [`Limit::max_wait`](crate::Limit::max_wait).

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use http::request::Parts;

use super::{
    additions::ResponseAdditions,
    assessment::Assessment,
    config::LayerConfig,
    deciding::Progress,
    settlement::{Settlement, told},
    task::detach,
    verdicts::{Taken, Verdicts},
    waiting::Waiting,
    waiting_room::Seat,
};
use crate::{
    decision::{BatchDecision, Decisions},
    key::Missing,
    limit::Limits,
};

/// What a request is charged that has to wait. Dropped before it is its turn, it gives all of it back.
pub(super) struct Place {
    assessment: Option<Assessment>,
    settlement: Option<Box<Settlement>>,
    turn: Turn,
}

impl Place {
    /// The place of a request that has taken this and waits for `delay` from now on.
    pub(super) fn new(taken: Taken, delay: Duration) -> Self {
        Self {
            assessment: taken.assessment,
            settlement: taken.settlement,
            turn: Turn::after(delay),
        }
    }

    /// It is the request's turn: what it has taken stays so.
    fn leave(mut self) -> Taken {
        Taken {
            assessment: self.assessment.take(),
            settlement: self.settlement.take(),
            place: None,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(settlement) = &mut self.settlement {
            settlement.leave();
        }
        if let Some(assessment) = &self.assessment {
            give_back(assessment);
        }
    }
}

/// Gives back all that this layer has charged. What tiers have granted stays so.
fn give_back(assessment: &Assessment) {
    let charges = assessment.iter();
    for assessed in charges.filter(|assessed| !assessed.decision.has_tiers()) {
        match assessed.try_settle(0) {
            Ok(settled) => told(settled),
            Err(correction) => detach(Box::pin(async { told(correction.make().await) })),
        }
    }
}

impl LayerConfig {
    /// Lets a request wait for its turn, or refuses it if too many wait.
    #[cold]
    pub(super) fn wait_in_line(
        self: &Arc<Self>,
        request: &mut Parts,
        limits: &Limits,
        spent: Verdicts<'_>,
        place: Place,
        missing: Option<&Missing>,
        additions: &mut ResponseAdditions,
    ) -> Progress {
        if missing.is_some() {
            let taken = place.leave();
            let refused = self.conclude(request, limits, spent, taken, missing, additions);
            return Progress::Decided(refused);
        }
        let Some((seat, sleep)) = self.room.enter().zip(place.turn.sleep()) else {
            drop(place);
            return self.refuse_to_wait(request, limits, spent, additions);
        };
        let mut place = place;
        let taken = Taken {
            assessment: place.assessment.clone(),
            settlement: place.settlement.take(),
            place: None,
        };
        self.conclude(request, limits, spent, taken, None, additions);
        place.settlement = additions.settlement.take();
        let line = Line {
            sleep,
            place: Some(place),
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
        for (charge, decision) in spent.iter() {
            let votes = self.rules.mode(charge).votes() && !decision.in_shadow();
            denied.push(decision.without_waiting(), votes);
        }
        let spent = Verdicts::of(spent.charges, &denied);
        let taken = self.taken(&request.extensions, spent);
        let refused = self.conclude(request, limits, spent, taken, None, additions);
        Progress::Decided(refused)
    }
}

/// A request that waits for its turn.
pub(super) struct Line {
    sleep: Sleep,
    place: Option<Place>,
    additions: ResponseAdditions,
    _seat: Seat,
}

impl Line {
    /// Waits for the turn, and returns what the response is to carry.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ResponseAdditions> {
        ready!(self.sleep.as_mut().poll(cx));
        let mut additions = std::mem::take(&mut self.additions);
        if let Some(place) = self.place.take() {
            additions.settlement = place.leave().settlement;
        }
        Poll::Ready(additions)
    }
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// When it is a request's turn, by tokio's clock.
#[cfg(feature = "tokio")]
#[derive(Clone, Copy)]
struct Turn(tokio::time::Instant);

#[cfg(feature = "tokio")]
impl Turn {
    fn after(delay: Duration) -> Self {
        Self(tokio::time::Instant::now() + delay)
    }

    /// Sleeps until then; `None` outside of a runtime.
    fn sleep(self) -> Option<Sleep> {
        tokio::runtime::Handle::try_current().ok()?;
        Some(Box::pin(tokio::time::sleep_until(self.0)))
    }
}

/// Without tokio, nobody can wait.
#[cfg(not(feature = "tokio"))]
#[derive(Clone, Copy)]
struct Turn;

#[cfg(not(feature = "tokio"))]
impl Turn {
    fn after(_: Duration) -> Self {
        Self
    }

    fn sleep(self) -> Option<Sleep> {
        let Self = self;
        None
    }
}
