//! Requests that wait: for the decision of a store, or for their turn in line.

use std::{future::Future, iter::zip, mem, pin::Pin, sync::Arc};

use http::request::Parts;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{
    charges::RequestCharges,
    conclusion::{RefusalResponse, ResponseAdditions},
    config::Config,
    unsettled::{RequestStart, UnsettledRequest},
};
use crate::{
    batch::{Member, OwnedMember},
    decision::Decision,
    key::MissingId,
    limiter::{LimiterError, Members, PendingRefund},
    metrics,
    response::LimitsInForce,
    task::runtime_with_timer,
    transaction::Operation,
};

pub(super) type WaitFuture = Pin<Box<dyn Future<Output = WaitingRequest> + Send>>;

/// A request that waits for its decision or its turn. Its future returns it.
pub(super) struct WaitingRequest {
    config: Arc<Config>,
    in_force: Arc<LimitsInForce>,
    members: Vec<OwnedMember>,
    missing: Option<MissingId>,
    start: RequestStart,
    since: Instant,
    decided: Result<Vec<Decision>, LimiterError>,
    held: Reservation,
}

/// The charges and permits of a request before it proceeds.
#[derive(Default)]
struct Reservation {
    /// The charges of a request in line. They are refunded if it leaves.
    in_line: Vec<PendingRefund>,
    unsettled: Option<Box<UnsettledRequest>>,
}

impl Reservation {
    fn proceed(mut self) -> Option<Box<UnsettledRequest>> {
        self.in_line.drain(..).for_each(PendingRefund::keep);
        self.unsettled.take()
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(unsettled) = &mut self.unsettled
            && !self.in_line.is_empty()
        {
            unsettled.leave();
        }
    }
}

impl WaitingRequest {
    pub(super) fn new(
        config: &Arc<Config>,
        request: &Parts,
        in_force: Arc<LimitsInForce>,
        members: Vec<OwnedMember>,
        missing: Option<MissingId>,
    ) -> Self {
        Self {
            config: Arc::clone(config),
            in_force,
            members,
            missing,
            start: RequestStart::of(request),
            since: Instant::now(),
            decided: Ok(Vec::new()),
            held: Reservation::default(),
        }
    }

    /// Waits for the decision, unless it is given, and then for the turn.
    pub(super) fn wait(
        self,
        decisions: Option<Vec<Decision>>,
        seat: Option<OwnedSemaphorePermit>,
    ) -> WaitFuture {
        Box::pin(async move {
            let mut waited = match decisions {
                Some(decisions) => self.with(decisions),
                // Runs in a task. If the client leaves, the task still decides, and then drops the charges and permits.
                None => {
                    let limiter = self.config.limiter.clone();
                    limiter.detached(self.decide()).await
                }
            };
            let decisions = zip(&waited.members, waited.decided.iter().flatten());
            let last = decisions.max_by_key(|(_, decision)| decision.delay());
            let last = last.filter(|(_, decision)| !decision.delay().is_zero());
            let Some((member, decision)) = last else {
                return waited;
            };
            let delay = decision.delay();
            if let Err(reason) = runtime_with_timer() {
                let limit = member.limit().name();
                waited.decided = Err(LimiterError::unsupported(limit, reason));
                return waited;
            }
            let _counted = seat.map(CountedSeat::new);
            tokio::time::sleep(delay).await;
            let decisions = waited.decided.iter_mut().flatten();
            decisions.for_each(|decision| decision.has_waited(delay));
            waited
        })
    }

    async fn decide(mut self) -> Self {
        let mut decisions = vec![Decision::NOT_LIMITED; self.members.len()];
        let limiter = &self.config.limiter;
        let decided = limiter.wait(Operation::Spend, &self.members, &mut decisions);
        match decided.await {
            Ok(()) => self.with(decisions),
            Err(error) => {
                self.decided = Err(error);
                self
            }
        }
    }

    /// Adds the decisions, and takes over their charges and permits.
    fn with(mut self, decisions: Vec<Decision>) -> Self {
        let start = mem::take(&mut self.start);
        let members = self.members();
        let asked = self.asked(&members);
        let opened = UnsettledRequest::of(asked, &decisions, || start, Some(self.since));
        let waits = decisions.iter().any(|decision| !decision.delay().is_zero());
        let charged = zip(&members, &decisions).filter(|_| waits);
        let in_line = charged.filter_map(|(member, decision)| {
            PendingRefund::new(&self.config.limiter, member, decision)
        });
        let in_line = in_line.collect();
        drop(members);
        self.held.in_line = in_line;
        match opened {
            Ok(unsettled) => {
                self.held.unsettled = unsettled;
                self.decided = Ok(decisions);
            }
            Err(error) => self.decided = Err(error),
        }
        self
    }

    pub(super) fn conclude(
        mut self,
        request: &mut Parts,
        additions: &mut ResponseAdditions,
    ) -> Result<(), RefusalResponse> {
        let held = mem::take(&mut self.held);
        let missing = self.missing.take();
        let members = self.members();
        let config = &self.config;
        let asked = self.asked(&members);
        match &self.decided {
            Ok(decisions) => {
                let decided = asked.with(decisions);
                config.conclude(request, decided, held.proceed(), missing, additions)
            }
            Err(error) => config.fail(request, asked, error, missing.as_ref()),
        }
    }

    fn members(&self) -> Members<'_> {
        self.members.iter().map(OwnedMember::as_member).collect()
    }

    fn asked<'a>(&'a self, members: &'a [Member<'a>]) -> RequestCharges<'a> {
        RequestCharges {
            config: &self.config,
            in_force: &self.in_force,
            members,
        }
    }
}

/// The seat of a request that waits in line, which the metrics count.
struct CountedSeat(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl CountedSeat {
    fn new(seat: OwnedSemaphorePermit) -> Self {
        metrics::waits(true);
        Self(seat)
    }
}

impl Drop for CountedSeat {
    fn drop(&mut self) {
        metrics::waits(false);
    }
}
