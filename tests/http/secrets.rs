//! Ids that are secret: clients, logs and errors have hashes of them.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    clock::ManualClock,
    id::{Id, IdFormat},
    key::{Everyone, HeaderId, KeyExtractor},
    limit::LimitName,
    response::{PlainText, Problem, Refusal, Registry},
};
use tower::{Layer, ServiceExt};

use crate::{
    refusals::{events, listen},
    support::{Hello, Log, as_grpc, assessed, text},
};

const SECRET: &str = "sk-secret-123";

fn with_key(key: &str) -> Request<Full<Bytes>> {
    let request = Request::builder()
        .header("x-api-key", key)
        .header("x-account", "7");
    request.body(Full::default()).unwrap()
}

fn secret_layer(extractor: impl KeyExtractor) -> RateLimitLayer {
    let limits = Limits::builder()
        .limit("keys", Limit::per_hour(1))
        .limit("all", Limit::per_hour(100));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    RateLimitLayer::with_limiter(limiter.with_clock(ManualClock::default()))
        .rule(Rule::new("keys", extractor))
        .rule(Rule::new("all", Everyone))
}

/// All that a client reads of the response to its second request.
async fn read(layer: &RateLimitLayer, is_grpc: bool) -> String {
    let mut read = String::new();
    for _ in 0..2 {
        let request = with_key(SECRET);
        let request = if is_grpc {
            as_grpc(request, "application/grpc")
        } else {
            request
        };
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        read = format!("{head:?} {}", body.escape_ascii());
        if let Some(details) = head.headers.get("grpc-status-details-bin") {
            use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};

            let details = details.to_str().unwrap().trim_end_matches('=');
            let details = BASE64_STANDARD_NO_PAD.decode(details).unwrap();
            read += &details.escape_ascii().to_string();
        }
    }
    read
}

#[tokio::test]
async fn secret_ids_are_shown_as_hashes_wherever_they_come_from() {
    let key = || HeaderId::new("x-api-key");
    let account = || HeaderId::new("x-account").shown();
    let own = |parts: &http::request::Parts| {
        let key = parts.headers.get("x-api-key")?.to_str().ok()?;
        Some(Id::from(key).secret())
    };
    let (log, _guard) = Log::capture_at(tracing::Level::TRACE);
    for layer in [
        secret_layer(key()),
        secret_layer((account(), key())),
        secret_layer((key(), account(), Everyone)),
        secret_layer(HeaderId::new("x-none").or_else(own).or_else(Everyone)),
        secret_layer(own),
    ] {
        let assessment = assessed(&layer, with_key(SECRET)).await;
        tracing::info!(?assessment, "assessed");
        for layer in [
            layer.clone(),
            layer.clone().respond_with(Problem::acme()),
            layer.clone().respond_with(Registry),
            layer.clone().respond_with(PlainText),
            layer.respond_with(|refusal: &Refusal<'_>| {
                tracing::info!(?refusal, denials = ?refusal.denials(), "refused");
                Response::new(Bytes::from(refusal.message()))
            }),
        ] {
            for is_grpc in [false, true] {
                let read = read(&layer, is_grpc).await;
                let is_hidden = !read.contains("secret") && read.contains("redacted-");
                assert!(is_hidden, "{read}");
            }
        }
    }
    assert_eq!(log.count(SECRET), 0, "{log:?}");
    assert!(log.count("redacted-") > 100, "{log:?}");
    let read = read(&secret_layer((account(), Everyone)), false).await;
    assert!(read.contains("from 7:everyone"), "{read}");
}

#[tokio::test]
async fn errors_about_secret_ids_do_not_quote_them() {
    let accounts = LimitName::new("accounts", 1, IdFormat::RegId);
    let limits = Limits::builder()
        .limit(accounts, Limit::per_hour(1))
        .limit("keys", Limit::per_hour(9))
        .override_for("keys", SECRET, Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let key = |limit| Transaction::new(limit, SECRET).secret();
    for error in [
        limiter.spend(&key("accounts")).await.unwrap_err(),
        limiter.spend(&key("keys").cost(5)).await.unwrap_err(),
        limiter
            .spend_batch(&[key("keys"), key("keys")])
            .await
            .unwrap_err(),
    ] {
        let texts = format!("{error} {error:?}");
        assert!(!texts.contains("secret-123"), "{texts}");
    }
    for (extractor, is_quoted) in [
        (HeaderId::new("x-api-key"), false),
        (HeaderId::new("x-api-key").shown(), true),
    ] {
        let layer = RateLimitLayer::with_limiter(limiter.clone());
        let layer = layer.rule(Rule::new("accounts", extractor));
        let response = layer.layer(Hello).oneshot(with_key(SECRET)).await.unwrap();
        assert_eq!(response.status(), 400);
        let text = text(response).await;
        assert_eq!(text.contains(SECRET), is_quoted, "{text}");
        assert!(
            text.contains("not an id in the format regId: use a whole"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn events_have_hashes_of_long_and_redacted_ids() {
    let long = "x".repeat(129);
    for (redacts, key, is_shown) in [
        (true, SECRET, false),
        (false, &*long, false),
        (false, &long[1..], true),
    ] {
        let (log, _guard) = listen();
        let limits = Limits::builder().limit("requests", Limit::per_hour(1));
        let limits = limits.redact_ids(redacts).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::new());
        let rule = Rule::new("requests", HeaderId::new("x-api-key").shown());
        let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
        for _ in 0..2 {
            layer.layer(Hello).oneshot(with_key(key)).await.unwrap();
        }
        let events = events(&log);
        assert_eq!(events.len(), 1, "{log:?}");
        let id = Id::from(key);
        let id = if is_shown { id } else { id.secret() };
        let client = format!(" id=\"{}\" ", id.shown());
        assert!(events[0].contains(&client), "{events:?}");
        assert_eq!(events[0].contains(key), is_shown, "{events:?}");
    }
}

#[tokio::test]
async fn debug_output_of_a_refusal_leaves_out_the_request() {
    let layer = secret_layer(HeaderId::new("x-api-key"))
        .respond_with(|refusal: &Refusal<'_>| Response::new(Bytes::from(format!("{refusal:?}"))));
    layer.layer(Hello).oneshot(with_key("k")).await.unwrap();
    let response = layer.layer(Hello).oneshot(with_key("k")).await.unwrap();
    let output = text(response).await;
    assert!(output.starts_with("Refusal { status: 429"), "{output}");
    assert!(!output.contains("x-api-key"), "{output}");
}
