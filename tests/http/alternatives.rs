//! Requests that have one id or another: whether they have one is decided once, by extractors and rules in turn.

use std::net::SocketAddr;

use http::{HeaderValue, Method, Request, StatusCode, request::Parts};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    id::IdFormat,
    key::{Everyone, ExtensionId, Extracted, HeaderId, KeyExtractor, KeyExtractorExt},
    limit::{LimitName, LimitsBuilder},
    rule::{OnMissing, RuleError, methods},
    transaction::Mode,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, charged};

type Body = http_body_util::Full<bytes::Bytes>;

fn limits() -> LimitsBuilder {
    Limits::builder()
        .limit("per-key", Limit::per_hour(5))
        .limit(
            LimitName::new("per-account", 1, IdFormat::RegId),
            Limit::per_hour(5),
        )
        .limit("per-ip", Limit::per_hour(10))
        .limit("all", Limit::per_hour(1000))
}

fn limiter() -> Limiter {
    let limits = limits().build().unwrap();
    Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default())
}

fn layer(rule: Rule) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter()).rule(rule)
}

fn key() -> HeaderId {
    HeaderId::new("x-api-key")
}

fn per_key() -> Rule {
    Rule::new("per-key", key())
}

fn per_account() -> Rule {
    Rule::new("per-account", HeaderId::new("x-account"))
}

fn per_ip() -> Rule {
    Rule::new("per-ip", ClientIp::peer())
}

fn request(headers: &[(&'static str, &[u8])]) -> Request<Body> {
    let mut request = Request::new(Body::default());
    for (name, value) in headers {
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append(*name, value);
    }
    let peer = SocketAddr::from(([203, 0, 113, 7], 1));
    request.extensions_mut().insert(peer);
    request
}

async fn status(layer: &RateLimitLayer, request: Request<Body>) -> StatusCode {
    layer.layer(Hello).oneshot(request).await.unwrap().status()
}

fn charge(limit: &str, id: &str, cost: u32) -> Vec<(String, String, u32)> {
    vec![(limit.to_owned(), id.to_owned(), cost)]
}

/// Headers that are no id, by what is wrong with them.
fn no_keys(i: usize) -> Vec<(&'static str, &'static [u8])> {
    const LONG: [u8; 1025] = [b'x'; 1025];
    match i % 7 {
        0 => vec![],
        1 => vec![("x-api-key", b"")],
        2 => vec![("x-api-key", b" \t ")],
        3 => vec![("x-api-key", b"a"), ("x-api-key", b"b")],
        4 => vec![("x-api-key", &LONG)],
        5 => vec![("x-api-key", b"\xff\xfe")],
        _ => vec![("x-api-key", "schl\u{fc}ssel".as_bytes())],
    }
}

#[tokio::test]
async fn request_without_a_usable_key_is_limited_by_its_address() {
    let by_rule = layer(per_key().or_else(per_ip()));
    let by_extractor = layer(Rule::new("per-ip", key().or_else(ClientIp::peer())));
    for layer in [by_rule, by_extractor] {
        let mut passed = 0;
        for i in 0..200 {
            let status = status(&layer, request(&no_keys(i))).await;
            passed += usize::from(status == StatusCode::OK);
            assert_eq!(status == StatusCode::OK, i < 10, "{i}");
        }
        assert_eq!(passed, 10);
        let with_key = request(&[("x-api-key", b"alice")]);
        assert_eq!(status(&layer, with_key).await, 200);
    }
}

#[tokio::test]
async fn id_out_of_its_limits_format_is_none() {
    let by_rule = layer(per_account().or_else(per_ip()));
    for account in ["0012", "-1", "alice", "18446744073709551616", "\0missing"] {
        let Ok(value) = HeaderValue::from_str(account) else {
            continue;
        };
        let request = request(&[("x-account", value.as_bytes())]);
        let expected = charge("per-ip", "203.0.113.7", 1);
        assert_eq!(charged(&by_rule, request).await, expected, "{account}");
    }
    let other = HeaderId::new("x-other");
    let either = HeaderId::new("x-account").or_else(other);
    let by_extractor = layer(Rule::new("per-account", either));
    for (account, expected) in [("12", "12"), ("0012", "34"), ("", "34")] {
        let headers = [("x-account", account.as_bytes()), ("x-other", b"34")];
        let charged = charged(&by_extractor, request(&headers)).await;
        assert_eq!(charged, charge("per-account", expected, 1), "{account}");
    }
    // The last one says what is missing.
    let neither = [("x-account", &b"0012"[..]), ("x-other", b"x")];
    assert_eq!(status(&by_extractor, request(&neither)).await, 400);
}

#[tokio::test]
async fn first_of_three_that_finds_an_id_applies() {
    let chain = || per_account().cost(2).or_else(per_key().cost(3));
    let last = || per_ip().cost(4);
    let account: (_, &[u8]) = ("x-account", b"12");
    let key: (_, &[u8]) = ("x-api-key", b"k");
    let nested = per_account()
        .cost(2)
        .or_else(per_key().cost(3).or_else(last()));
    for layer in [layer(chain().or_else(last())), layer(nested)] {
        for (headers, expected) in [
            (vec![account, key], charge("per-account", "12", 2)),
            (vec![account], charge("per-account", "12", 2)),
            (vec![key], charge("per-key", "k", 3)),
            (vec![], charge("per-ip", "203.0.113.7", 4)),
        ] {
            assert_eq!(charged(&layer, request(&headers)).await, expected);
        }
    }
    let x = |name| HeaderId::new(name);
    let three = x("x-account").or_else(x("x-api-key")).or_else(Everyone);
    let layer = layer(Rule::new("all", three));
    for (headers, expected) in [
        (vec![account, key], "12"),
        (vec![key], "k"),
        (vec![], "everyone"),
    ] {
        let charged = charged(&layer, request(&headers)).await;
        assert_eq!(charged, charge("all", expected, 1));
    }
}

#[test]
fn extractor_finds_the_first_id_by_itself_too() {
    let either = key().or_else(|_: &Parts| Some("")).or_else(Everyone);
    let extracted = |request: Request<Body>| either.extract(&request.into_parts().0);
    assert_eq!(extracted(request(&[("x-api-key", b"k")])), "k".into());
    assert_eq!(extracted(request(&[])), "everyone".into());
    let neither = key().or_else(|_: &Parts| None::<String>);
    let extracted = neither.extract(&request(&[]).into_parts().0);
    assert_eq!(extracted, Extracted::Skip);
}

#[tokio::test]
async fn last_rule_says_what_a_missing_id_means() {
    let by_header = |name| Rule::new("per-ip", HeaderId::new(name));
    for (first, last, expected) in [
        (OnMissing::Skip, OnMissing::Refuse, 400),
        (OnMissing::Refuse, OnMissing::Skip, 200),
        (OnMissing::Shared, OnMissing::Refuse, 400),
    ] {
        let rule = per_key().on_missing(first);
        let layer = layer(rule.or_else(by_header("x-other").on_missing(last)));
        assert_eq!(status(&layer, request(&[])).await, expected);
        assert_eq!(charged(&layer, request(&[])).await, []);
    }
    let shared = by_header("x-other").on_missing(OnMissing::Shared);
    let layer = layer(per_key().or_else(shared));
    assert_eq!(charged(&layer, request(&[])).await[0].0, "per-ip");
}

#[tokio::test]
async fn rule_that_is_skipped_leaves_the_request_to_the_next() {
    let posts = per_key().only_if(methods([Method::POST]));
    let layer_of_posts = layer(posts.or_else(per_ip()));
    let with_key = || request(&[("x-api-key", b"k")]);
    let by_ip = charge("per-ip", "203.0.113.7", 1);
    assert_eq!(charged(&layer_of_posts, with_key()).await, by_ip);
    let mut post = with_key();
    *post.method_mut() = Method::POST;
    let by_key = charge("per-key", "k", 1);
    assert_eq!(charged(&layer_of_posts, post).await, by_key);
    let last_skipped = layer(per_key().or_else(per_ip().skip_if(|_: &http::request::Parts| true)));
    assert_eq!(charged(&last_skipped, request(&[])).await, []);
    assert_eq!(charged(&last_skipped, with_key()).await, by_key);
}

#[tokio::test]
async fn what_is_set_for_a_chain_is_set_for_all_its_rules() {
    let chain = || per_key().or_else(per_ip());
    let with_key = || request(&[("x-api-key", b"k")]);
    let skipped = layer(chain().skip_if(methods([Method::GET])));
    assert_eq!(charged(&skipped, with_key()).await, []);
    assert_eq!(charged(&skipped, request(&[])).await, []);
    let costly = layer(chain().cost(2));
    assert_eq!(charged(&costly, with_key()).await[0].2, 2);
    assert_eq!(charged(&costly, request(&[])).await[0].2, 2);
    let other = Rule::new("per-ip", HeaderId::new("x-other"));
    let shared = layer(per_key().or_else(other).on_missing(OnMissing::Shared));
    assert_eq!(charged(&shared, request(&[])).await[0].0, "per-ip");
    let given_back = layer(chain().refund_if(|_| true));
    for _ in 0..20 {
        assert_eq!(status(&given_back, with_key()).await, 200);
        assert_eq!(status(&given_back, request(&[])).await, 200);
    }
}

#[tokio::test]
async fn cost_is_that_of_the_rule_that_applies() {
    let free = per_key().cost_by(|_| 0);
    let layer_of_free = layer(free.or_else(per_ip().cost(3)));
    let with_key = request(&[("x-api-key", b"k")]);
    assert_eq!(charged(&layer_of_free, with_key).await, []);
    let by_ip = charge("per-ip", "203.0.113.7", 3);
    assert_eq!(charged(&layer_of_free, request(&[])).await, by_ip);
    let huge = layer(per_key().cost_by(|_| 6).or_else(per_ip()));
    let with_key = request(&[("x-api-key", b"k")]);
    assert_eq!(status(&huge, with_key).await, 413);
    assert_eq!(status(&huge, request(&[])).await, 200);
}

#[tokio::test]
async fn mode_is_that_of_the_rule_that_applies() {
    let layer = layer(per_key().mode(Mode::Observe).or_else(per_ip()));
    for _ in 0..10 {
        let with_key = request(&[("x-api-key", b"k")]);
        assert_eq!(status(&layer, with_key).await, 200);
        assert_eq!(status(&layer, request(&[])).await, 200);
    }
    assert_eq!(status(&layer, request(&[])).await, 429);
}

#[cfg(feature = "failure-policy")]
#[tokio::test]
async fn failure_policy_is_that_of_the_rule_that_applies() {
    use tollgate::{backend::FailurePolicy, transaction::OnFailure};

    use crate::support::store::{Fate, Store};

    let limiter = Limiter::new(
        limits().build().unwrap(),
        FailurePolicy::new(Store::new(Fate::Away)),
    );
    let refuses = per_key().on_failure(OnFailure::Refuse);
    let allows = per_ip().cost(10).on_failure(OnFailure::Allow);
    let layer = RateLimitLayer::with_limiter(limiter).rule(refuses.or_else(allows));
    for _ in 0..3 {
        let with_key = request(&[("x-api-key", b"k")]);
        assert_eq!(status(&layer, with_key).await, 503);
        assert_eq!(status(&layer, request(&[])).await, 200);
    }
}

#[tokio::test]
async fn charge_of_another_rule_in_the_same_bucket_is_added() {
    let by_ip = Rule::new("per-ip", ClientIp::peer()).cost(2);
    let layer = layer(per_key().or_else(per_ip())).rule(by_ip);
    let charged_without = charged(&layer, request(&[])).await;
    assert_eq!(charged_without, charge("per-ip", "203.0.113.7", 3));
    let with_key = charged(&layer, request(&[("x-api-key", b"k")])).await;
    assert_eq!(with_key.len(), 2);
}

#[test]
fn each_rule_of_a_chain_is_checked_at_start() {
    let layer = || RateLimitLayer::with_limiter(limiter());
    let error = |rule: Rule| layer().try_rule(rule).unwrap_err();
    for rule in [
        per_key().cost(6).or_else(per_ip()),
        per_key().or_else(per_ip().cost(11)),
        per_key().or_else(per_account()).or_else(per_ip().cost(11)),
        per_key().or_else(Rule::new("gold", Everyone)),
    ] {
        assert!(matches!(error(rule), RuleError::Limiter(_)));
    }
    let by_ip = || Rule::new("per-account", ClientIp::peer());
    for rule in [per_key().or_else(by_ip()), by_ip().or_else(per_key())] {
        assert!(matches!(error(rule), RuleError::Format { .. }));
    }
    let either = HeaderId::new("x-account").or_else(ClientIp::peer());
    let rule = Rule::new("per-account", either);
    assert!(matches!(error(rule), RuleError::Format { .. }));
    // Those of one chain never meet, and others may meet any of them.
    let twice = || per_ip().cost(6).or_else(Rule::new("per-ip", key()).cost(6));
    let layer_of_chain = layer().try_rule(twice()).unwrap();
    let sum = layer_of_chain.clone().try_rule(per_ip().cost(5));
    assert!(matches!(sum, Err(RuleError::Sum(_))));
    assert!(layer_of_chain.clone().try_rule(per_ip().cost(4)).is_ok());
    let observes = per_ip().mode(Mode::Observe);
    let mixed = layer_of_chain.try_rule(observes);
    assert!(matches!(mixed, Err(RuleError::MixedModes { .. })));
    let modes = per_ip()
        .mode(Mode::Observe)
        .or_else(Rule::new("per-ip", Everyone));
    assert!(layer().try_rule(modes).is_ok());
}

#[test]
fn part_of_a_pair_has_no_alternatives() {
    let name = LimitName::new("pairs", 1, IdFormat::RegIdFqdnSet);
    let limits = Limits::builder().limit(name, Limit::per_hour(5));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = || RateLimitLayer::with_limiter(limiter.clone());
    let x = |name| HeaderId::new(name);
    let inside = (x("x-account").or_else(x("x-other")), x("x-domain"));
    let error = layer().try_rule(Rule::new("pairs", inside)).unwrap_err();
    assert!(matches!(error, RuleError::Format { .. }), "{error}");
    let one = (x("x-account"), x("x-domain"));
    let outside = one.or_else((x("x-other"), x("x-domain")));
    assert!(layer().try_rule(Rule::new("pairs", outside)).is_ok());
}

#[tokio::test]
async fn limits_of_all_rules_of_a_chain_outlive_a_reload() {
    let limiter = limiter();
    let rule = per_account().or_else(per_key()).or_else(per_ip().cost(3));
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let account = LimitName::new("per-account", 1, IdFormat::RegId);
    let others = || Limits::builder().limit(account.clone(), Limit::per_hour(5));
    let without_key = others().limit("per-ip", Limit::per_hour(10));
    let without_ip = others().limit("per-key", Limit::per_hour(5));
    let too_small = others().limit("per-key", Limit::per_hour(5));
    let too_small = too_small.limit("per-ip", Limit::per_hour(2));
    for limits in [without_key, without_ip, too_small] {
        limiter.reload(limits.build().unwrap()).unwrap_err();
    }
    let other = limits().limit("more", Limit::per_hour(1));
    limiter.reload(other.build().unwrap()).unwrap();
    let by_ip = charge("per-ip", "203.0.113.7", 3);
    assert_eq!(charged(&layer, request(&[])).await, by_ip);
}

#[derive(Clone)]
struct User(&'static str);

fn from_user(user: User) -> Request<Body> {
    let mut request = request(&[]);
    request.extensions_mut().insert(user);
    request
}

#[tokio::test]
async fn extension_that_is_optional_is_skipped_in_silence() {
    let (log, _guard) = Log::capture();
    let user = ExtensionId::optional(|user: &User| user.0);
    let skips = layer(Rule::new("per-key", user.clone()));
    assert_eq!(charged(&skips, request(&[])).await, []);
    let by_user = charge("per-key", "alice", 1);
    assert_eq!(charged(&skips, from_user(User("alice"))).await, by_user);
    let falls_back = layer(Rule::new("per-ip", user.or_else(ClientIp::peer())));
    let by_ip = charge("per-ip", "203.0.113.7", 1);
    assert_eq!(charged(&falls_back, request(&[])).await, by_ip);
    // An extension that must be there may be absent where another id is asked for.
    let user = ExtensionId::new(|user: &User| user.0);
    let falls_back = layer(Rule::new("per-key", user).or_else(per_ip()));
    assert_eq!(charged(&falls_back, request(&[])).await, by_ip);
    assert_eq!(log.count("ERROR"), 0, "{log:?}");
}

#[tokio::test]
async fn mistake_of_the_server_is_logged_where_another_id_is_asked_for() {
    let by_ip = charge("per-ip", "203.0.113.7", 1);
    let user = || ExtensionId::optional(|user: &User| user.0);
    let wrong_id = Rule::new("per-account", user()).or_else(per_ip());
    for (rule, reason) in [(wrong_id, "regId")] {
        let (log, _guard) = Log::capture();
        let layer = layer(rule);
        for _ in 0..3 {
            assert_eq!(charged(&layer, from_user(User("alice"))).await, by_ip);
        }
        assert_eq!(log.count("ERROR"), 1, "{log:?}");
        assert_eq!(log.count(reason), 1, "{log:?}");
    }
}
