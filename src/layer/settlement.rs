//! Charges by outcome, which are corrected exactly once, however the request ends.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use http::{Extensions, Method, StatusCode};
use smallvec::SmallVec;

use super::{
    assessment::{Assessment, Correction},
    config::LayerConfig,
};
use crate::{
    limiter::LimiterError,
    rule::{EndingKind, RequestEnd},
    task::Closing,
};

/// The open charges of a request. If it is dropped, the request counts as abandoned.
#[derive(Debug)]
pub(super) struct Settlement {
    config: Arc<LayerConfig>,
    assessment: Assessment,
    request: Extensions,
    open: SmallVec<[OpenCharge; 2]>,
    /// Whether the request asks for a tunnel.
    is_connect: bool,
    /// Whether the request asks for a response without its body.
    is_head: bool,
    /// Corrections that wait for the store.
    left: Vec<Correction>,
}

/// An open charge: its index in the assessment, and its rule.
#[derive(Clone, Copy, Debug)]
struct OpenCharge {
    place: usize,
    rule: usize,
}

impl Settlement {
    /// Creates the settlement for the charges that depend on the outcome, by their indices in the assessment and their
    /// rules, if there are any.
    pub(super) fn new(
        config: &Arc<LayerConfig>,
        assessment: &Assessment,
        request: &Extensions,
        open: impl Iterator<Item = (usize, usize)>,
    ) -> Option<Self> {
        let open: SmallVec<_> = open
            .map(|(place, rule)| OpenCharge { place, rule })
            .collect();
        (!open.is_empty()).then(|| Self {
            config: Arc::clone(config),
            assessment: assessment.clone(),
            request: request.clone(),
            open,
            is_connect: false,
            is_head: false,
            left: Vec::new(),
        })
    }

    /// Records what the method says about the response: whether it begins a tunnel, or has no body.
    pub(super) fn begin(&mut self, method: &Method) {
        self.is_connect = method == Method::CONNECT;
        self.is_head = method == Method::HEAD;
    }

    pub(super) fn is_connect(&self) -> bool {
        self.is_connect
    }

    /// Returns whether a response with this status has no body, whatever its fields say (RFC 9112, section 6.3).
    pub(super) fn has_no_body(&self, status: StatusCode) -> bool {
        let never = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
        self.is_head || never.contains(&status)
    }

    /// Closes the charges that depend on the response's head or, at the end, all of them. Returns the corrections that
    /// wait for the store.
    pub(super) fn close(&mut self, outcome: EndingKind<'_>, is_end: bool) -> Option<Closing> {
        // One after the other, so that a panic in one closure does not affect the others.
        while let Some(OpenCharge { place, rule }) = self.next(is_end) {
            let ending = RequestEnd::new(&self.request, outcome);
            let cost = self.assessment.own_cost(place);
            let Some(cost) = self.config.rules.due(rule, cost, &ending) else {
                continue;
            };
            match self.assessment.own(place).try_settle(cost) {
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

    /// Runs corrections in the background.
    pub(super) fn detach(&self, closing: Closing) {
        self.config.limiter.detach(closing);
    }

    /// Leaves open charges as they are, for the handler to settle.
    pub(super) fn leave(&mut self) {
        self.open.clear();
    }

    /// Takes out the next charge that is due.
    fn next(&mut self, is_end: bool) -> Option<OpenCharge> {
        let is_due = |open: &OpenCharge| is_end || !self.config.rules.is_by_end(open.rule);
        let next = self.open.iter().position(is_due)?;
        Some(self.open.remove(next))
    }

    /// Returns whether no charge is open.
    pub(super) fn is_closed(&self) -> bool {
        self.open.is_empty() && self.left.is_empty()
    }
}

/// Closes the charges of an abandoned request: the client disconnected, or the service panicked.
impl Drop for Settlement {
    fn drop(&mut self) {
        while !self.is_closed() {
            // A second panic while the first one unwinds would abort the process.
            match catch_unwind(AssertUnwindSafe(|| self.close(EndingKind::Abandoned, true))) {
                Ok(closing) => closing.into_iter().for_each(|closing| self.detach(closing)),
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
