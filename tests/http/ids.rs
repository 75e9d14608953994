//! Rules for requests with an id, with another one, with a malformed one and without one.

use http::{HeaderValue, Method, Request, StatusCode, request::Parts};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::ManualClock,
    id::{Id, IdFormat},
    key::{ExtensionId, HeaderId, KeyExtractor, MissingId},
    limit::{LimitName, LimitsBuilder},
    response::Registry,
    rule::{OnMissing, methods},
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, Log, as_grpc, charged, from_ip, text};

type Body = http_body_util::Full<bytes::Bytes>;

const IP: &str = "203.0.113.7";

fn limits() -> LimitsBuilder {
    Limits::builder()
        .limit("per-key", Limit::per_hour(5))
        .limit(
            LimitName::new("per-account", 1, IdFormat::RegId),
            Limit::per_hour(5),
        )
        .limit("per-ip", Limit::per_hour(10))
}

fn layer(rule: Rule) -> RateLimitLayer {
    let limiter = Limiter::new(limits().build().unwrap(), MemoryBackend::new());
    RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default())).rule(rule)
}

fn key() -> HeaderId {
    HeaderId::new("x-api-key").shown()
}

fn per_key() -> Rule {
    Rule::new("per-key", key())
}

fn account() -> HeaderId {
    HeaderId::new("x-account").shown()
}

fn per_account() -> Rule {
    Rule::new("per-account", account())
}

fn per_ip() -> Rule {
    Rule::new("per-ip", ClientIp::peer())
}

fn request(headers: &[(&'static str, &[u8])]) -> Request<Body> {
    let mut request = from_ip(IP);
    for (name, value) in headers {
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append(*name, value);
    }
    request
}

fn with_key() -> Request<Body> {
    request(&[("x-api-key", b"k")])
}

async fn status(layer: &RateLimitLayer, request: Request<Body>) -> u16 {
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    response.status().as_u16()
}

/// The statuses of requests without headers.
async fn statuses<const N: usize>(layer: &RateLimitLayer) -> [u16; N] {
    let mut statuses = [0; N];
    for each in &mut statuses {
        *each = status(layer, request(&[])).await;
    }
    statuses
}

fn charge(limit: &str, id: &str, cost: u32) -> Vec<(String, String, u32)> {
    vec![(limit.to_owned(), id.to_owned(), cost)]
}

fn by_key() -> Vec<(String, String, u32)> {
    charge("per-key", "k", 1)
}

fn by_ip() -> Vec<(String, String, u32)> {
    charge("per-ip", IP, 1)
}

#[tokio::test]
async fn rule_decides_what_a_missing_id_means() {
    use OnMissing::{Refuse, Shared, Skip};

    let rule = |on_missing| per_key().on_missing(on_missing);
    assert_eq!(statuses(&layer(rule(Refuse))).await, [400; 7]);
    assert_eq!(statuses(&layer(rule(Skip))).await, [200; 7]);
    let shared = [200, 200, 200, 200, 200, 429, 429];
    assert_eq!(statuses(&layer(rule(Shared))).await, shared);
    // Each of two rules decides for itself, and both are charged or none.
    let both = |one, other| layer(rule(one)).rule(per_account().on_missing(other));
    assert_eq!(statuses(&both(Refuse, Shared)).await, [400; 7]);
    assert_eq!(statuses(&both(Skip, Refuse)).await, [400; 7]);
    assert_eq!(statuses(&both(Skip, Shared)).await, shared);
    assert_eq!(statuses(&both(Skip, Skip)).await, [200; 7]);
    // The server is at fault if it does not know the peer.
    let mut unknown = request(&[]);
    unknown.extensions_mut().clear();
    assert_eq!(status(&layer(per_ip()), unknown).await, 500);
}

#[tokio::test]
async fn request_without_an_id_is_charged_by_other_rules() {
    let layer = layer(per_ip()).rule(per_key());
    assert_eq!(statuses(&layer).await, [400; 10]);
    assert_eq!(status(&layer, with_key()).await, 429);
}

#[tokio::test]
async fn id_that_does_not_match_the_limits_format_counts_as_missing() {
    let by_rule = layer(per_account().or_else(per_ip()));
    for account in ["0012", "-1", "alice", "18446744073709551616"] {
        let request = request(&[("x-account", account.as_bytes())]);
        assert_eq!(charged(&by_rule, request).await, by_ip(), "{account}");
    }
    let either = account().or_else(HeaderId::new("x-other"));
    let by_extractor = layer(Rule::new("per-account", either));
    for (account, expected) in [("12", "12"), ("0012", "34"), ("", "34")] {
        let headers = [("x-account", account.as_bytes()), ("x-other", b"34")];
        let charged = charged(&by_extractor, request(&headers)).await;
        assert_eq!(charged, charge("per-account", expected, 1), "{account}");
    }
    let neither = [("x-account", &b"0012"[..]), ("x-other", b"x")];
    assert_eq!(status(&by_extractor, request(&neither)).await, 400);
    for (on_missing, expected) in [(OnMissing::Skip, 200), (OnMissing::Shared, 429)] {
        let layer = layer(per_account().on_missing(on_missing));
        for i in 0..=5 {
            let account = format!("0{i}");
            let request = request(&[("x-account", account.as_bytes())]);
            assert_eq!(
                status(&layer, request).await,
                if i < 5 { 200 } else { expected }
            );
        }
    }
}

#[tokio::test]
async fn first_of_three_that_finds_an_id_applies_with_its_cost() {
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
            (vec![key], charge("per-key", "k", 3)),
            (vec![], charge("per-ip", IP, 4)),
        ] {
            assert_eq!(charged(&layer, request(&headers)).await, expected);
        }
    }
    // Set for the whole chain.
    let layer_of_twos = layer(per_key().or_else(per_ip()).cost(2));
    let of_ip = charged(&layer_of_twos, request(&[])).await;
    assert_eq!(of_ip, charge("per-ip", IP, 2));
    let of_key = charged(&layer_of_twos, request(&[key])).await;
    assert_eq!(of_key, charge("per-key", "k", 2));
    // One that costs nothing applies, too.
    let layer = layer(per_key().cost_by(|_| 0).or_else(per_ip()));
    assert_eq!(charged(&layer, with_key()).await, []);
    assert_eq!(charged(&layer, request(&[])).await, by_ip());
}

#[tokio::test]
async fn last_rule_says_what_a_missing_id_means() {
    let by_header = || Rule::new("per-ip", HeaderId::new("x-other"));
    for (first, last, expected) in [
        (OnMissing::Skip, OnMissing::Refuse, 400),
        (OnMissing::Refuse, OnMissing::Skip, 200),
        (OnMissing::Shared, OnMissing::Refuse, 400),
    ] {
        let rule = per_key().on_missing(first);
        let layer = layer(rule.or_else(by_header().on_missing(last)));
        assert_eq!(status(&layer, request(&[])).await, expected);
    }
    let layer = layer(per_key().or_else(by_header()).on_missing(OnMissing::Shared));
    let expected = charge("per-ip", "missing", 1);
    assert_eq!(
        charged(&layer, request(&[])).await,
        expected,
        "set for the whole chain"
    );
}

#[tokio::test]
async fn skipped_rule_leaves_the_request_to_the_next() {
    let posts = per_key().only_if(methods([Method::POST]));
    let layer_of_posts = layer(posts.or_else(per_ip()));
    assert_eq!(charged(&layer_of_posts, with_key()).await, by_ip());
    let mut post = with_key();
    *post.method_mut() = Method::POST;
    assert_eq!(charged(&layer_of_posts, post).await, by_key());
    let last_skipped = layer(per_key().or_else(per_ip().skip_if(|_: &Parts| true)));
    assert_eq!(charged(&last_skipped, request(&[])).await, []);
    assert_eq!(charged(&last_skipped, with_key()).await, by_key());
    let all_skipped = layer(per_key().or_else(per_ip()).skip_if(|_: &Parts| true));
    assert_eq!(charged(&all_skipped, with_key()).await, []);
    assert_eq!(charged(&all_skipped, request(&[])).await, []);
}

#[derive(Clone)]
struct User(&'static str);

fn of_user(user: User) -> Request<Body> {
    let mut request = request(&[]);
    request.extensions_mut().insert(user);
    request
}

#[tokio::test]
async fn optional_extension_is_absent_in_silence_and_a_required_or_wrong_one_is_logged_once() {
    let (log, _guard) = Log::capture();
    let optional = || ExtensionId::optional(|user: &User| user.0);
    let skips = layer(Rule::new("per-key", optional()));
    assert_eq!(charged(&skips, request(&[])).await, []);
    let of_alice = charge("per-key", "alice", 1);
    assert_eq!(charged(&skips, of_user(User("alice"))).await, of_alice);
    let falls_back = layer(Rule::new("per-ip", optional().or_else(ClientIp::peer())));
    assert_eq!(charged(&falls_back, request(&[])).await, by_ip());
    assert_eq!(log.count("ERROR"), 0, "{log:?}");
    let required = ExtensionId::new(|user: &User| user.0);
    let falls_back = layer(Rule::new("per-key", required).or_else(per_ip()));
    for _ in 0..3 {
        assert_eq!(charged(&falls_back, request(&[])).await, by_ip());
    }
    let remedy = "use `ExtensionId::optional` if requests may come without it";
    assert_eq!((log.count("ERROR"), log.count(remedy)), (1, 1), "{log:?}");
    // A mistake that refuses requests is logged as well.
    let required = ExtensionId::new(|user: &User| user.0);
    let chooses = Rule::new("per-key", required).limit_by(["per-ip"], |parts| {
        parts.headers.get("x-plan").map(|_| "nothing")
    });
    let chooses = layer(chooses.or_else(per_ip()));
    assert_eq!(charged(&chooses, request(&[])).await, by_ip());
    let refused = chooses.layer(Hello).oneshot(request(&[("x-plan", b"x")]));
    assert_eq!(refused.await.unwrap().status(), 500);
    assert_eq!(
        log.count("limit `nothing`, which is not known"),
        1,
        "{log:?}"
    );
    let other = |_: &Parts| Some("7");
    let by_rule = Rule::new("per-account", optional()).or_else(per_ip());
    let by_extractor = Rule::new("per-account", optional().or_else(other));
    for (rule, charge) in [
        (by_rule, by_ip()),
        (by_extractor, charge("per-account", "7", 1)),
    ] {
        let (log, _guard) = Log::capture();
        let layer = layer(rule);
        for _ in 0..3 {
            assert_eq!(charged(&layer, of_user(User("alice"))).await, charge);
        }
        assert_eq!((log.count("ERROR"), log.count("regId")), (1, 1), "{log:?}");
    }
}

#[tokio::test]
async fn refusal_names_the_mistake_in_an_id() {
    let layer = layer(per_account());
    let long = "9".repeat(1000);
    for (headers, expected) in [
        (&[][..], "header `x-account` is missing"),
        (
            &[("x-account", &b"0012"[..])],
            "header `x-account`: `0012` is not an id in the format regId: use a whole number up to 18446744073709551615, \
             without sign or leading zeros",
        ),
        (
            &[("x-account", long.as_bytes())],
            "header `x-account`: `999",
        ),
    ] {
        let response = layer.layer(Hello).oneshot(request(headers)).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(response.headers().get("ratelimit"), None);
        let body = text(response).await;
        assert!(body.contains("\"title\":\"Bad Request\""), "{body}");
        assert!(body.contains(expected) && body.len() < 500, "{body}");
    }
    let grpc = as_grpc(request(&[]), "application/grpc");
    let response = layer.layer(Hello).oneshot(grpc).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "3");
}

const CHALLENGE: &str = "Bearer realm=\"api\"";

/// Refuses requests for this reason.
#[derive(Clone)]
struct Refuses(MissingId);

impl KeyExtractor for Refuses {
    fn extract(&self, _: &Parts) -> Result<Option<Id>, MissingId> {
        Err(self.0.clone())
    }
}

#[tokio::test]
async fn extractor_asks_who_the_client_is() {
    let by_token = || MissingId::client("send a token").unauthorized(CHALLENGE);
    let servers = MissingId::server("set it up").unauthorized("Basic");
    for (reason, status, challenge) in [
        (by_token(), 401, Some(CHALLENGE)),
        (MissingId::client("send it"), 400, None),
        (servers, 500, None),
    ] {
        let layer = layer(Rule::new("per-key", Refuses(reason)));
        let response = layer.layer(Hello).oneshot(request(&[])).await.unwrap();
        assert_eq!(response.status(), status);
        let field = response.headers().get("www-authenticate");
        assert_eq!(field.map(|value| value.to_str().unwrap()), challenge);
    }
    let layer = layer(Rule::new("per-account", account().unauthorized(CHALLENGE)));
    for account in ["", "x", "007"] {
        let request = request(&[("x-account", account.as_bytes())]);
        assert_eq!(status(&layer, request).await, 401, "{account}");
    }
    assert_eq!(status(&layer, request(&[("x-account", b"7")])).await, 200);
    let registry = layer.clone().respond_with(Registry).layer(Hello);
    let body = text(registry.oneshot(request(&[])).await.unwrap()).await;
    assert!(body.contains("UNAUTHORIZED"), "{body}");
    let grpc = as_grpc(request(&[]), "application/grpc");
    let response = layer.layer(Hello).oneshot(grpc).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "16");
    assert!(!response.headers().contains_key("www-authenticate"));
}
