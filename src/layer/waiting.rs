//! Requests that wait: for the decision of a store, or for their turn in line.

use std::{future::Future, iter::zip, mem, pin::Pin, sync::Arc};

use http::request::Parts;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};

use super::{
    config::Config,
    decide::{Additions, Asked, Refused},
    open::{Open, RequestStart},
};
use crate::{
    decision::Decision,
    key::MissingId,
    limiter::{Charged, LimiterError},
    metrics,
    response::InForce,
    rule::Charge,
    task::{detached, runtime_with_timer},
    transaction::Operation,
};

pub(super) type Waiting = Pin<Box<dyn Future<Output = Waited> + Send>>;

/// A request that waits, and then has waited.
pub(super) struct Waited {
    config: Arc<Config>,
    in_force: Arc<InForce>,
    charges: Vec<Charge>,
    missing: Option<MissingId>,
    start: RequestStart,
    since: Instant,
    can_wait: bool,
    decided: Result<Vec<Decision>, LimiterError>,
    held: Held,
}

/// What a request holds before it proceeds.
#[derive(Default)]
struct Held {
    /// Its charges, if it waits in line. They are given back if it leaves.
    in_line: Vec<Charged>,
    open: Option<Box<Open>>,
}

impl Held {
    fn proceed(mut self) -> Option<Box<Open>> {
        self.in_line.drain(..).for_each(Charged::keep);
        self.open.take()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(open) = &mut self.open
            && !self.in_line.is_empty()
        {
            open.leave();
        }
    }
}

impl Waited {
    pub(super) fn new(
        config: &Arc<Config>,
        request: &Parts,
        in_force: Arc<InForce>,
        charges: Vec<Charge>,
        missing: Option<MissingId>,
    ) -> Self {
        Self {
            config: Arc::clone(config),
            in_force,
            charges,
            missing,
            start: RequestStart::of(request),
            since: Instant::now(),
            can_wait: false,
            decided: Ok(Vec::new()),
            held: Held::default(),
        }
    }

    /// Waits for the decision, unless there is one, and for the turn.
    pub(super) fn wait(
        mut self,
        decisions: Option<Vec<Decision>>,
        seat: Option<OwnedSemaphorePermit>,
    ) -> Waiting {
        self.can_wait = seat.is_some();
        Box::pin(async move {
            let mut waited = match decisions {
                Some(decisions) => self.with(decisions),
                // If the client leaves, it goes on, and then drops what the request holds.
                None => detached(self.decide()).await,
            };
            let decisions = zip(&waited.charges, waited.decided.iter().flatten());
            let last = decisions.max_by_key(|(_, decision)| decision.delay());
            let last = last.filter(|(_, decision)| !decision.delay().is_zero());
            let Some((charge, decision)) = last else {
                return waited;
            };
            let delay = decision.delay();
            if let Err(reason) = runtime_with_timer() {
                let limit = waited.in_force.named(charge).name();
                waited.decided = Err(LimiterError::unsupported(limit, reason));
                return waited;
            }
            let _place = seat.map(PlaceInLine::new);
            tokio::time::sleep(delay).await;
            let decisions = waited.decided.iter_mut().flatten();
            decisions.for_each(|decision| decision.has_waited(delay));
            waited
        })
    }

    async fn decide(mut self) -> Self {
        let mut decisions = vec![Decision::NOT_LIMITED; self.charges.len()];
        let transactions = self.asked().transactions();
        let (limiter, limits) = (&self.config.limiter, &self.in_force.limits);
        let decided = limiter.wait(limits, Operation::Spend, &transactions, &mut decisions);
        let decided = decided.await;
        drop(transactions);
        match decided {
            Ok(()) => self.with(decisions),
            Err(error) => {
                self.decided = Err(error);
                self
            }
        }
    }

    /// Takes what the decisions have charged.
    fn with(mut self, decisions: Vec<Decision>) -> Self {
        let start = mem::take(&mut self.start);
        let asked = self.asked();
        let opened = asked.open(&decisions, || start, Some(self.since));
        let waits = decisions.iter().any(|decision| !decision.delay().is_zero());
        let charged = zip(&self.charges, &decisions).filter(|_| waits);
        let in_line = charged.filter_map(|(charge, decision)| {
            let transaction = asked.transaction(charge);
            Charged::new(&self.config.limiter, &transaction, decision)
        });
        self.held.in_line = in_line.collect();
        match opened {
            Ok(open) => (self.held.open, self.decided) = (open, Ok(decisions)),
            Err(error) => self.decided = Err(error),
        }
        self
    }

    pub(super) fn conclude(
        mut self,
        request: &mut Parts,
        additions: &mut Additions,
    ) -> Result<(), Refused> {
        let (held, missing) = (mem::take(&mut self.held), self.missing.take());
        let (config, asked) = (&self.config, self.asked());
        match &self.decided {
            Ok(decisions) => {
                let decided = asked.with(decisions);
                config.conclude(request, decided, held.proceed(), missing, additions)
            }
            Err(error) => config.fail(request, asked, error, missing.as_ref()),
        }
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            config: &self.config,
            in_force: &self.in_force,
            charges: &self.charges,
            can_wait: self.can_wait,
        }
    }
}

/// A place in line, which the metrics count.
struct PlaceInLine(#[expect(dead_code, reason = "it is held")] OwnedSemaphorePermit);

impl PlaceInLine {
    fn new(seat: OwnedSemaphorePermit) -> Self {
        metrics::waits(true);
        Self(seat)
    }
}

impl Drop for PlaceInLine {
    fn drop(&mut self) {
        metrics::waits(false);
    }
}
