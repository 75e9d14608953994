//! A layer with one rule takes a shorter way. Here it receives the same requests as a layer with a second rule that never
//! applies, and both have to answer the same. A process takes the shorter way only if nobody listens to its events, so the
//! test has a process of its own.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt, Full};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction, clock::ManualClock,
    id::IdFormat, key::HeaderId, layer::Assessment, limit::LimitName, quota::Per,
    response::Headers, rule::OnMissing, transaction::Mode,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::alone::alone;

const NAMES: [&str; 8] = [
    "few", "few", "few", "quota", "window", "blocked", "shadow", "off",
];
const IDS: [&str; 4] = ["alice", "rich", "ALICE", ""];
const ROUNDS: usize = 300;
const REQUESTS: usize = 12;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

fn limiter(clock: &ManualClock) -> Limiter {
    let shadow = LimitName::new("shadow", 7, IdFormat::Opaque).shadow(true);
    let limits = Limits::builder()
        .limit("few", Limit::per_second(2))
        .limit(
            "quota",
            Limit::quota(3, Per::first_use(Duration::from_secs(1))),
        )
        .limit("window", Limit::window(3, Duration::from_secs(1)))
        .limit("blocked", Limit::BLOCKED)
        .limit(shadow, Limit::per_second(2))
        .name(LimitName::new("off", 8, IdFormat::Opaque))
        .limit("never", Limit::per_second(1))
        .override_for("few", "rich", Limit::per_second(9))
        .build();
    Limiter::new(limits.unwrap(), MemoryBackend::new()).with_clock(clock.clone())
}

/// A rule and a layer, as this seed chooses them.
fn layer(limiter: &Limiter, seed: u64) -> (RateLimitLayer, &'static str) {
    let mut random = Random(seed);
    let name = NAMES[random.below(NAMES.len())];
    let mut rule = Rule::new(name, HeaderId::new("x-id"));
    rule = match random.below(6) {
        0 => rule.cost(2),
        1 => rule.cost_by(|head| head.headers.len().try_into().unwrap_or(u32::MAX) - 1),
        _ => rule,
    };
    if random.one_in(4) {
        rule = rule.skip_if(|head: &Parts| head.headers.contains_key("x-skip"));
    }
    rule = rule.on_missing(match random.below(3) {
        0 => OnMissing::Refuse,
        1 => OnMissing::Skip,
        _ => OnMissing::Shared,
    });
    rule = match random.below(8) {
        0 => rule.settle_by(|_| 0),
        1 => rule.mode(Mode::CheckOnly),
        2 => rule.mode(Mode::SpendOnly),
        3 => rule.mode(Mode::Debit),
        _ => rule,
    };
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let layer = layer.headers(match random.below(3) {
        0 => Headers::Draft11,
        1 => Headers::XRateLimitEpoch,
        _ => Headers::None,
    });
    let (to_request, to_response) = (random.one_in(3), random.one_in(3));
    let layer = layer.extensions(to_request).response_extension(to_response);
    (layer, name)
}

/// Everything that a client, a handler and an outer layer see.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    seen_by_handler: Option<String>,
    seen_outside: Option<String>,
    left: Vec<String>,
}

fn shown(assessment: &Assessment) -> String {
    let parts = assessment.iter().map(|one| {
        let (decision, receipt) = (&one.decision, one.decision.receipt());
        format!(
            "{} {} {} {decision:?} {receipt:?}",
            one.limit, one.id, one.cost
        )
    });
    parts.collect::<Vec<_>>().join("\n")
}

async fn answer(layer: &RateLimitLayer, limiter: &Limiter, request: Request<()>) -> Answer {
    let seen = Arc::new(Mutex::new(None));
    let ours = Arc::clone(&seen);
    let handler = service_fn(move |request: Request<()>| {
        *ours.lock().unwrap() = request.extensions().get().map(shown);
        async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) }
    });
    let response = layer.layer(handler).oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut left = Vec::new();
    for (limit, id) in ["few", "quota", "window", "shadow"]
        .iter()
        .flat_map(|limit| IDS[..3].iter().map(move |id| (limit, id)))
    {
        let checked = limiter.check(&Transaction::new(*limit, id)).await;
        left.push(format!("{checked:?}"));
    }
    Answer {
        status: head.status,
        headers: head.headers,
        body,
        seen_by_handler: seen.lock().unwrap().take(),
        seen_outside: head.extensions.get().map(shown),
        left,
    }
}

/// A request, as this seed chooses it.
fn request(seed: u64) -> Request<()> {
    let mut random = Random(seed);
    let mut request = Request::builder();
    if !random.one_in(8) {
        request = request.header("x-id", IDS[random.below(IDS.len())]);
    }
    if random.one_in(4) {
        request = request.header("x-skip", "yes");
    }
    request.header("x-more", "1").body(()).unwrap()
}

#[tokio::test]
async fn layer_with_one_rule_answers_as_one_with_several() {
    if !alone("one_rule::layer_with_one_rule_answers_as_one_with_several") {
        return;
    }
    let mut random = Random(1);
    let mut statuses = Vec::new();
    for _ in 0..ROUNDS {
        let clock = ManualClock::default();
        let (seed, limiters) = (random.0, [limiter(&clock), limiter(&clock)]);
        let (one, name) = layer(&limiters[0], seed);
        let never = Rule::new("never", HeaderId::new("x-id")).skip_if(|_: &Parts| true);
        let several = layer(&limiters[1], seed).0.rule(never);
        for _ in 0..REQUESTS {
            let step = 100_000 * random.below(3) as u64;
            clock.advance(Duration::from_micros(step));
            let seed = random.0;
            let ours = answer(&one, &limiters[0], request(seed)).await;
            let theirs = answer(&several, &limiters[1], request(seed)).await;
            assert_eq!(ours, theirs, "limit `{name}`");
            statuses.push(ours.status);
        }
    }
    for status in [
        StatusCode::OK,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_REQUEST,
    ] {
        assert!(statuses.contains(&status), "{status}");
    }
}
