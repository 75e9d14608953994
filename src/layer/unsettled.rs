//! The permits of a request, and the charges that depend on how it ends.

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
    assessment::{Assessment, LayerDecisions, LimitAssessment},
    charges::RequestCharges,
    config::Config,
};
use crate::{
    decision::Decision,
    limiter::{LimiterError, Permit},
    rule::{RequestEnd, RequestResult},
};

/// The permits and the open charges of a request that has not ended. Dropping it counts as abandoning the request.
#[derive(Debug)]
pub(super) struct UnsettledRequest {
    config: Arc<Config>,
    decisions: Arc<LayerDecisions>,
    permits: Permit,
    /// The indexes of the decisions whose charges are not settled.
    due: SmallVec<[usize; 2]>,
    start: RequestStart,
}

/// The parts of a request that are needed when it ends.
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

impl UnsettledRequest {
    /// Creates the record of a request that has permits or open charges, or whose handler gets an assessment. `since` is the
    /// instant before its permits were asked for; without one, it is now.
    #[inline]
    pub(super) fn of(
        charges: RequestCharges<'_>,
        decisions: &[Decision],
        start: impl FnOnce() -> RequestStart,
        since: Option<Instant>,
    ) -> Result<Option<Box<Self>>, LimiterError> {
        let config = charges.config;
        let has_permits = decisions.iter().any(Decision::has_permits);
        let holds = config.extends || config.active.settles || has_permits;
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
        let is_due = |assessed: &LimitAssessment| {
            let decision = &assessed.decision;
            let passes = decision.allowed() && !decision.would_be_denied();
            let rule = &config.rule(assessed.rule).rule;
            decision.limited() && passes && rule.by_outcome.is_some()
        };
        let all = decisions.all.iter().enumerate();
        let due = all.filter(|(_, assessed)| is_due(assessed));
        let due = due.map(|(index, _)| index).collect();
        Box::new(Self {
            config: Arc::clone(config),
            decisions,
            permits,
            due,
            start,
        })
    }

    /// Returns the assessment for the handler: the decisions of outer layers and of this one.
    pub(super) fn assessment(&self, outer: Option<&Assessment>) -> Assessment {
        Assessment::within(outer, &self.config, Some(&self.decisions))
    }

    /// Returns whether the end of the request settles charges or gives permits back.
    pub(super) fn is_needed(&self) -> bool {
        !self.due.is_empty() || !self.permits.is_empty()
    }

    /// Settles the charges that depend on the head of the response. Returns whether the end of its body settles the others. For an
    /// upgraded connection, it does not: the connection outlives the body, and only the handler sees its end.
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

    /// Leaves the open charges as they are.
    pub(super) fn leave(&mut self) {
        self.due.clear();
    }

    /// Settles all open charges, and gives the permits back.
    pub(super) fn end(&mut self, outcome: RequestResult<'_>) {
        self.settle(outcome, true);
        self.permits = Permit::default();
    }

    fn settle(&mut self, outcome: RequestResult<'_>, is_last: bool) {
        for index in mem::take(&mut self.due) {
            let assessed = &self.decisions.all[index];
            let rule = &self.config.rule(assessed.rule).rule;
            let Some(by_outcome) = &rule.by_outcome else {
                continue;
            };
            if by_outcome.is_by_end && !is_last {
                self.due.push(index);
                continue;
            }
            let request = &self.start.extensions;
            let end = RequestEnd { request, outcome };
            // A panic of this closure must not keep other charges from being settled. While another panic unwinds, it would end the
            // process.
            let final_cost = || (by_outcome.final_cost)(assessed.cost, &end);
            match catch_unwind(AssertUnwindSafe(final_cost)) {
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

/// Dropped without an end, if the client has disconnected or the service has panicked.
impl Drop for UnsettledRequest {
    fn drop(&mut self) {
        self.settle(RequestResult::Abandoned, true);
    }
}
