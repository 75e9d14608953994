//! What is unsettled of a request until it has ended: its permits, and charges that depend on how it ends.

use std::{
    iter::zip,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use http::{Extensions, Method, StatusCode, request::Parts, response};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::{
    assessment::{Assessed, Assessment, LayerDecisions},
    charges::RequestCharges,
    config::Config,
};
use crate::{
    decision::Decision,
    limiter::{LimiterError, Permit},
    rule::{RequestEnd, RequestResult},
};

/// If it is dropped, the request counts as abandoned.
#[derive(Debug)]
pub(super) struct Unsettled {
    config: Arc<Config>,
    decisions: Arc<LayerDecisions>,
    permits: Permit,
    /// The places of the charges that are not settled.
    due: SmallVec<[usize; 2]>,
    start: RequestStart,
}

/// What has to be known of a request when it ends.
#[derive(Debug, Default)]
pub(super) struct RequestStart {
    extensions: Extensions,
    is_connect: bool,
}

impl RequestStart {
    pub(super) fn of(request: &Parts) -> Self {
        Self {
            extensions: request.extensions.clone(),
            is_connect: request.method == Method::CONNECT,
        }
    }
}

impl Unsettled {
    /// Opens what a request holds until it has ended, if it holds anything. Its permits count from `since`, or from now.
    #[inline]
    pub(super) fn of(
        charges: RequestCharges<'_>,
        decisions: &[Decision],
        start: impl FnOnce() -> RequestStart,
        since: Option<Instant>,
    ) -> Result<Option<Box<Self>>, LimiterError> {
        let config = charges.config;
        let has_permits = decisions.iter().any(Decision::has_permits);
        let holds = config.extends || config.bound.settles || has_permits;
        if holds && !decisions.iter().any(Decision::denies) {
            Self::open(charges, decisions, start(), since).map(Some)
        } else {
            Ok(None)
        }
    }

    fn open(
        charges: RequestCharges<'_>,
        decisions: &[Decision],
        start: RequestStart,
        since: Option<Instant>,
    ) -> Result<Box<Self>, LimiterError> {
        let since = since.unwrap_or_else(Instant::now);
        let limiter = &charges.config.limiter;
        let permits = zip(charges.members, decisions)
            .filter(|(_, decision)| decision.has_permits())
            .map(|(member, decision)| Permit::hold(limiter, member, decision, since));
        let permits = Permit::join(permits.collect::<Result<Vec<_>, _>>()?);
        let decisions = LayerDecisions::new(&charges, decisions, &permits);
        Ok(Self::new(charges.config, start, decisions, permits))
    }

    fn new(
        config: &Arc<Config>,
        start: RequestStart,
        decisions: Arc<LayerDecisions>,
        permits: Permit,
    ) -> Box<Self> {
        let is_due = |assessed: &Assessed| {
            let decision = &assessed.decision;
            let passes = decision.allowed() && !decision.would_be_denied();
            let rule = &config.rule(assessed.rule).rule;
            decision.limited() && passes && rule.by_outcome.is_some()
        };
        let all = decisions.all.iter().enumerate();
        let due = all.filter(|(_, assessed)| is_due(assessed));
        let due = due.map(|(place, _)| place).collect();
        Box::new(Self {
            config: Arc::clone(config),
            decisions,
            permits,
            due,
            start,
        })
    }

    /// Returns the decisions for a handler, within those of outer layers.
    pub(super) fn assessment(&self, outer: Option<&Assessment>) -> Assessment {
        Assessment::within(outer, &self.config, Some(&self.decisions))
    }

    /// Returns whether anything depends on the end of the request.
    pub(super) fn is_needed(&self) -> bool {
        !self.due.is_empty() || !self.permits.is_empty()
    }

    /// Settles what depends on the head of the response. Returns whether the end of its body settles the rest. That of an upgraded
    /// connection does not: the connection goes on, and only the handler sees its end.
    pub(super) fn settle_by_head(&mut self, head: &response::Parts) -> bool {
        self.settle(RequestResult::Response(head, 0), false);
        if !self.becomes_a_tunnel(head.status) {
            return true;
        }
        self.leave();
        if !self.permits.is_empty() && self.permits.is_held_here_alone() {
            self.config.checks.upgraded_without_permits();
        }
        false
    }

    /// Gives up what depends on the end of the request.
    pub(super) fn leave(&mut self) {
        self.due.clear();
    }

    /// Settles everything, and gives the permits back.
    pub(super) fn end(&mut self, outcome: RequestResult<'_>) {
        self.settle(outcome, true);
        self.permits = Permit::default();
    }

    fn settle(&mut self, outcome: RequestResult<'_>, is_last: bool) {
        for place in mem::take(&mut self.due) {
            let assessed = &self.decisions.all[place];
            let rule = &self.config.rule(assessed.rule).rule;
            let Some(by_outcome) = &rule.by_outcome else {
                continue;
            };
            if by_outcome.is_by_end && !is_last {
                self.due.push(place);
                continue;
            }
            let request = &self.start.extensions;
            let end = RequestEnd { request, outcome };
            // A panic must neither reach the others nor, while another one unwinds, end the process.
            let due = || (by_outcome.due)(assessed.cost, &end);
            match catch_unwind(AssertUnwindSafe(due)) {
                Ok(Some(cost)) => assessed.settle_later(cost),
                Ok(None) => {}
                Err(_) => {
                    let limit = &*assessed.limit;
                    tracing::error!(
                        limit,
                        "a closure of a rule panicked at the end of a request"
                    );
                }
            }
        }
    }

    /// Returns whether the connection, or a stream of it, is upgraded (RFC 9110, sections 9.3.6 and 15.2.2; RFC 8441).
    fn becomes_a_tunnel(&self, status: StatusCode) -> bool {
        status == StatusCode::SWITCHING_PROTOCOLS || self.start.is_connect && status.is_success()
    }
}

/// The client disconnected, or the service panicked.
impl Drop for Unsettled {
    fn drop(&mut self) {
        self.settle(RequestResult::Abandoned, true);
    }
}
