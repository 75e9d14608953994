//! Secret ids, such as API keys in headers: people see hashes of them.

use http::Request;
use http_body_util::{BodyExt, Full};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    clock::ManualClock,
    id::{Id, IdFormat},
    key::{Everyone, Extracted, HeaderId, IdProperties, KeyExtractor, KeyExtractorExt},
    layer::Assessment,
    limit::LimitName,
    response::{PlainText, Problem, Refusal, Registry},
};
use tower::{Layer, ServiceExt};
use tracing::Level;

use crate::support::{Hello, Log, as_grpc};

const SECRET: &str = "sk-secret-123";

fn limiter(format: IdFormat) -> Limiter {
    let limits = Limits::builder()
        .limit(LimitName::new("keys", 1, format), Limit::per_hour(1))
        .limit("all", Limit::per_hour(100));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    limiter.with_clock(ManualClock::default())
}

fn layer(extractor: impl KeyExtractor) -> RateLimitLayer {
    layer_of(IdFormat::Opaque, extractor)
}

fn layer_of(format: IdFormat, extractor: impl KeyExtractor) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter(format))
        .rule(Rule::new("keys", extractor))
        .rule(Rule::new("all", Everyone))
}

fn request(key: &str) -> Request<Full<bytes::Bytes>> {
    let request = Request::builder().header("x-api-key", key);
    let mut request = request.body(Full::default()).unwrap();
    request
        .headers_mut()
        .insert("x-account", "12345678".parse().unwrap());
    request
}

/// All that a client reads of the response to its second request.
async fn refusal(layer: &RateLimitLayer, grpc: bool) -> String {
    let mut read = String::new();
    for _ in 0..2 {
        let request = request(SECRET);
        let request = match grpc {
            true => as_grpc(request, "application/grpc"),
            false => request,
        };
        let response = layer.clone().layer(Hello).oneshot(request).await.unwrap();
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

fn key() -> HeaderId {
    HeaderId::new("x-api-key")
}

/// Finds the key as an extractor of an application's own.
#[derive(Debug)]
struct OwnKey;

impl KeyExtractor for OwnKey {
    fn extract(&self, parts: &http::request::Parts) -> Extracted {
        let key = parts.headers.get("x-api-key");
        let key = key.and_then(|key| key.to_str().ok());
        key.map(|key| Id::from(key).secret()).into()
    }

    fn describe(&self) -> IdProperties {
        IdProperties::default().secret()
    }
}

/// Each way to find the key.
fn layers() -> [RateLimitLayer; 6] {
    let account = || HeaderId::new("x-account").shown();
    [
        layer(key()),
        layer((account(), key())),
        layer((key(), account(), Everyone)),
        layer(HeaderId::new("x-other").or_else(key())),
        layer_of(
            IdFormat::Opaque,
            HeaderId::new("x-none").or_else(OwnKey).or_else(Everyone),
        ),
        layer(OwnKey),
    ]
}

#[tokio::test]
async fn refusals_contain_hashes_of_secret_ids() {
    for (i, layer) in layers().into_iter().enumerate() {
        for (name, layer) in [
            ("problem", layer.clone().respond_with(Problem::new())),
            ("acme", layer.clone().respond_with(Problem::acme())),
            ("registry", layer.clone().respond_with(Registry)),
            ("text", layer.clone().respond_with(PlainText)),
        ] {
            for grpc in [false, true] {
                let read = refusal(&layer, grpc).await;
                assert!(!read.contains("secret"), "{i} {name} {grpc}: {read}");
            }
        }
    }
    let read = refusal(&layer(key()), false).await;
    assert!(read.contains("from redacted-"), "{read}");
    let read = refusal(&layer(key()).respond_with(Registry), false).await;
    assert!(read.contains("redacted-"), "{read}");
}

#[tokio::test]
async fn header_that_is_shown_is_no_secret() {
    let account = || HeaderId::new("x-account").shown();
    for extractor in [layer(account()), layer((account(), Everyone))] {
        let read = refusal(&extractor, false).await;
        assert!(read.contains("from 12345678"), "{read}");
    }
}

#[tokio::test]
async fn events_and_debug_output_contain_the_hash_of_the_refusal() {
    let (log, _guard) = Log::capture_at(Level::TRACE);
    for layer in layers() {
        let layer = layer.response_extension(true);
        let service = layer.layer(Hello);
        for _ in 0..3 {
            let response = service.clone().oneshot(request(SECRET)).await.unwrap();
            let assessment: &Assessment = response.extensions().get().unwrap();
            tracing::info!(?assessment, "assessed");
            for assessed in assessment.iter() {
                let transaction = assessed.transaction();
                tracing::info!(id = ?assessed.id, ?transaction, "as it is shown");
                // What it decides again is no other bucket.
                let checked = assessed.limiter.check(&transaction).await.unwrap();
                assert_eq!(checked.allowed(), *assessed.limit == *"all");
                assert!(*assessed.limit == *"all" || assessed.id.as_str().contains(SECRET));
            }
        }
    }
    let formatted = layer(key()).respond_with(|refusal: &Refusal<'_>| {
        tracing::info!(?refusal, "refused");
        http::Response::new(bytes::Bytes::from(refusal.message()))
    });
    let read = refusal(&formatted, false).await;
    let (_, hash) = read.split_once("redacted-").unwrap();
    let hash = format!("redacted-{}", &hash[..16]);
    assert_eq!(log.count(SECRET), 0, "{log:?}");
    assert!(log.count(&hash) > 3, "{hash}: {log:?}");
}

#[tokio::test]
async fn malformed_secret_is_not_quoted() {
    let answer = async |extractor: HeaderId| {
        let layer = layer_of(IdFormat::RegId, extractor);
        let response = layer.layer(Hello).oneshot(request(SECRET)).await.unwrap();
        assert_eq!(response.status(), 400);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.into()).unwrap()
    };
    let hidden = answer(key()).await;
    let expected = "header `x-api-key`: its value is not an id in the format regId: use a whole";
    assert!(hidden.contains(expected), "{hidden}");
    assert!(!hidden.contains(SECRET));
    let shown = answer(key().shown()).await;
    assert!(shown.contains("`sk-secret-123` is not an id"), "{shown}");
}

#[tokio::test]
async fn errors_of_secret_transactions_contain_no_id() {
    let limits = Limits::builder()
        .limit(
            LimitName::new("accounts", 1, IdFormat::RegId),
            Limit::per_hour(1),
        )
        .limit("keys", Limit::per_hour(9))
        .override_for("keys", SECRET, Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let key = |limit| Transaction::new(limit, SECRET).secret();
    let errors = [
        limiter.spend(&key("accounts")).await.unwrap_err(),
        limiter.spend(&key("keys").cost(5)).await.unwrap_err(),
        limiter
            .spend_batch(&[key("keys"), key("keys")])
            .await
            .unwrap_err(),
    ];
    for error in errors {
        let texts = format!("{error} {error:?}");
        assert!(!texts.contains("secret-123"), "{texts}");
    }
}

#[cfg(feature = "domains")]
#[tokio::test]
async fn secret_id_in_another_form_is_a_secret_in_both() {
    let name = LimitName::new("keys", 1, IdFormat::Domain);
    let limits = Limits::builder().limit(name, Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter).rule(Rule::new("keys", key()));
    let (log, _guard) = Log::capture_at(Level::TRACE);
    for status in [200, 429] {
        let request = request("secret.Example.com");
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        assert_eq!(response.status(), status);
        assert!(response.headers().get(http::header::CONTENT_TYPE).is_none() || status == 429);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = body.escape_ascii().to_string();
        assert!(!body.to_lowercase().contains("example"), "{body}");
    }
    assert_eq!(log.count("xample.com"), 0, "{log:?}");
}

#[test]
fn limiter_knows_which_limits_have_secret_ids() {
    for (i, layer) in layers().into_iter().enumerate() {
        let limiter = layer.limiter().clone();
        assert!(limiter.has_secret_ids("keys"), "{i}");
        assert!(!limiter.has_secret_ids("all"), "{i}");
        drop(layer);
        assert!(!limiter.has_secret_ids("keys"), "{i}");
    }
    let shown = layer(key().shown());
    assert!(!shown.limiter().has_secret_ids("keys"));
}
