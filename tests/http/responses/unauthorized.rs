//! Refusals with 401, of clients that have to say who they are.

use http::{Request, StatusCode, request::Parts};
use http_body_util::Full;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    id::IdFormat,
    key::{Extracted, HeaderId, KeyExtractor, MissingId},
    limit::LimitName,
    response::Registry,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, as_grpc, text};

const CHALLENGE: &str = "Bearer realm=\"api\"";

fn limiter() -> Limiter {
    let name = LimitName::new("accounts", 1, IdFormat::RegId);
    let limits = Limits::builder().limit(name, Limit::per_hour(9));
    Limiter::new(limits.build().unwrap(), MemoryBackend::new())
}

fn layer(extractor: impl KeyExtractor) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter()).rule(Rule::new("accounts", extractor))
}

async fn answer(
    layer: &RateLimitLayer,
    request: Request<Full<bytes::Bytes>>,
) -> (StatusCode, Option<String>, String) {
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    let challenge = response.headers().get("www-authenticate");
    let challenge = challenge.map(|value| value.to_str().unwrap().to_owned());
    (response.status(), challenge, text(response).await)
}

fn with(account: Option<&str>) -> Request<Full<bytes::Bytes>> {
    let request = Request::builder();
    let request = account.into_iter().fold(request, |request, account| {
        request.header("x-account", account)
    });
    request.body(Full::default()).unwrap()
}

#[tokio::test]
async fn extractor_asks_who_the_client_is() {
    let by_token = |parts: &Parts| match parts.headers.get("authorization") {
        Some(_) => Extracted::Id("7".into()),
        None => Extracted::Missing(MissingId::client("send a token").unauthorized(CHALLENGE)),
    };
    let (status, challenge, body) = answer(&layer(by_token), with(None)).await;
    assert_eq!(
        (status.as_u16(), challenge.as_deref()),
        (401, Some(CHALLENGE))
    );
    assert!(body.contains("send a token"), "{body}");
    let (_, _, body) = answer(&layer(by_token).respond_with(Registry), with(None)).await;
    assert!(body.contains("UNAUTHORIZED"), "{body}");
    let asks = |_: &Parts| Extracted::Missing(MissingId::client("send it"));
    let (status, challenge, _) = answer(&layer(asks), with(None)).await;
    assert_eq!((status.as_u16(), challenge), (400, None));
}

#[tokio::test]
async fn header_without_a_valid_id_is_asked_for() {
    let layer = layer(HeaderId::new("x-account").unauthorized(CHALLENGE));
    for account in [None, Some(""), Some("x"), Some("007")] {
        let (status, challenge, body) = answer(&layer, with(account)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{account:?}: {body}");
        assert_eq!(challenge.as_deref(), Some(CHALLENGE));
    }
    assert_eq!(answer(&layer, with(Some("7"))).await.0, StatusCode::OK);
}

#[tokio::test]
async fn fault_of_the_server_stays_one() {
    let wrong =
        |_: &Parts| Extracted::Missing(MissingId::server("set it up").unauthorized("Basic"));
    let (status, challenge, _) = answer(&layer(wrong), with(None)).await;
    assert_eq!((status.as_u16(), challenge), (500, None));
}

#[tokio::test]
async fn grpc_clients_are_unauthenticated() {
    let layer = layer(HeaderId::new("x-account").unauthorized(CHALLENGE));
    let request = as_grpc(with(None), "application/grpc");
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "16");
    assert!(!response.headers().contains_key("www-authenticate"));
}

#[test]
#[should_panic]
fn challenge_that_is_no_header_panics() {
    let _ = HeaderId::new("x-account").unauthorized("two\nlines");
}
