//! The parameters of our own, which `Headers::Exact` adds after the standard ones.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::ManualClock, key::Everyone,
    quota::Per, response::Headers, tiers::Tier,
};

use super::value;
use crate::support::send;

/// The fields of the second request, 0.25 s after the first, of this cost.
async fn fields(limit: Limit, cost: u32, headers: Headers) -> [Option<String>; 2] {
    let clock = ManualClock::default();
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("l", Everyone).cost(cost))
        .headers(headers);
    send(&layer, "203.0.113.7").await;
    clock.advance(Duration::from_millis(250));
    let response = send(&layer, "203.0.113.7").await;
    ["ratelimit-policy", "ratelimit"].map(|name| value(response.headers(), name).map(str::to_owned))
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one case after the other")]
async fn each_algorithm_says_how_its_units_come_back() {
    let steady = Limit::new(5, 3, Duration::from_millis(1000)).unwrap();
    let tiers = Limit::tiers([Tier::new(5, Duration::from_millis(1500))]).unwrap();
    let cases = [
        (
            steady.clone(),
            1,
            "q=5;w=2",
            ";tollgate-count=3;tollgate-period=1000000",
            "r=3;t=1",
            "83334",
        ),
        (
            steady.clone(),
            2,
            "q=5;w=2",
            ";tollgate-count=3;tollgate-period=1000000;tollgate-cost=2",
            "r=1;t=1",
            "83334",
        ),
        // Without tokio, nobody waits in line.
        #[cfg(feature = "tokio")]
        (
            steady.max_wait(Duration::from_millis(500)),
            1,
            "q=6;w=3",
            "",
            "r=5;t=1",
            "250000",
        ),
        (
            Limit::window(5, Duration::from_millis(1500)),
            1,
            "q=5;w=2",
            ";tollgate-window=1500000",
            "r=3;t=2",
            "1250000",
        ),
        (
            Limit::quota(5, Per::first_use(Duration::from_millis(1500))),
            1,
            "q=5;w=2",
            ";tollgate-window=1500000",
            "r=3;t=2",
            "1250000",
        ),
        (
            Limit::quota(5, Per::Hour),
            1,
            "q=5;w=3600",
            "",
            "r=3;t=3600",
            "3599750000",
        ),
        (tiers, 1, "q=5;w=2", "", "r=3;t=2", "1250001"),
        (
            Limit::concurrent(5),
            1,
            "q=5;qu=\"concurrent-requests\"",
            "",
            "r=4",
            "",
        ),
        (Limit::BLOCKED, 1, "q=0", "", "r=0", ""),
    ];
    for (limit, cost, policy, refill, state, next) in cases {
        let next = match next {
            "" => String::new(),
            us => format!(";tollgate-t={us}"),
        };
        let item = |standard: &str, ours: &str| Some(format!("\"l\";{standard}{ours}"));
        let standard = fields(limit.clone(), cost, Headers::Draft11).await;
        assert_eq!(standard, [item(policy, ""), item(state, "")], "{limit:?}");
        let exact = fields(limit.clone(), cost, Headers::Exact).await;
        assert_eq!(
            exact,
            [item(policy, refill), item(state, &next)],
            "{limit:?}"
        );
    }
}

#[tokio::test]
async fn numbers_that_fields_cannot_hold_are_left_out() {
    let years = Duration::from_secs(2_000_000_000);
    let limit = Limit::new(1, 1, years).unwrap();
    let fields = fields(limit, 1, Headers::Exact).await;
    let expected = ["\"l\";q=1;w=2000000000", "\"l\";r=0;t=2000000000"];
    assert_eq!(fields, expected.map(|text| Some(text.to_owned())));
}

#[tokio::test]
async fn cost_is_that_of_the_request() {
    let cost = Arc::new(AtomicU32::new(2));
    let limit = Limit::per_second(10).burst(100);
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter).rule({
        let cost = Arc::clone(&cost);
        Rule::new("l", Everyone).cost_by(move |_| cost.load(Ordering::Relaxed))
    });
    let layer = layer.headers(Headers::Exact);
    // Only the cost of the first request is named: the items for all others are the same.
    for (next, named) in [(2, true), (7, false), (1, false), (2, true)] {
        cost.store(next, Ordering::Relaxed);
        let response = send(&layer, "203.0.113.7").await;
        let policy = value(response.headers(), "ratelimit-policy").unwrap();
        assert!(policy.contains(";tollgate-period=1000000"), "{policy}");
        assert_eq!(policy.ends_with(";tollgate-cost=2"), named, "{policy}");
    }
}
