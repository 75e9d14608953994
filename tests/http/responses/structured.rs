//! The draft's fields, read by a parser that is not ours.

use std::time::Duration;

use http::HeaderMap;
use sfv::{List, ListEntry, Parser};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::ManualClock,
    key::Everyone, limit::LimitName, response::Headers, tiers::Tier,
};

use super::value;
use crate::support::{Hello, from_ip, layer, limiter_of, send, text};

/// A list's items: their names, and the integers of some parameters. There must be no others, except integers of our own after
/// them.
fn items(headers: &HeaderMap, field: &str, known: [&str; 2]) -> Vec<(String, [Option<i64>; 2])> {
    let lines: Vec<_> = headers.get_all(field).iter().collect();
    let line = lines.iter().map(|line| line.to_str().unwrap());
    let list: List = Parser::new(&line.collect::<Vec<_>>().join(", "))
        .parse()
        .unwrap();
    let items = list.into_iter().map(|entry| {
        let ListEntry::Item(item) = entry else {
            panic!("an inner list")
        };
        let name = item.bare_item.as_string().expect("a string, not a token");
        let params = item.params;
        let is_own = |key: &str| key.starts_with("tollgate-");
        let standard = params.keys().take_while(|key| !is_own(key.as_str()));
        let is_known = |key: &str| known.contains(&key) || key == "qu";
        assert!(standard.clone().all(|key| is_known(key.as_str())));
        let unit = params.get("qu").map(|unit| unit.as_string().unwrap());
        assert!(unit.is_none_or(|unit| unit.as_str() == "concurrent-requests"));
        let mut own = params.iter().skip(standard.count());
        assert!(own.all(|(key, value)| is_own(key.as_str()) && value.as_integer().is_some()));
        let integer = |key: &str| {
            let (_, value) = params.iter().find(|(found, _)| found.as_str() == key)?;
            Some(i64::from(value.as_integer().expect("an integer")))
        };
        (name.as_str().to_owned(), known.map(integer))
    });
    items.collect()
}

/// Checks the fields of one response against each other.
fn check(headers: &HeaderMap) {
    let policies = items(headers, "ratelimit-policy", ["q", "w"]);
    let states = items(headers, "ratelimit", ["r", "t"]);
    assert!(!states.is_empty() && policies.len() >= states.len());
    for (name, [q, w]) in &policies {
        assert!(q.expect("q is required") >= 0, "{name}");
        assert!(w.is_none_or(|w| w > 0), "{name}");
    }
    let retry = value(headers, "retry-after").map(|secs| secs.parse::<i64>().unwrap());
    for (name, [r, t]) in &states {
        let (_, [q, _]) = policies.iter().find(|policy| policy.0 == *name).unwrap();
        let r = r.expect("r is required");
        assert!((0..=q.unwrap()).contains(&r), "{name}");
        assert!(t.is_none_or(|t| t >= 0), "{name}");
        assert!(retry.is_none_or(|retry| retry >= t.unwrap_or(0).max(1)));
    }
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[tokio::test]
async fn fields_of_every_kind_of_limit_are_structured() {
    let lowest = Tier::new(2, secs(10)).active(secs(10));
    let burst = Tier::new(3, secs(20)).active(secs(20)).cooldown(secs(30));
    let limits = [
        Limit::per_second(10).burst(20),
        Limit::new(10, 10, Duration::from_millis(100)).unwrap(),
        Limit::new(1, 1, Duration::from_millis(1500)).unwrap(),
        Limit::new(1, 1, Duration::from_micros(1)).unwrap(),
        Limit::new(u32::MAX, u32::MAX, secs(86_400)).unwrap(),
        Limit::new(1, 1, secs(2_000_000_000)).unwrap(),
        Limit::tiers([lowest, burst]).unwrap(),
        Limit::tiers([Tier::new(1, Tier::FOREVER)]).unwrap(),
        Limit::tiers([Tier::new(5, Duration::from_millis(100))]).unwrap(),
        Limit::concurrent(5),
        Limit::BLOCKED,
    ];
    for limit in limits {
        let clock = ManualClock::default();
        let limiter = limiter_of(&clock, limit);
        for step in 0..100 {
            let fields = [Headers::Draft11, Headers::Exact][step % 2];
            let layer = layer(&limiter).headers(fields);
            clock.advance(Duration::from_micros((step * step * 37) as u64));
            let response = send(&layer, "203.0.113.7").await;
            check(response.headers());
            let ours = format!("{:?}", response.headers()).contains("tollgate-");
            assert!(!ours || fields == Headers::Exact);
        }
    }
}

#[tokio::test]
async fn lists_of_several_limits_and_layers_are_one_list() {
    let layer = |names: [&str; 2]| {
        let limits = Limits::builder().limit(names[0], Limit::per_minute(3));
        let limits = limits.limit(names[1], Limit::per_minute(2)).build();
        let limiter = Limiter::new(limits.unwrap(), MemoryBackend::new());
        RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default()))
            .rule(Rule::new(names[0], Everyone))
            .rule(Rule::new(names[1], ClientIp::peer()))
    };
    let stack = (layer(["a", "b.c-d_e"]), layer(["f", "g"]));
    for names in [
        &["f", "g", "a", "b.c-d_e"][..],
        &["f", "g", "a", "b.c-d_e"],
        &["a", "b.c-d_e"],
    ] {
        use tower::{Layer, ServiceExt};
        let service = stack.0.layer(stack.1.layer(Hello));
        let request = from_ip("203.0.113.7");
        let response = service.oneshot(request).await.unwrap();
        check(response.headers());
        let policies = items(response.headers(), "ratelimit-policy", ["q", "w"]);
        let found: Vec<_> = policies.iter().map(|(name, _)| &**name).collect();
        assert_eq!(found, names);
    }
}

#[tokio::test]
async fn limit_in_shadow_is_nowhere() {
    let limits = Limits::builder()
        .limit("real", Limit::per_minute(2))
        .limit(LimitName::from("shadow").shadow(true), Limit::per_minute(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default()))
        .rule(Rule::new("shadow", Everyone))
        .rule(Rule::new("real", Everyone))
        .respond_with(tollgate::response::Problem::new());
    for denied in [false, false, true] {
        let response = send(&layer, "203.0.113.7").await;
        assert_eq!(response.status() == 429, denied);
        for field in ["ratelimit", "ratelimit-policy"] {
            let value = value(response.headers(), field).unwrap();
            assert!(
                value.contains("real") && !value.contains("shadow"),
                "{value}"
            );
        }
        let text = text(response).await;
        assert!(!text.contains("shadow"), "{text}");
        assert_eq!(text.contains(r#""violated-policies":["real"]"#), denied);
    }
}

#[tokio::test]
async fn layer_whose_limits_are_all_in_shadow_says_nothing() {
    let limits = Limits::builder()
        .limit("requests", Limit::per_minute(1))
        .shadow(true);
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = layer(&limiter);
    for _ in 0..2 {
        let response = send(&layer, "203.0.113.7").await;
        assert_eq!(response.status(), 200);
        assert_eq!(value(response.headers(), "ratelimit"), None);
        assert_eq!(value(response.headers(), "ratelimit-policy"), None);
    }
}
