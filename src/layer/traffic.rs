//! Examines the first requests of a layer for mistakes in its configuration.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use ahash::RandomState;
use http::{HeaderName, Method, header, request::Parts};
use parking_lot::Mutex;

use crate::{
    check::{Check, Checks, Finding, Reporter},
    id::Id,
    key::IdSource,
    limiter::Limiter,
    rule::{Charge, ChargeList, Rules},
};

/// The number of requests that are examined. If no id repeats in at least half of them, something is wrong with the
/// ids. Only a service with many million clients that come once would be a false alarm.
const REQUESTS: u32 = 10_000;
/// The number of requests with one id, and the number of user agents among them, for a finding.
const REQUESTS_OF_ONE: u32 = 1_000;
const AGENTS: usize = 8;
/// The headers in which proxies name the client.
const FORWARDING: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

/// The observations of a layer.
#[derive(Debug)]
pub(super) struct TrafficChecks {
    reporter: Arc<Reporter>,
    seen: AtomicU32,
    sample: Mutex<TrafficSample>,
}

#[derive(Debug, Default)]
struct TrafficSample {
    hasher: RandomState,
    agents: HashSet<u64>,
    /// For each limit of each rule, the buckets that were charged.
    ids: Vec<SeenIds>,
    /// For each rule, whether it has applied to a request.
    met: Vec<bool>,
}

#[derive(Debug, Default)]
struct SeenIds {
    limit: Option<Arc<str>>,
    requests: u32,
    distinct: HashSet<u64>,
    /// Whether an id has repeated.
    repeated: bool,
    /// Whether there are several ids.
    several: bool,
}

impl TrafficChecks {
    pub(super) fn new(checks: Checks) -> Self {
        let looks = [
            Check::ForwardingHeaderIgnored,
            Check::OneId,
            Check::IdPerRequest,
            Check::ChargedTwice,
            Check::RuleUnmet,
            Check::LayerRebuilt,
        ];
        let looks = looks.iter().any(|check| checks.has(*check));
        Self {
            reporter: Arc::new(Reporter::new(checks)),
            seen: AtomicU32::new(if looks { 0 } else { REQUESTS }),
            sample: Mutex::default(),
        }
    }

    pub(super) fn checks(&self) -> Checks {
        self.reporter.checks()
    }

    /// Reports a mistake that is known at startup.
    pub(super) fn report(&self, finding: &Finding) {
        self.reporter.report(finding);
    }

    /// Examines a request and its charges, as long as checks are open.
    #[inline]
    pub(super) fn inspect(
        &self,
        request: &mut Parts,
        limiter: &Limiter,
        rules: &Rules,
        charges: ChargeList<'_>,
    ) {
        if self.inspects() {
            limiter.note_request(&self.reporter);
            if self.reporter.wants(Check::ChargedTwice) {
                self.inspect_outer(request, limiter, rules, charges);
            }
            self.inspect_closely(request, rules, charges);
        }
    }

    #[inline]
    pub(super) fn inspects(&self) -> bool {
        self.seen.load(Ordering::Relaxed) < REQUESTS
    }

    /// Examines a request, unless another thread is examining one. No request waits for this.
    #[cold]
    fn inspect_closely(&self, request: &Parts, rules: &Rules, charges: ChargeList<'_>) {
        let Some(mut sample) = self.sample.try_lock() else {
            return;
        };
        let seen = self.seen.load(Ordering::Relaxed).saturating_add(1);
        for charge in charges
            .iter()
            .filter(|charge| charge.id.as_found().as_str() != Id::MISSING)
        {
            self.inspect_headers(request, rules, charge);
            if let Some(finding) = sample.add(request, rules, charge) {
                self.reporter.report(&finding);
            }
        }
        if self.reporter.wants(Check::RuleUnmet) {
            rules.mark_met(request, &mut sample.met);
        }
        if seen == REQUESTS {
            let findings = [sample.without_repetition(), sample.without_request(rules)];
            for finding in findings.iter().flatten() {
                self.reporter.report(finding);
            }
            *sample = TrafficSample::default();
        }
        self.seen.store(seen, Ordering::Relaxed);
    }

    fn inspect_headers(&self, request: &Parts, rules: &Rules, charge: Charge<'_>) {
        const CHECK: Check = Check::ForwardingHeaderIgnored;
        if !self.reporter.wants(CHECK) || rules.id_source(charge) != IdSource::Peer {
            return;
        }
        let mut forwarding = FORWARDING.iter();
        if let Some(header) = forwarding.find(|name| request.headers.contains_key(**name)) {
            let limit = rules.limit(charge);
            let seen = format!(
                "a request has `{header}`, but limit `{limit}` counts by the peer's address"
            );
            self.reporter.report(&Finding::new(CHECK, seen));
        }
    }

    /// Reports a refused request if it is a browser's preflight request.
    #[inline]
    pub(super) fn inspect_refused(&self, request: &Parts) {
        if request.method == Method::OPTIONS {
            self.inspect_preflight(request);
        }
    }

    #[cold]
    fn inspect_preflight(&self, request: &Parts) {
        const CHECK: Check = Check::PreflightRefused;
        const FIELDS: [HeaderName; 2] = [header::ORIGIN, header::ACCESS_CONTROL_REQUEST_METHOD];
        if self.reporter.wants(CHECK)
            && FIELDS.iter().all(|name| request.headers.contains_key(name))
        {
            let seen = "a CORS preflight request was refused";
            self.reporter.report(&Finding::new(CHECK, seen));
        }
    }

    /// Reports a bucket that an outer layer charges too, and marks the request for inner layers.
    fn inspect_outer(
        &self,
        request: &mut Parts,
        limiter: &Limiter,
        rules: &Rules,
        charges: ChargeList<'_>,
    ) {
        let ChargedBuckets(mut all) = request.extensions.remove().unwrap_or_default();
        let is_charged =
            |charge: &Charge<'_>| charge.terms.cost > 0 && rules.mode(*charge).spends();
        for charge in charges.iter().filter(is_charged) {
            let (limit, id) = (rules.limit(charge), charge.terms.hash.low);
            let is_same = |(other, name, hash): &(Limiter, Arc<str>, u64)| {
                other.is_same(limiter) && name == limit && *hash == id
            };
            if all.iter().any(is_same) {
                let seen = format!("one request met limit `{limit}` in two layers");
                self.reporter
                    .report(&Finding::new(Check::ChargedTwice, seen));
            }
            all.push((limiter.clone(), Arc::clone(limit), id));
        }
        request.extensions.insert(ChargedBuckets(all));
    }
}

/// The buckets that outer layers charge, by limiter, limit and hash of the id.
#[derive(Clone, Default)]
struct ChargedBuckets(Vec<(Limiter, Arc<str>, u64)>);

impl TrafficSample {
    /// Adds a request, and returns a finding about all of them.
    fn add(&mut self, request: &Parts, rules: &Rules, charge: Charge<'_>) -> Option<Finding> {
        if let Some(agent) = request.headers.get(header::USER_AGENT)
            && self.agents.len() < AGENTS
        {
            self.agents.insert(self.hasher.hash_one(agent.as_bytes()));
        }
        let target = charge.terms.target.index();
        if self.ids.len() <= target {
            self.ids.resize_with(target + 1, SeenIds::default);
        }
        let ids = &mut self.ids[target];
        ids.add(charge.terms.hash.low);
        let limit = rules.limit(charge);
        let id_source = rules.id_source(charge);
        let one = !ids.several && ids.requests == REQUESTS_OF_ONE && self.agents.len() == AGENTS;
        if one && id_source != IdSource::OneForAll {
            let seen = format!(
                "{REQUESTS_OF_ONE} requests from at least {AGENTS} user agents share one id for limit `{limit}`"
            );
            return Some(Finding::new(Check::OneId, seen));
        }
        if ids.requests == 1 {
            ids.limit = Some(Arc::clone(limit));
        }
        None
    }

    /// Returns the finding about a rule that has never applied.
    fn without_request(&self, rules: &Rules) -> Option<Finding> {
        let limit = rules.limit_unmet(&self.met)?;
        let seen = format!("a rule of limit `{limit}` matched none of {REQUESTS} requests");
        Some(Finding::new(Check::RuleUnmet, seen))
    }

    /// Returns the finding about a limit whose ids never repeat.
    fn without_repetition(&self) -> Option<Finding> {
        let mut ids = self.ids.iter();
        let ids = ids.find(|ids| !ids.repeated && ids.requests >= REQUESTS / 2)?;
        let (requests, limit) = (ids.requests, ids.limit.as_deref()?);
        let seen = format!("each of {requests} requests had a different id for limit `{limit}`");
        Some(Finding::new(Check::IdPerRequest, seen))
    }
}

impl SeenIds {
    fn add(&mut self, id: u64) {
        self.requests += 1;
        if !self.repeated {
            self.repeated = !self.distinct.insert(id);
            self.several |= self.distinct.len() > 1;
            if self.repeated && self.several {
                self.distinct = HashSet::new();
            }
        } else if !self.several {
            self.several = self.distinct.insert(id);
        }
    }
}
