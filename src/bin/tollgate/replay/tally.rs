//! What one limit did.

use std::{mem, time::Duration};

use serde_json::{Value, json};
use tollgate::{Decision, Limit};

use crate::{
    clients::{Denials, DeniedClients, Distinct, hash, kept},
    output::instant,
};

/// What one limit did, or would have done.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) name: String,
    /// The default in words.
    pub(super) values: String,
    pub(super) requests: u64,
    pub(super) denied: u64,
    pub(super) clients: Distinct,
    pub(super) clients_denied: Distinct,
    /// The longest time until a denied request would have passed.
    pub(super) longest_wait: Duration,
    /// Requests that waited in line, and the longest wait of one.
    pub(super) delayed: u64,
    pub(super) longest_delay: Duration,
    /// The denied clients, the most denied one first. Empty until the end.
    pub(super) most_denied: Vec<Denials>,
    by_client: DeniedClients,
}

impl Tally {
    pub(super) fn new(name: &str, limit: Option<&Limit>) -> Self {
        Self {
            name: name.to_owned(),
            values: limit.map_or_else(|| "no default".to_owned(), Limit::to_string),
            ..Self::default()
        }
    }

    /// Counts a decision. A limit in shadow mode counts as if it were in force.
    pub(super) fn count(&mut self, at: u64, id: &str, decision: &Decision) {
        let client = hash(id);
        self.requests += 1;
        self.clients.add(client);
        self.delayed += u64::from(!decision.delay().is_zero());
        self.longest_delay = self.longest_delay.max(decision.delay());
        if !decision.allowed() || decision.would_be_denied() {
            self.denied += 1;
            self.clients_denied.add(client);
            self.by_client.add(client, at, || kept(id));
            self.longest_wait = self
                .longest_wait
                .max(decision.next_after().unwrap_or_default());
        }
    }

    pub(super) fn ended(mut self) -> Self {
        self.most_denied = mem::take(&mut self.by_client).sorted();
        self
    }

    pub(super) fn as_json(&self, top: usize) -> Value {
        let most_denied = self.most_denied.iter().take(top).map(|client| {
            json!({"id": client.id, "denied": client.denied, "first": instant(client.first)})
        });
        json!({
            "requests": self.requests,
            "clients": self.clients.count(),
            "denied": self.denied,
            "clients_denied": self.clients_denied.count(),
            "most_denied": most_denied.collect::<Vec<_>>(),
        })
    }
}
