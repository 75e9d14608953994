//! The fields that show how much is left, in each dialect, for each kind of limit.

use std::time::Duration;

use http::{HeaderMap, Method, request::Parts};
use sfv::{List, ListEntry, Parser};
#[cfg(feature = "failure-policy")]
use tollgate::backend::Lease;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::ManualClock,
    key::Everyone, limit::LimitName, quota::Per, rule::methods, tiers::Tier,
};

use tower::{Layer, ServiceExt};

#[cfg(feature = "failure-policy")]
use crate::support::store::{Fate, Store};
use crate::support::{Hello, from_ip, layer, limiter, limiter_of, send};

const IP: &str = "203.0.113.7";
const DAY: u64 = 86_400;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

pub(crate) async fn sent(layer: &RateLimitLayer) -> HeaderMap {
    send(layer, IP).await.headers().clone()
}

/// The two fields of the draft.
pub(crate) fn draft(headers: &HeaderMap) -> [Option<&str>; 2] {
    ["ratelimit-policy", "ratelimit"].map(|name| value(headers, name))
}

#[tokio::test]
async fn every_limit_is_listed_and_a_denial_names_those_that_deny() {
    let limits = Limits::builder()
        .limit("per-ip", Limit::per_minute(3))
        .limit("all", Limit::per_hour(100).burst(5))
        .limit(LimitName::from("shadow").shadow(true), Limit::per_hour(1))
        .block("abuse", "paused")
        .name("off");
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let layer = ["per-ip", "off", "shadow", "abuse"].into_iter().fold(
        RateLimitLayer::with_limiter(limiter.clone()),
        |layer, limit| layer.rule(Rule::new(limit, ClientIp::peer())),
    );
    let layer = layer.rule(Rule::new("all", Everyone));
    let policy = Some("\"per-ip\";q=3;w=60, \"all\";q=5;w=180");
    for state in [
        "\"per-ip\";r=2;t=20, \"all\";r=4;t=36",
        "\"per-ip\";r=1;t=20, \"all\";r=3;t=36",
        "\"per-ip\";r=0;t=20, \"all\";r=2;t=36",
        "\"per-ip\";r=0;t=20",
    ] {
        assert_eq!(draft(&sent(&layer).await), [policy, Some(state)]);
    }
    // The second limit was not charged for the denied request.
    let other = send(&layer, "203.0.113.8").await;
    let state = Some("\"per-ip\";r=2;t=20, \"all\";r=1;t=36");
    assert_eq!(value(other.headers(), "ratelimit"), state);
    // An override while requests run.
    let nine = Some(Limit::per_minute(9));
    limiter.set_override("per-ip", IP, nine).unwrap();
    let policy = Some("\"per-ip\";q=9;w=60, \"all\";q=5;w=180");
    assert_eq!(value(&sent(&layer).await, "ratelimit-policy"), policy);
}

/// The fields of the second request, 0.25 s after the first, of this cost.
async fn second(limit: Limit, cost: u32) -> [Option<String>; 2] {
    let clock = ManualClock::default();
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let rule = Rule::new("l", Everyone).cost(cost);
    let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
    sent(&layer).await;
    clock.advance(Duration::from_millis(250));
    draft(&sent(&layer).await).map(|value| value.map(str::to_owned))
}

#[tokio::test]
async fn limits_of_each_algorithm_are_written_in_whole_seconds() {
    let span = Duration::from_millis(1500);
    let gcra = Limit::new(5, 3, secs(1)).unwrap();
    let tiers = Limit::tiers([Tier::new(5, span)]).unwrap();
    let first_use = Limit::quota(5, Per::first_use(span));
    for (limit, cost, policy, state) in [
        (gcra.clone(), 1, "q=5;w=2", "r=3;t=1"),
        (gcra.clone(), 2, "q=5;w=2", "r=1;t=1"),
        (gcra.max_wait(secs(1)), 1, "q=5;w=2", "r=3;t=1"),
        (Limit::window(5, span), 1, "q=5;w=2", "r=3;t=2"),
        (first_use, 1, "q=5;w=2", "r=3;t=2"),
        (Limit::quota(5, Per::Hour), 1, "q=5;w=3600", "r=3;t=3600"),
        (tiers, 1, "q=5;w=2", "r=3;t=2"),
        (
            Limit::concurrent(5),
            1,
            "q=5;qu=\"concurrent-requests\"",
            "r=4",
        ),
        (Limit::BLOCKED, 1, "q=0", "r=0"),
    ] {
        let item = |figures| Some(format!("\"l\";{figures}"));
        let fields = second(limit.clone(), cost).await;
        assert_eq!(fields, [item(policy), item(state)], "{limit:?}");
    }
}

/// Two per ten seconds; a burst of three for twenty, and then half a minute without another.
fn tiers() -> Limit {
    let lowest = Tier::new(2, secs(10)).active(secs(10));
    let burst = Tier::new(3, secs(20)).active(secs(20)).cooldown(secs(30));
    Limit::tiers([lowest, burst]).unwrap()
}

#[tokio::test]
async fn policy_of_tiers_is_all_of_them_and_that_of_a_quota_the_longest_period() {
    let month = 31 * DAY;
    for (limit, policy) in [
        (tiers(), "\"requests\";q=5".to_owned()),
        (
            Limit::quota(2, Per::Month),
            format!("\"requests\";q=2;w={month}"),
        ),
        (
            Limit::quota(2, Per::Day),
            format!("\"requests\";q=2;w={DAY}"),
        ),
        #[cfg(feature = "zones")]
        (
            Limit::quota(2, Per::Day.in_zone("America/Los_Angeles")),
            format!("\"requests\";q=2;w={DAY}"),
        ),
        (
            Limit::tiers([Tier::new(2, Tier::FOREVER)]).unwrap(),
            "\"requests\";q=2".to_owned(),
        ),
    ] {
        let clock = ManualClock::at("2028-02-01T00:00:00Z");
        let layer = layer(&limiter_of(&clock, limit));
        for _ in 0..3 {
            assert_eq!(
                value(&sent(&layer).await, "ratelimit-policy"),
                Some(&*policy)
            );
            clock.advance(secs(1));
        }
    }
}

#[tokio::test]
async fn request_that_never_passes_has_no_retry_after() {
    let life = Limit::tiers([Tier::new(1, Tier::FOREVER)]).unwrap();
    for limit in [life, Limit::BLOCKED] {
        let layer = layer(&limiter_of(&ManualClock::default(), limit));
        sent(&layer).await;
        let refused = send(&layer, IP).await;
        assert_eq!(refused.status(), 429);
        assert_eq!(value(refused.headers(), "retry-after"), None);
    }
}

#[tokio::test]
async fn retry_after_rounds_up_and_is_at_least_one() {
    for (count, ms, advance_us, secs) in [
        (5, 1000, 0, "1"),
        (1, 1000, 0, "1"),
        (1, 1001, 0, "2"),
        (1, 60_000, 0, "60"),
        (1, 60_000, 1, "60"),
        (1, 60_000, 1_000_001, "59"),
    ] {
        let clock = ManualClock::default();
        let limit = Limit::new(1, count, Duration::from_millis(ms)).unwrap();
        let layer = layer(&limiter_of(&clock, limit));
        sent(&layer).await;
        clock.advance(Duration::from_micros(advance_us));
        assert_eq!(value(&sent(&layer).await, "retry-after"), Some(secs));
    }
}

#[tokio::test]
async fn full_bucket_has_no_reset_parameter() {
    let layer = RateLimitLayer::with_limiter(limiter(&ManualClock::default()))
        .rule(Rule::new("requests", ClientIp::peer()).cost(0));
    assert_eq!(
        value(&sent(&layer).await, "ratelimit"),
        Some("\"requests\";r=20")
    );
}

#[cfg(feature = "failure-policy")]
#[tokio::test(start_paused = true)]
async fn leased_limit_shows_its_burst_and_what_its_process_holds_or_the_store_has_left() {
    let answers_after = Duration::from_millis(1);
    let name = LimitName::from("requests").lease(1, 10);
    let limits = Limits::builder().limit(name, Limit::per_minute(60).burst(100));
    let leases = Lease::new(Store::new(Fate::Takes(answers_after)), 4);
    let layer = layer(&Limiter::new(limits.build().unwrap(), leases));
    // The store keeps 60 of the 100, because each of four processes may charge ten ahead. This one does so for its second request.
    for left in ["r=59;t=1", "r=58;t=1", "r=9", "r=8"] {
        let policy = "\"requests\";q=100;w=100";
        let state = format!("\"requests\";{left}");
        assert_eq!(draft(&sent(&layer).await), [Some(policy), Some(&state)]);
        tokio::time::sleep(2 * answers_after).await;
    }
}

/// The items of a list: their names, and the integers of two parameters. There must be no others.
fn items(headers: &HeaderMap, field: &str, known: [&str; 2]) -> Vec<(String, [Option<i64>; 2])> {
    let lines = headers.get_all(field).iter();
    let lines: Vec<_> = lines.map(|line| line.to_str().unwrap()).collect();
    let list: List = Parser::new(&lines.join(", ")).parse().unwrap();
    let items = list.into_iter().map(|entry| {
        let ListEntry::Item(item) = entry else {
            panic!("an inner list")
        };
        let name = item.bare_item.as_string().expect("a string, not a token");
        let params = item.params;
        let is_known = |key: &str| known.contains(&key) || key == "qu";
        assert!(params.keys().all(|key| is_known(key.as_str())));
        let integer = |key: &str| {
            let (_, value) = params.iter().find(|(found, _)| found.as_str() == key)?;
            Some(i64::from(value.as_integer().expect("an integer")))
        };
        (name.as_str().to_owned(), known.map(integer))
    });
    items.collect()
}

/// Checks the fields of one response against each other, and returns the names of the policies.
fn check(headers: &HeaderMap) -> Vec<String> {
    let policies = items(headers, "ratelimit-policy", ["q", "w"]);
    let states = items(headers, "ratelimit", ["r", "t"]);
    assert!(!states.is_empty() && policies.len() >= states.len());
    for (name, [q, w]) in &policies {
        assert!(q.expect("q is required") >= 0, "{name}");
        assert!(w.is_none_or(|w| w > 0), "{name}");
    }
    let retry = value(headers, "retry-after").map(|secs| secs.parse::<i64>().unwrap());
    for (name, [r, t]) in &states {
        assert!(
            r.expect("r is required") >= 0 && t.is_none_or(|t| t >= 0),
            "{name}"
        );
        assert!(retry.is_none_or(|retry| retry >= t.unwrap_or(0).max(1)));
    }
    policies.into_iter().map(|(name, _)| name).collect()
}

#[tokio::test]
async fn another_parser_reads_the_fields_of_every_kind_of_limit() {
    for limit in [
        Limit::per_second(10).burst(20),
        Limit::new(10, 10, Duration::from_millis(100)).unwrap(),
        Limit::new(1, 1, Duration::from_micros(1)).unwrap(),
        Limit::new(u32::MAX, u32::MAX, secs(DAY)).unwrap(),
        Limit::new(1, 1, secs(2_000_000_000)).unwrap(),
        tiers(),
        Limit::tiers([Tier::new(1, Tier::FOREVER)]).unwrap(),
        Limit::tiers([Tier::new(5, Duration::from_millis(100))]).unwrap(),
        Limit::concurrent(5),
        Limit::BLOCKED,
    ] {
        let clock = ManualClock::default();
        let layer = layer(&limiter_of(&clock, limit));
        for step in 0..100_u64 {
            clock.advance(Duration::from_micros(step * step * 37));
            check(&sent(&layer).await);
        }
    }
}

#[tokio::test]
async fn each_plan_and_route_has_its_own_policy_however_many_there_are() {
    let own = "203.0.113.9";
    let limits = Limits::builder()
        .limit("requests", Limit::per_second(9))
        .limit("writes", Limit::per_minute(7))
        .override_for("requests", own, Limit::per_second(1000));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let plan = |parts: &Parts| parts.headers.get("plan")?.to_str().ok()?.parse().ok();
    let layer = RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default()))
        .rule(Rule::new("requests", ClientIp::peer()).limit_from(plan))
        .rule(Rule::new("writes", ClientIp::peer()).only_if(methods([Method::POST])));
    let plans = || (10..30).map(Some).chain([None]);
    let clients = plans().flat_map(|plan| [(IP, plan), (own, plan)]);
    let requests = clients.flat_map(|client| [(client, Method::GET), (client, Method::POST)]);
    let requests: Vec<_> = requests.collect();
    // The second time, some of them are known.
    for ((ip, plan), method) in requests.iter().chain(&requests) {
        let mut request = from_ip(ip);
        *request.method_mut() = method.clone();
        if let Some(plan) = plan {
            let plan = format!("{plan}/s").parse().unwrap();
            request.headers_mut().insert("plan", plan);
        }
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        let q = if *ip == own { 1000 } else { plan.unwrap_or(9) };
        let writes = match *method {
            Method::POST => ", \"writes\";q=7;w=60",
            _ => "",
        };
        let policy = format!("\"requests\";q={q};w=1{writes}");
        assert_eq!(response.headers()["ratelimit-policy"], policy);
    }
}
