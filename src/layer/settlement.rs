//! What is charged by how a request ends: corrected exactly once, whatever becomes of the request.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use http::{Extensions, Method};
use smallvec::SmallVec;

use super::{
    assessment::{Assessment, Correction},
    config::LayerConfig,
};
use crate::{
    limiter::LimiterError,
    rule::{Ending, Outcome},
    task::{Closing, detach},
};

/// What is open until a request has ended. Dropped, it is closed as abandoned.
#[derive(Debug)]
pub(super) struct Settlement {
    plan: Arc<LayerConfig>,
    assessment: Assessment,
    request: Extensions,
    open: SmallVec<[OpenCharge; 2]>,
    /// Whether the request asks for a tunnel.
    is_connect: bool,
    /// Corrections that have to be waited for.
    left: Vec<Correction>,
}

/// A charge that is open: its place in the assessment, and its rule.
#[derive(Clone, Copy, Debug)]
struct OpenCharge {
    place: usize,
    rule: usize,
}

impl Settlement {
    /// The charges that depend on how the request ends, by their places in the assessment and their rules, if there are
    /// any.
    pub(super) fn new(
        plan: &Arc<LayerConfig>,
        assessment: &Assessment,
        request: &Extensions,
        open: impl Iterator<Item = (usize, usize)>,
    ) -> Option<Self> {
        let open: SmallVec<_> = open
            .map(|(place, rule)| OpenCharge { place, rule })
            .collect();
        (!open.is_empty()).then(|| Self {
            plan: Arc::clone(plan),
            assessment: assessment.clone(),
            request: request.clone(),
            open,
            is_connect: false,
            left: Vec::new(),
        })
    }

    /// Notes what the head of the request says about how it ends.
    pub(super) fn begin(&mut self, method: &Method) {
        self.is_connect = method == Method::CONNECT;
    }

    pub(super) fn is_connect(&self) -> bool {
        self.is_connect
    }

    /// Closes what is charged by the response's head, or, at the end, everything. Returns what has to be waited for.
    pub(super) fn close(&mut self, outcome: Outcome<'_>, is_end: bool) -> Option<Closing> {
        // One after the other, so that one whose closure panics takes no other along.
        while let Some(OpenCharge { place, rule }) = self.next(is_end) {
            let ending = Ending::new(&self.request, outcome);
            let assessed = self.assessment.own(place);
            let Some(cost) = self.plan.rules.due(rule, assessed.cost, &ending) else {
                continue;
            };
            match assessed.try_settle(cost) {
                Ok(settled) => told(settled),
                Err(correction) => self.left.push(*correction),
            }
        }
        let left = std::mem::take(&mut self.left);
        if left.is_empty() {
            return None;
        }
        Some(Box::pin(async move {
            for correction in left {
                told(correction.make().await);
            }
        }))
    }

    /// Leaves what is open as it is charged, for the handler to settle.
    pub(super) fn leave(&mut self) {
        self.open.clear();
    }

    /// Takes out the next that is due.
    fn next(&mut self, is_end: bool) -> Option<OpenCharge> {
        let is_due = |open: &OpenCharge| is_end || !self.plan.rules.is_by_end(open.rule);
        let next = self.open.iter().position(is_due)?;
        Some(self.open.remove(next))
    }

    /// Whether nothing is open any more.
    pub(super) fn is_closed(&self) -> bool {
        self.open.is_empty() && self.left.is_empty()
    }
}

/// The request was abandoned: the client went away, or the service has panicked.
impl Drop for Settlement {
    fn drop(&mut self) {
        while !self.is_closed() {
            // A second panic while the first one unwinds would abort the process.
            match catch_unwind(AssertUnwindSafe(|| self.close(Outcome::Abandoned, true))) {
                Ok(closing) => closing.into_iter().for_each(detach),
                Err(_) => tracing::error!("a rule's closure panicked on an abandoned request"),
            }
        }
    }
}

pub(super) fn told(settled: Result<(), LimiterError>) {
    if let Err(error) = settled {
        tracing::debug!(%error, "the charge of a request could not be corrected");
    }
}
