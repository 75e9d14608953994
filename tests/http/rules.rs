//! Rules on limits whose ids have a format: what fits, what meets in one bucket, what is refused.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use http::{Request, StatusCode, request::Parts};
use serde_json::Value;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    clock::ManualClock,
    id::IdFormat,
    key::{Everyone, HeaderId, Ipv6Range},
    limit::LimitName,
    rule::{OnMissing, RuleError},
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, as_grpc, id_formats, text};

/// A limiter of the limit `l`, 20 per second, by a clock that stands still.
fn limiter(format: IdFormat) -> Limiter {
    let name = LimitName::new("l", 1, format);
    let limits = Limits::builder()
        .limit(name, Limit::per_second(20))
        .build()
        .unwrap();
    Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default())
}

fn layer(format: IdFormat) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter(format))
}

type Body = http_body_util::Full<bytes::Bytes>;

fn request(headers: &[(&str, &str)]) -> Request<Body> {
    let request = headers
        .iter()
        .fold(Request::builder(), |request, (name, value)| {
            request.header(*name, *value)
        });
    request.body(Body::default()).unwrap()
}

#[test]
fn extractor_that_finds_no_ids_in_the_format_is_an_error_at_start() {
    let fits = |format, rule| layer(format).try_rule(rule).is_ok();
    let ranges = || Ipv6Range::peer();
    for format in id_formats() {
        let is = |fitting| format == IdFormat::Opaque || format == fitting;
        let address = is(IdFormat::IpAddress);
        assert_eq!(fits(format, Rule::new("l", ClientIp::peer())), address);
        assert_eq!(
            fits(format, Rule::new("l", ClientIp::peer().exact())),
            address
        );
        assert_eq!(
            fits(format, Rule::new("l", ranges())),
            is(IdFormat::Ipv6Range)
        );
        assert_eq!(
            fits(format, Rule::new("l", ranges().prefix(56))),
            format == IdFormat::Opaque
        );
        assert_eq!(
            fits(format, Rule::new("l", Everyone)),
            format == IdFormat::Opaque
        );
        assert!(fits(format, Rule::new("l", HeaderId::new("x-id"))));
        assert!(fits(format, Rule::new("l", |_: &Parts| Some("7"))));
    }
    let error = layer(IdFormat::RegId)
        .try_rule(Rule::new("l", Everyone))
        .unwrap_err();
    assert!(matches!(error, RuleError::Format { .. }));
    assert_eq!(
        error.to_string(),
        "limit `l` has ids in the format regId, which the rule's extractor cannot produce: use another \
         extractor, or give the limit another format"
    );
}

#[cfg(feature = "domains")]
#[tokio::test]
async fn rules_that_meet_in_one_bucket_by_another_spelling_are_one_charge() {
    let layer = layer(IdFormat::Domain)
        .response_extension(true)
        .rule(Rule::new("l", HeaderId::new("x-a")).cost(2))
        .rule(Rule::new("l", HeaderId::new("x-b")).cost(3));
    let send = |a, b| {
        layer
            .layer(Hello)
            .oneshot(request(&[("x-a", a), ("x-b", b)]))
    };
    let response = send("www.Example.com", "mail.example.com").await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let assessment = response
        .extensions()
        .get::<tollgate::layer::Assessment>()
        .unwrap();
    let costs: Vec<_> = assessment
        .iter()
        .map(|one| (one.id.as_str(), one.cost))
        .collect();
    assert_eq!(costs, [("www.Example.com", 5)]);
    assert_eq!(
        assessment.iter().next().unwrap().decision.remaining(),
        Some(15)
    );
    let response = send("example.com", "example.org").await.unwrap();
    let assessment = response
        .extensions()
        .get::<tollgate::layer::Assessment>()
        .unwrap();
    let left: Vec<_> = assessment
        .iter()
        .map(|one| one.decision.remaining().unwrap())
        .collect();
    assert_eq!(left, [13, 17]);
    // What was charged together is given back together.
    assessment.refund().await.unwrap();
}

#[tokio::test]
async fn id_out_of_its_format_is_told_to_the_client() {
    let rule = Rule::new("l", HeaderId::new("x-account").shown());
    let layer = layer(IdFormat::RegId).rule(rule);
    let response = layer
        .layer(Hello)
        .oneshot(request(&[("x-account", "0012")]))
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let body: Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!(body["title"], "Bad Request");
    assert_eq!(
        body["detail"],
        "header `x-account`: `0012` is not an id in the format regId: use a whole number up to 18446744073709551615, \
         without sign or leading zeros"
    );
    let grpc = as_grpc(request(&[("x-account", "0012")]), "application/grpc");
    let response = layer.layer(Hello).oneshot(grpc).await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["grpc-status"]),
        (StatusCode::OK, &"3".parse().unwrap())
    );
    // A long one is not repeated whole.
    let long = "9".repeat(1000);
    let response = layer
        .layer(Hello)
        .oneshot(request(&[("x-account", &long)]))
        .await
        .unwrap();
    assert!(text(response).await.len() < 400);
}

#[tokio::test]
async fn requests_without_an_id_share_a_bucket_in_any_format() {
    for format in id_formats() {
        let limiter = limiter(format);
        let rule = Rule::new("l", HeaderId::new("x-id")).on_missing(OnMissing::Shared);
        let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
        for i in 0..21 {
            let response = layer.layer(Hello).oneshot(request(&[])).await.unwrap();
            assert_eq!(response.status() == StatusCode::OK, i < 20, "{format} {i}");
        }
        // It can be looked at, reset and overridden like any other.
        let shared = Transaction::missing("l");
        limiter.reset(&[shared]).await.unwrap();
        assert!(limiter.check(&shared).await.unwrap().allowed());
    }
}

#[tokio::test]
async fn rule_decides_what_an_id_out_of_its_format_means() {
    let rule = || Rule::new("l", HeaderId::new("x-account"));
    for (rule, last) in [
        (rule().on_missing(OnMissing::Skip), StatusCode::OK),
        (
            rule().on_missing(OnMissing::Shared),
            StatusCode::TOO_MANY_REQUESTS,
        ),
    ] {
        let layer = layer(IdFormat::RegId).rule(rule);
        for i in 0..=20 {
            let account = format!("0{i}");
            let request = request(&[("x-account", &account)]);
            let status = layer.layer(Hello).oneshot(request).await.unwrap().status();
            assert_eq!(status, if i < 20 { StatusCode::OK } else { last });
        }
    }
}

#[tokio::test]
async fn nobody_can_say_that_it_is_those_without_an_id() {
    let by_path = |parts: &Parts| {
        parts
            .uri
            .path()
            .strip_prefix('/')
            .map(|_| tollgate::id::Id::MISSING)
    };
    let layer = layer(IdFormat::Opaque).rule(Rule::new("l", by_path));
    let response = layer.layer(Hello).oneshot(request(&[])).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    let limiter = limiter(IdFormat::RegId);
    let said = limiter
        .spend(&Transaction::new("l", tollgate::id::Id::MISSING))
        .await;
    assert!(said.is_err());
}
