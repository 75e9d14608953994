//! What one limit did.

use std::time::Duration;

use tollgate::{Decision, Limit, transaction::Algorithm};

use super::timeline::Timeline;
use crate::{
    busiest::{Denials, DeniedClients, kept},
    distinct::Distinct,
    output::{grouped, span},
};

/// What one limit did, or would have done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) name: String,
    /// The default limit in words.
    pub(crate) words: String,
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    pub(crate) clients: Distinct,
    pub(crate) clients_denied: Distinct,
    /// The longest time until a denied request would have passed.
    pub(crate) longest_wait: Duration,
    pub(crate) timeline: Timeline,
    /// What waiting in line would have made of it.
    pub(crate) in_line: Option<WhatIf>,
    /// The denied clients, the most denied one first. Empty until the end.
    pub(crate) most_denied: Vec<(String, Denials)>,
    by_client: DeniedClients<String>,
}

/// What would have happened if requests had waited for their turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WhatIf {
    pub(crate) denied: u64,
    pub(crate) delayed: u64,
    pub(crate) longest_delay: Duration,
}

impl WhatIf {
    pub(crate) fn sentence(&self, max_wait: Duration) -> String {
        format!(
            "if requests waited in line for up to {}, {} would be denied and {} delayed, by at most {}.",
            span(max_wait),
            grouped(self.denied),
            grouped(self.delayed),
            span(self.longest_delay)
        )
    }
}

impl Tally {
    pub(super) fn new(name: &str, limit: Option<&Limit>) -> Self {
        let is_bucket = |limit: &&Limit| matches!(limit.algorithm(), Some(Algorithm::Gcra(_)));
        Self {
            name: name.to_owned(),
            words: limit.map_or_else(|| "no default".to_owned(), Limit::to_string),
            in_line: limit.filter(is_bucket).map(|_| WhatIf::default()),
            ..Self::default()
        }
    }

    /// Counts a decision. A limit in shadow mode counts as if it were in force.
    pub(super) fn count(&mut self, at: u64, id: &str, client: u64, decision: &Decision) {
        let is_denied = is_denied(decision);
        self.requests += 1;
        self.clients.add(client);
        self.timeline.add(at, is_denied);
        if is_denied {
            self.denied += 1;
            self.clients_denied.add(client);
            self.by_client.add(id, at);
            let wait = decision.next_after();
            if wait != Decision::NEVER {
                self.longest_wait = self.longest_wait.max(wait);
            }
        }
    }

    /// Counts a decision on the same limit with a line.
    pub(super) fn count_in_line(&mut self, decision: &Decision) {
        if let Some(in_line) = &mut self.in_line {
            in_line.denied += u64::from(is_denied(decision));
            in_line.delayed += u64::from(!decision.delay().is_zero());
            in_line.longest_delay = in_line.longest_delay.max(decision.delay());
        }
    }

    pub(super) fn is_exact(&self) -> bool {
        self.clients.is_exact()
    }

    pub(super) fn ended(mut self, has_line: bool) -> Self {
        self.in_line = self.in_line.filter(|_| has_line);
        let sorted = std::mem::take(&mut self.by_client).sorted();
        let kept = sorted.into_iter().map(|(id, denials)| (kept(&id), denials));
        self.most_denied = kept.collect();
        self
    }
}

fn is_denied(decision: &Decision) -> bool {
    !decision.allowed() || decision.would_be_denied()
}
