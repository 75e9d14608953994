//! Mistakes in the use of a layer that only show while requests run, and stores that do not answer. Each is logged once.

use std::{
    error::Error,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use ahash::RandomState;
use http::{HeaderName, Method, header, request::Parts};

use crate::{
    key::IdSource,
    limiter::LimiterError,
    outage_log::OutageLog,
    rule::{Charge, Rules},
};

/// The number of requests that are looked at.
const REQUESTS: u32 = 10_000;
/// So many requests with one id, and so many changes of the user agent among them, are a mistake.
const REQUESTS_OF_ONE: u32 = 1_000;
const AGENTS: u32 = 8;
/// The headers in which proxies name the client.
const FORWARDING: [HeaderName; 3] = [
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
];

/// What is known of a layer's requests.
#[derive(Debug, Default)]
pub(super) struct Checks {
    seen: AtomicU32,
    one: OneId,
    outages: OutageLog,
    told: Told,
}

/// What was logged.
#[derive(Debug, Default)]
struct Told {
    no_rules: AtomicBool,
    source: AtomicBool,
    forwarding: AtomicBool,
    one_id: AtomicBool,
    preflight: AtomicBool,
    upgrade: AtomicBool,
    misuse: AtomicBool,
}

impl Checks {
    /// Looks at the rules of a layer that is put around a service.
    pub(super) fn built(&self, rules: &Rules, is_idle: bool) {
        if is_idle && is_first(&self.told.no_rules) {
            tracing::warn!(
                "a RateLimitLayer without rules limits nothing: add one with `.rule(..)`"
            );
        }
        let mut rules = rules.iter();
        if let Some((code, remedy)) = rules.find_map(|rule| rule.source().mistake()) {
            warn(&self.told.source, code, remedy);
        }
    }

    /// Looks at one of the first requests.
    #[inline]
    pub(super) fn look_at(&self, request: &Parts, rules: &Rules, charges: &[Charge]) {
        if self.seen.load(Ordering::Relaxed) < REQUESTS {
            self.look_closely(request, rules, charges);
        }
    }

    #[cold]
    fn look_closely(&self, request: &Parts, rules: &Rules, charges: &[Charge]) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        let Some(charge) = charges.first() else {
            return;
        };
        let source = rules.at(charge.rule).source();
        let forwards = || {
            FORWARDING
                .iter()
                .any(|name| request.headers.contains_key(name))
        };
        if source == IdSource::Peer && forwards() {
            let remedy = "a request names a client behind a proxy, and a rule counts by the peer's address: use \
                          `ClientIp::behind(Proxies::trusted(..))`, or remove such headers if there is no proxy";
            warn(&self.told.forwarding, "forwarding-header-ignored", remedy);
        }
        if source != IdSource::Shared && self.one.is_suspicious(charge, request) {
            let remedy = "a thousand requests of several user agents have one id: behind a proxy, use \
                          `ClientIp::behind(..)`; if all clients should share a bucket, use `key::Everyone`";
            warn(&self.told.one_id, "one-id", remedy);
        }
    }

    /// Looks at a request that is refused.
    pub(super) fn refused(&self, request: &Parts) {
        const FIELDS: [HeaderName; 2] = [header::ORIGIN, header::ACCESS_CONTROL_REQUEST_METHOD];
        if request.method == Method::OPTIONS
            && FIELDS.iter().all(|name| request.headers.contains_key(name))
        {
            let remedy = "a CORS preflight request was refused: put the CORS layer outside of this one, so that it answers \
                          preflight requests: in axum, add it after this one";
            warn(&self.told.preflight, "preflight-refused", remedy);
        }
    }

    /// A connection was upgraded, and nobody but the layer holds its permits.
    pub(super) fn upgraded_without_permits(&self) {
        let remedy = "a connection was upgraded and no longer counts for its concurrency limit: hold \
                      `Assessment::permits()` in the handler for as long as the connection is open";
        warn(&self.told.upgrade, "upgrade-not-counted", remedy);
    }

    #[inline]
    pub(super) fn decided(&self) {
        if self.outages.succeeded() {
            tracing::info!("rate limits can be decided again");
        }
    }

    pub(super) fn failed(&self, error: &LimiterError) {
        match error {
            LimiterError::Backend(error) => {
                if self.outages.failed() {
                    let source = error.source().map(tracing::field::display);
                    tracing::error!(%error, source, "rate limits cannot be decided");
                }
            }
            // The client asks for more than the limit can admit, and the response says so.
            LimiterError::CostAboveBurst { .. } => {}
            error => {
                if is_first(&self.told.misuse) {
                    tracing::error!(%error, "requests are refused because their rules are misconfigured");
                }
            }
        }
    }
}

/// The requests before the first one with another id.
#[derive(Debug, Default)]
struct OneId {
    hasher: RandomState,
    id: AtomicU64,
    is_over: AtomicBool,
    requests: AtomicU32,
    agent: AtomicU64,
    /// How often a request was from another user agent than the one before it.
    changes: AtomicU32,
}

impl OneId {
    /// Returns whether all requests have had one id, and this is the thousandth.
    fn is_suspicious(&self, charge: &Charge, request: &Parts) -> bool {
        if self.is_over.load(Ordering::Relaxed) {
            return false;
        }
        let id = self.hasher.hash_one(charge.client());
        if self.requests.load(Ordering::Relaxed) > 0 && self.id.load(Ordering::Relaxed) != id {
            self.is_over.store(true, Ordering::Relaxed);
            return false;
        }
        self.id.store(id, Ordering::Relaxed);
        let agent = request.headers.get(header::USER_AGENT);
        let agent = self.hasher.hash_one(agent.map(|agent| agent.as_bytes()));
        if self.agent.swap(agent, Ordering::Relaxed) != agent {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        let requests = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        requests == REQUESTS_OF_ONE && self.changes.load(Ordering::Relaxed) >= AGENTS
    }
}

fn warn(told: &AtomicBool, check: &str, remedy: &str) {
    if is_first(told) {
        tracing::warn!(check, "{remedy}");
    }
}

fn is_first(told: &AtomicBool) -> bool {
    !told.swap(true, Ordering::Relaxed)
}
