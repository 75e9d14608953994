//! Sentences of the guide that say "every", "never" or "not", each in a test.

use std::{
    convert::Infallible,
    future::{pending, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::Backend,
    clock::ManualClock,
    id::Id,
    key::{ExtensionId, HeaderId, KeyExtractor, MissingId},
    rule::RequestEnd,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{
    Log, bucket, from_ip, layer, limiter_of,
    patience::poll,
    send,
    store::{Fate, Store},
};

const IP: &str = "203.0.113.7";
const HOUR: Duration = Duration::from_secs(3600);

fn rule() -> Rule {
    Rule::new("requests", ClientIp::peer())
}

/// Sends a request to a service that answers so, reads the body, and returns the `RateLimit` field.
async fn answered(layer: &RateLimitLayer, response: http::response::Builder) -> HeaderValue {
    let response = response.body(Full::<Bytes>::from("three")).unwrap();
    let service =
        service_fn(move |_: Request<Full<Bytes>>| ready(Ok::<_, Infallible>(response.clone())));
    let answer = layer.layer(service).oneshot(from_ip(IP)).await.unwrap();
    let field = answer.headers()["ratelimit"].clone();
    answer.into_body().collect().await.unwrap();
    field
}

/// `docs/rules.md`: a rule sees the status of a gRPC call that fails before it sends anything.
#[tokio::test]
async fn rule_sees_the_status_of_a_grpc_call_that_fails_at_once() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(10));
    let refunds = |end: &RequestEnd<'_>| end.grpc_status() == Some(13);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule().refund_if(refunds));
    for (status, left) in [
        (Some("13"), 10),
        (Some("5"), 9),
        (None, 8),
        (Some("x"), 7),
        (Some("13"), 7),
    ] {
        let mut response = Response::builder();
        if let Some(status) = status {
            response = response.header("grpc-status", status);
        }
        answered(&layer, response).await;
        let remaining = bucket(&limiter, "requests", IP).await.remaining();
        assert_eq!(remaining, Some(left), "{status:?}");
    }
}

/// `docs/rules.md`: with `charge_if`, all guesses that are sent at once pass the check.
#[tokio::test]
async fn charge_if_admits_all_requests_in_flight_and_refund_if_those_that_fit() {
    for (rule, passed) in [
        (rule().charge_if(|_| true), 1000),
        (rule().refund_if(|_| false), 5),
    ] {
        let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(5));
        let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
        let checks = service_fn(|_: Request<Full<Bytes>>| {
            pending::<Result<Response<Full<Bytes>>, Infallible>>()
        });
        let mut passes = 0;
        let mut guesses: Vec<_> = (0..1000)
            .map(|_| Box::pin(layer.layer(checks).oneshot(from_ip(IP))))
            .collect();
        for guess in &mut guesses {
            passes += usize::from(poll(guess.as_mut()).is_pending());
        }
        assert_eq!(passes, passed);
    }
}

/// `docs/rules.md`: for an upgraded connection, `settle_by` is not called. The fields show the state before settlement.
#[tokio::test]
async fn settle_by_is_called_for_answers_and_not_for_upgrades() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(10));
    let calls = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&calls);
    let settles = move |_: &RequestEnd<'_>| {
        count.fetch_add(1, Ordering::SeqCst);
        Some(1)
    };
    let rule = rule().cost(3).settle_by(settles);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    for (status, called, left) in [(101, 0, 7), (200, 1, 6)] {
        let field = answered(&layer, Response::builder().status(status)).await;
        let before = format!("\"requests\";r={};", if called == 0 { 7 } else { 4 });
        assert!(field.to_str().unwrap().starts_with(&before), "{field:?}");
        assert_eq!(calls.load(Ordering::SeqCst), called, "{status}");
        let remaining = bucket(&limiter, "requests", IP).await.remaining();
        assert_eq!(remaining, Some(left), "{status}");
    }
}

/// `docs/responses.md`: up to the jitter more, so that clients do not come back together.
#[tokio::test]
async fn jitter_spreads_when_refused_clients_come_back() {
    let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(1));
    let jitter = layer(&limiter).jitter(HOUR);
    send(&jitter, IP).await;
    let mut waits = std::collections::BTreeSet::new();
    for _ in 0..50 {
        let refused = send(&jitter, IP).await;
        let wait = refused.headers()[header::RETRY_AFTER].to_str().unwrap();
        let wait: u64 = wait.parse().unwrap();
        assert!((3600..=7200).contains(&wait), "{wait}");
        waits.insert(wait);
    }
    assert!(waits.len() > 10, "{waits:?}");
}

/// A limit for each reason of a refusal.
fn refusing(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(1))
        .limit("blocked", Limit::BLOCKED)
        .block("listed", "this address is paused");
    Limiter::new(limits.build().unwrap(), backend).with_clock(ManualClock::default())
}

/// Asks each client for a key, and accepts none.
#[derive(Debug)]
struct Keyless;

impl KeyExtractor for Keyless {
    fn extract(&self, _: &Parts) -> Result<Option<Id>, MissingId> {
        Err(MissingId::client("send a key").unauthorized("Key"))
    }
}

/// `docs/responses.md`: every refusal has `Cache-Control: no-store`.
#[tokio::test]
async fn no_refusal_is_kept_by_a_cache() {
    let limiter = refusing(MemoryBackend::new());
    limiter.block("listed", IP, HOUR).await.unwrap();
    let costly = |_: &Parts| 5;
    let rules = [
        (rule().cost(1), 429),
        (Rule::new("blocked", ClientIp::peer()), 429),
        (rule().cost_by(costly), 413),
        (Rule::new("listed", ClientIp::peer()), 429),
        (Rule::new("requests", HeaderId::new("x-key")), 400),
        (Rule::new("requests", Keyless), 401),
        (
            Rule::new("requests", ExtensionId::new(|id: &Id| id.clone())),
            500,
        ),
        (rule().limit_by(["blocked"], |_| Some("unknown")), 500),
    ];
    send(&layer(&limiter), IP).await;
    let away = refusing(Store::new(Fate::NoReply));
    let layer_of =
        |limiter: &Limiter, rule| RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let mut layers: Vec<_> = rules
        .into_iter()
        .map(|(rule, status)| (layer_of(&limiter, rule), status))
        .collect();
    layers.push((layer_of(&away, rule()), 503));
    layers.push((layer(&limiter).deny_if("abuse", |_: &Parts| true), 403));
    for (layer, status) in layers {
        let refused = send(&layer, IP).await;
        assert_eq!(refused.status(), StatusCode::from_u16(status).unwrap());
        let cached = &refused.headers()[header::CACHE_CONTROL];
        assert_eq!(cached, "no-store", "{status}");
    }
}

/// `docs/operating.md`: down to `INFO`, the number of lines does not depend on the number of requests.
#[tokio::test]
async fn refusals_write_no_lines_at_the_level_info() {
    let (log, _guard) = Log::capture();
    let limiter = limiter_of(&ManualClock::default(), Limit::per_hour(1));
    let layer = layer(&limiter);
    for _ in 0..100 {
        send(&layer, IP).await;
    }
    let lines = log.count("\n");
    for _ in 0..1000 {
        send(&layer, IP).await;
    }
    assert_eq!(log.count("\n"), lines, "{log:?}");
}

/// `docs/stack.md`: with compression inside, `sent` counts compressed bytes; outside, uncompressed ones.
#[tokio::test]
async fn bytes_that_are_sent_are_counted_where_the_layer_stands() {
    use tower_http::compression::CompressionLayer;

    let limiter = limiter_of(
        &ManualClock::default(),
        Limit::per_hour(100_000).burst(100_000),
    );
    let sent = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&sent);
    let rule = rule().settle_by(move |end| {
        counted.store(usize::try_from(end.sent()).unwrap(), Ordering::SeqCst);
        None
    });
    let layer = RateLimitLayer::with_limiter(limiter).rule(rule);
    let text = service_fn(|_: Request<Full<Bytes>>| {
        let response = Response::builder().header(header::CONTENT_TYPE, "text/plain");
        ready(Ok::<_, Infallible>(
            response
                .body(Full::<Bytes>::from("x".repeat(10_000)))
                .unwrap(),
        ))
    });
    let request = || {
        let mut request = from_ip(IP);
        let gzip = HeaderValue::from_static("gzip");
        request.headers_mut().insert(header::ACCEPT_ENCODING, gzip);
        request
    };
    let inside = layer.layer(CompressionLayer::new().layer(text));
    let response = inside.oneshot(request()).await.unwrap();
    let received = response.into_body().collect().await.unwrap().to_bytes();
    assert!(received.len() < 1000, "{}", received.len());
    assert_eq!(sent.load(Ordering::SeqCst), received.len());

    let outside = CompressionLayer::new().layer(layer.layer(text));
    let response = outside.oneshot(request()).await.unwrap();
    let received = response.into_body().collect().await.unwrap().to_bytes();
    assert!(received.len() < 1000, "{}", received.len());
    assert_eq!(sent.load(Ordering::SeqCst), 10_000);
}

/// `docs/waiting.md`: a graceful shutdown answers those in line at their turn.
#[cfg(feature = "axum")]
#[tokio::test]
async fn graceful_shutdown_serves_those_in_line() {
    use axum::{Router, routing::get};
    use http_body_util::Empty;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use tokio::{
        net::{TcpListener, TcpStream},
        sync::oneshot,
    };
    use tollgate::key::Everyone;

    let line = Limit::per_second(4).burst(1).max_wait(HOUR);
    let limits = Limits::builder().limit("line", line).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("line", Everyone));
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, app).with_graceful_shutdown(async {
        stopped.await.unwrap();
    });
    let server = tokio::spawn(server.into_future());
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/").header(header::HOST, "test");
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        waiting.push(tokio::spawn(
            async move { sender.send_request(request).await },
        ));
    }
    // All three are charged: one is answered, and the others are in line.
    let charged = async || bucket(&limiter, "line", "everyone").await.reset_after();
    while charged().await != Some(Duration::from_millis(750)) {
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    for answer in waiting {
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    server.await.unwrap().unwrap();
}
