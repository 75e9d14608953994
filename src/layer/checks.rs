//! Finds mistakes in the use of a layer that only show while requests run, and stores that do not answer. Each is logged once.

use std::{
    error::Error,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use http::{HeaderName, HeaderValue, Method, header, request::Parts};
use parking_lot::Mutex;

use crate::{
    batch::Member, id::Id, key::IdSource, limiter::LimiterError, outage_log::OutageLog, rule::Rules,
};

/// The number of first requests that are checked.
const REQUESTS: u32 = 10_000;
/// If this number of requests has one id, and their user agents have changed often, the extractor is probably mistaken.
const REQUESTS_OF_ONE: u32 = 1_000;
const AGENTS: u32 = 8;
/// The headers in which proxies name the client.
const FORWARDING: [HeaderName; 3] = [
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-real-ip"),
];

/// The observations of a layer's requests.
#[derive(Debug, Default)]
pub(super) struct Checks {
    seen: AtomicU32,
    has_several_ids: AtomicBool,
    one: Mutex<SingleId>,
    outages: OutageLog,
    /// The mistakes that were logged.
    logged: Mutex<Vec<&'static str>>,
}

impl Checks {
    /// Checks the rules of a layer that is put around a service.
    pub(super) fn built(&self, rules: &Rules, is_idle: bool) {
        if is_idle {
            let remedy = "a RateLimitLayer without rules limits nothing: add one with `.rule(..)`";
            self.warn("no-rules", remedy);
        }
        let mut rules = rules.iter();
        if let Some((check, remedy)) = rules.find_map(|rule| rule.source().mistake()) {
            self.warn(check, remedy);
        }
    }

    /// Checks a request, if it is one of the first.
    #[inline]
    pub(super) fn look_at(&self, request: &Parts, rules: &Rules, members: &[Member<'_>]) {
        if self.seen.load(Ordering::Relaxed) < REQUESTS {
            self.look_closely(request, rules, members);
        }
    }

    #[cold]
    fn look_closely(&self, request: &Parts, rules: &Rules, members: &[Member<'_>]) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        let Some(member) = members.first() else {
            return;
        };
        let source = rules.at(member.role.rule).source();
        let forwards = || {
            FORWARDING
                .iter()
                .any(|name| request.headers.contains_key(name))
        };
        if source == IdSource::Peer && forwards() {
            let remedy = "a request names a client behind a proxy, and a rule counts by the peer's address: use \
                          `ClientIp::behind(Proxies::trusted(..))`, or remove such headers if there is no proxy";
            self.warn("forwarding-header-ignored", remedy);
        }
        if source != IdSource::Shared && self.is_suspicious(member, request) {
            let remedy = "a thousand requests of several user agents have one id: behind a proxy, use \
                          `ClientIp::behind(..)`; if all clients should share a bucket, use `key::Everyone`";
            self.warn("one-id", remedy);
        }
    }

    /// Checks a refused request.
    pub(super) fn refused(&self, request: &Parts) {
        const FIELDS: [HeaderName; 2] = [header::ORIGIN, header::ACCESS_CONTROL_REQUEST_METHOD];
        if request.method == Method::OPTIONS
            && FIELDS.iter().all(|name| request.headers.contains_key(name))
        {
            let remedy = "a CORS preflight request was refused: put the CORS layer outside of this one, so that it answers \
                          preflight requests: in axum, add it after this one";
            self.warn("preflight-refused", remedy);
        }
    }

    /// Logs that a connection was upgraded whose permits only the layer holds.
    pub(super) fn upgraded_without_permits(&self) {
        let remedy = "a connection was upgraded and no longer counts for its concurrency limit: hold \
                      `Assessment::permits()` in the handler for as long as the connection is open";
        self.warn("upgrade-not-counted", remedy);
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
            // The client has asked for more than the limit can admit. The response tells it.
            LimiterError::CostAboveBurst { .. } => {}
            error => {
                if self.is_first("misuse") {
                    tracing::error!(%error, "requests are refused because their rules are misconfigured");
                }
            }
        }
    }

    /// Returns whether all requests have had one id, and this is the thousandth.
    fn is_suspicious(&self, member: &Member<'_>, request: &Parts) -> bool {
        if self.has_several_ids.load(Ordering::Relaxed) {
            return false;
        }
        let mut one = self.one.lock();
        let id = member.client();
        if one.requests > 0 && one.id != id {
            self.has_several_ids.store(true, Ordering::Relaxed);
            return false;
        }
        let agent = request.headers.get(header::USER_AGENT);
        one.changes += u32::from(one.agent.as_ref() != agent);
        one.id = id;
        one.agent = agent.cloned();
        one.requests += 1;
        one.requests == REQUESTS_OF_ONE && one.changes >= AGENTS
    }

    /// Logs a mistake the first time.
    fn warn(&self, check: &'static str, remedy: &str) {
        if self.is_first(check) {
            tracing::warn!(check, "{remedy}");
        }
    }

    fn is_first(&self, check: &'static str) -> bool {
        let mut logged = self.logged.lock();
        let is_first = !logged.contains(&check);
        logged.extend(is_first.then_some(check));
        is_first
    }
}

/// The requests before the first one with another id.
#[derive(Debug, Default)]
struct SingleId {
    id: Option<Id>,
    requests: u32,
    agent: Option<HeaderValue>,
    /// How often a request was from another user agent than the one before it.
    changes: u32,
}
