//! Rules select requests, limits and costs, and mistaken rules are rejected.

use http::{Method, Request, StatusCode, request::Parts};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    id::IdFormat,
    key::{Everyone, HeaderId},
    layer::Assessment,
    limit::{LimitName, LimitsBuilder},
    rule::{OnMissing, methods, paths},
    transaction::OnFailure,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, assessed, bucket, charged, from_ip, text};

type Body = http_body_util::Full<bytes::Bytes>;

const IP: &str = "203.0.113.7";

fn limiter(limits: &LimitsBuilder) -> Limiter {
    let limits = limits.build().unwrap();
    Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default())
}

fn plans() -> LimitsBuilder {
    Limits::builder()
        .limit("free", Limit::per_hour(2))
        .limit("pro", Limit::per_hour(5))
}

fn layer_of(limits: &LimitsBuilder, rule: Rule) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter(limits)).rule(rule)
}

/// A layer with a rule for the limit `free`, 100 per hour.
fn layer_with(rule: Rule) -> RateLimitLayer {
    layer_of(&Limits::builder().limit("free", Limit::per_hour(100)), rule)
}

fn everyone() -> Rule {
    Rule::new("free", Everyone)
}

fn request(method: Method, path: &str, headers: &[(&'static str, &str)]) -> Request<Body> {
    let mut request = from_ip(IP);
    (*request.method_mut(), *request.uri_mut()) = (method, path.parse().unwrap());
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

fn get(path: &str) -> Request<Body> {
    request(Method::GET, path, &[])
}

fn with(headers: &[(&'static str, &str)]) -> Request<Body> {
    request(Method::GET, "/", headers)
}

async fn answer(layer: &RateLimitLayer, request: Request<Body>) -> StatusCode {
    layer.layer(Hello).oneshot(request).await.unwrap().status()
}

/// Whether a request is charged.
async fn counts(layer: &RateLimitLayer, request: Request<Body>) -> bool {
    !charged(layer, request).await.is_empty()
}

#[tokio::test]
async fn rule_applies_to_its_methods_and_paths() {
    let rule = everyone()
        .only_if(methods([Method::POST, Method::PUT]))
        .skip_if(paths(["/health", "/static/*"]));
    let layer = layer_with(rule);
    for (method, path, expected) in [
        (Method::POST, "/", true),
        (Method::PUT, "/healthy", true),
        (Method::GET, "/", false),
        (Method::POST, "/health", false),
        (Method::POST, "/static/a/b", false),
        (Method::POST, "/static", true),
        (Method::POST, "/health?x=/", false),
    ] {
        let request = request(method, path, &[]);
        assert_eq!(counts(&layer, request).await, expected, "{path}");
    }
}

/// Ways to write `/login` that a router may resolve. Some lead out of `/static/`.
const DISGUISED: [&str; 9] = [
    "/static/../login",
    "/static/%2e%2e/login",
    "/static/..%5Clogin",
    "/static/..;x=y/login",
    "/static/../%6cogin?next=/static/a",
    "/login;x",
    "/;a/login",
    "/login%3bx",
    "/login%253Bx",
];

#[tokio::test]
async fn disguised_path_is_never_exempt_and_always_limited_or_denied() {
    let exempt_by_rule = layer_with(everyone().skip_if(paths(["/static/*", "/login"])));
    let exempt = layer_with(everyone()).skip_if(paths(["/static/*"]));
    let limited = layer_with(everyone().only_if(paths(["/login"])));
    let denied = layer_with(everyone()).deny_if("login", paths(["/login"]));
    for path in DISGUISED {
        for layer in [&exempt_by_rule, &exempt, &limited] {
            assert!(counts(layer, get(path)).await, "{path}");
        }
        assert_eq!(answer(&denied, get(path)).await, 403, "{path}");
    }
    for path in ["/static/.a", "/static/a..b", "/static/%C3%A9%20b"] {
        for layer in [&exempt_by_rule, &exempt, &limited] {
            assert!(!counts(layer, get(path)).await, "{path}");
        }
        assert_eq!(answer(&denied, get(path)).await, 200, "{path}");
    }
}

#[tokio::test]
async fn closure_exempts_a_disguised_path_only_if_it_exempts_the_resolved_one() {
    let is_static = |parts: &Parts| parts.uri.path().starts_with("/static/");
    let layer = layer_with(everyone().skip_if(is_static));
    for (path, expected) in [
        ("/static/a", false),
        ("/static/./a", false),
        ("/static/../login", true),
        ("/static/%2e%2e/login", true),
        ("/x/../static/a", true),
    ] {
        assert_eq!(counts(&layer, get(path)).await, expected, "{path}");
    }
}

#[test]
fn malformed_path_panics() {
    for path in [
        "health",
        "/users/{id}",
        "/*/x",
        "/a*",
        "/a/../b",
        "/a/./*",
        "/a//b",
        "/a\\b",
        "/a;b",
    ] {
        assert!(
            std::panic::catch_unwind(|| paths([path])).is_err(),
            "{path}"
        );
    }
}

#[tokio::test]
async fn addresses_on_lists_are_exempt_or_denied_and_charged_nothing() {
    let within = |list: &'static [&str]| ClientIp::peer().within(list.iter().copied()).unwrap();
    let limits = Limits::builder().limit("free", Limit::per_hour(100));
    let limiter = limiter(&limits);
    let ours = || within(&["192.0.2.0/24"]);
    let rule = || Rule::new("free", ClientIp::peer());
    let layer = || RateLimitLayer::with_limiter(limiter.clone());
    let by_rule = layer().rule(rule().skip_if(ours()));
    let by_layer = layer().rule(rule()).skip_if(ours());
    let denied = layer().rule(rule()).deny_if("abusers", ours());
    let denied = denied.skip_if(within(&["192.0.2.7"]));
    for (ip, is_listed) in [("192.0.2.9", true), ("192.0.3.9", false)] {
        assert_eq!(counts(&by_rule, from_ip(ip)).await, !is_listed, "{ip}");
        assert_eq!(counts(&by_layer, from_ip(ip)).await, !is_listed, "{ip}");
        let status = if is_listed { 403 } else { 200 };
        assert_eq!(answer(&denied, from_ip(ip)).await, status, "{ip}");
    }
    // An exempt client passes, whatever the lists say.
    assert_eq!(answer(&denied, from_ip("192.0.2.7")).await, 200);
    let response = denied
        .layer(Hello)
        .oneshot(from_ip("192.0.2.6"))
        .await
        .unwrap();
    assert_eq!(response.headers().get("retry-after"), None);
    assert!(text(response).await.contains("abusers"));
    assert_eq!(
        bucket(&limiter, "free", "192.0.2.6").await.remaining(),
        Some(100)
    );
    // A client whose address is not known is not on the list.
    let mut unknown = get("/");
    unknown.extensions_mut().clear();
    assert_eq!(answer(&by_layer, unknown).await, 500);
}

fn plan(parts: &Parts) -> Option<&str> {
    parts.headers.get("x-plan")?.to_str().ok()
}

fn by_plan() -> Rule {
    Rule::new("free", HeaderId::new("x-account")).limit_by(["pro"], plan)
}

#[tokio::test]
async fn limit_is_chosen_for_each_request() {
    let limiter = limiter(&plans());
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(by_plan());
    let of_plan = |plan| with(&[("x-account", "a"), ("x-plan", plan)]);
    for status in [200, 200, 429] {
        assert_eq!(answer(&layer, with(&[("x-account", "a")])).await, status);
    }
    for status in [200, 200, 200, 200, 200, 429] {
        assert_eq!(answer(&layer, of_plan("pro")).await, status);
    }
    assert_eq!(answer(&layer, of_plan("free")).await, 429);
    assert_eq!(bucket(&limiter, "pro", "a").await.remaining(), Some(0));
    // One that a reload has brought.
    limiter
        .reload(plans().limit("gold", Limit::per_hour(1)).build().unwrap())
        .unwrap();
    for status in [200, 429] {
        assert_eq!(answer(&layer, of_plan("gold")).await, status);
    }
}

#[tokio::test]
async fn unknown_limit_is_no_missing_id() {
    for rule in [
        by_plan(),
        by_plan().on_missing(OnMissing::Shared),
        by_plan().on_missing(OnMissing::Skip),
        by_plan().or_else(everyone()),
    ] {
        let (log, _guard) = Log::capture();
        let layer = layer_of(&plans(), rule);
        for _ in 0..3 {
            let request = with(&[("x-account", "a"), ("x-plan", "pr")]);
            let response = layer.layer(Hello).oneshot(request).await.unwrap();
            assert_eq!(response.status(), 500);
            let text = text(response).await;
            let reason = "the server has chosen a limit that it does not have";
            assert!(text.contains(reason), "{text}");
        }
        assert_eq!(log.count("ERROR"), 1, "{log:?}");
        assert_eq!(log.count("did you mean `pro`?"), 1, "{log:?}");
    }
    // A list of blocked clients cannot be chosen as a plan, so choosing it blocks no client.
    let layer = layer_of(&plans().block("abuse", "paused"), by_plan());
    for (plan, status) in [("abuse", 500), ("abuse", 500), ("pro", 200)] {
        let request = with(&[("x-account", "a"), ("x-plan", plan)]);
        assert_eq!(answer(&layer, request).await, status, "{plan}");
    }
}

#[tokio::test]
async fn cost_is_found_in_the_request() {
    let rule = everyone().cost_by(|parts| {
        let cost = parts.headers.get("x-cost");
        let cost = cost.and_then(|cost| cost.to_str().ok());
        cost.and_then(|cost| cost.parse().ok()).unwrap_or(1)
    });
    let layer = layer_with(rule);
    let costs = |cost| with(&[("x-cost", cost)]);
    assert_eq!(charged(&layer, costs("7")).await[0].2, 7);
    assert!(
        !counts(&layer, costs("0")).await,
        "what costs nothing is not asked about"
    );
    assert_eq!(answer(&layer, costs("93")).await, 200);
    assert_eq!(answer(&layer, costs("1")).await, 429);
    assert_eq!(answer(&layer, costs("4294967295")).await, 413);
}

#[tokio::test]
async fn rules_that_meet_in_one_bucket_are_one_charge() {
    let name = LimitName::new("l", 1, IdFormat::FqdnSet);
    let limits = Limits::builder().limit(name, Limit::per_second(20));
    let of = |header, cost| Rule::new("l", HeaderId::new(header).shown()).cost(cost);
    let skips = |rule: Rule| rule.skip_if(methods([Method::PUT]));
    let layer = layer_of(&limits, skips(of("x-a", 2))).rule(skips(of("x-b", 3)));
    let one = assessed(
        &layer,
        with(&[("x-a", "b.com,A.com"), ("x-b", "a.com,b.com")]),
    )
    .await
    .unwrap();
    let charges = |assessment: &Assessment| -> Vec<_> {
        let all = assessment.iter();
        all.map(|one| (one.cost, one.decision.remaining().unwrap()))
            .collect()
    };
    assert_eq!(charges(&one), [(5, 15)]);
    one.refund().await.unwrap();
    let two = assessed(&layer, with(&[("x-a", "a.com,b.com"), ("x-b", "c.com")]))
        .await
        .unwrap();
    assert_eq!(charges(&two), [(2, 18), (3, 17)]);
}

#[test]
fn range_that_no_address_can_match_is_an_error() {
    let limits = Limits::builder()
        .limit("requests", Limit::per_second(1))
        .override_for("requests", "198.51.100.0/24", Limit::per_second(9));
    let layer = RateLimitLayer::with_limiter(limiter(&limits));
    let by_address = Rule::new("requests", ClientIp::peer());
    let error = layer.clone().try_rule(by_address).unwrap_err().to_string();
    assert!(error.contains("`id: ipAddress`"), "{error}");
    // A header can contain this text.
    let by_header = Rule::new("requests", HeaderId::new("a"));
    assert!(layer.try_rule(by_header).is_ok());
}

#[test]
fn rules_that_do_not_fit_their_limits_are_errors_with_a_remedy() {
    let limits = plans()
        .block("abuse", "this address is paused")
        .limit(
            LimitName::new("accounts", 1, IdFormat::RegId),
            Limit::per_hour(9),
        )
        .limit("permits", Limit::concurrent(3))
        .override_for("pro", "poor", Limit::per_hour(1));
    let layer = || RateLimitLayer::with_limiter(limiter(&limits));
    let refused = |expected: &str, rules: &[Rule]| {
        let added = rules
            .iter()
            .cloned()
            .try_fold(layer(), RateLimitLayer::try_rule);
        let error = added.unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    let by = |name| Rule::new("free", HeaderId::new(name));
    let put = || methods([Method::PUT]);
    refused("costs 3, and at most 2 can", &[everyone().cost(3)]);
    let of_pro = Rule::new("pro", Everyone);
    refused("limit `pro`: id `poor`: a request", &[of_pro.cost(2)]);
    refused("costs 3", &[by("a"), by("b").cost(2).skip_if(put())]);
    assert!(
        layer()
            .rule(by("a"))
            .try_rule(by("b").skip_if(put()))
            .is_ok()
    );
    refused("two rules charge it for every", &[everyone(), everyone()]);
    let alike = "give them the same `on_failure` and `no_wait`";
    refused(alike, &[by("a"), everyone().refund_if(|_| true)]);
    refused(alike, &[everyone(), by("a").on_failure(OnFailure::Allow)]);
    refused(
        "ids in the format regId",
        &[Rule::new("accounts", Everyone)],
    );
    refused("did you mean `free`?", &[Rule::new("fre", Everyone)]);
    let unknown =
        "limit `gold`: a rule uses it: no limit has this name: known are abuse, accounts, free,";
    refused(unknown, &[everyone().limit_by(["pro", "gold"], plan)]);
    refused(
        "did you mean `pro`?",
        &[everyone().or_else(Rule::new("prop", Everyone))],
    );
    let costly = Rule::new("pro", HeaderId::new("a")).cost(6);
    refused("at most 5 can ever pass", &[everyone().or_else(costly)]);
    refused(
        "refund_if",
        &[Rule::new("permits", Everyone).refund_if(|_| true)],
    );
    let (abuse, looks) = (
        || Rule::new("abuse", ClientIp::peer()),
        "give it a rule without a cost",
    );
    refused(looks, &[abuse().cost(2)]);
    refused(looks, &[abuse().refund_if(|_| true)]);
    refused(looks, &[abuse().limit_by(["free"], plan)]);
    refused(looks, &[everyone().limit_by(["abuse"], plan)]);
}

#[tokio::test]
async fn limits_of_all_rules_outlive_a_reload() {
    let limiter = limiter(&plans());
    let rule = by_plan().or_else(Rule::new("pro", ClientIp::peer()).cost(3));
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    // Each registration drops the layers that are gone from the list of users, and no others.
    let _later = [(); 8].map(|()| RateLimitLayer::with_limiter(limiter.clone()).rule(by_plan()));
    let one = |name: &str| Limits::builder().limit(name, Limit::per_hour(5));
    let too_small = plans().override_for("pro", "a", Limit::per_hour(2));
    for limits in [one("free"), one("pro"), too_small] {
        limiter.reload(limits.build().unwrap()).unwrap_err();
    }
    let two = Some(Limit::per_hour(2));
    limiter.set_override("pro", "a", two).unwrap_err();
    let more = plans().limit("more", Limit::per_hour(1)).build().unwrap();
    limiter.reload(more).unwrap();
    assert_eq!(charged(&layer, get("/")).await[0].2, 3);
}
