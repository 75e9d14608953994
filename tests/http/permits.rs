//! A layer holds a request's permits until its response has ended, in any way.

use std::{
    convert::Infallible, panic::AssertUnwindSafe, pin::pin, sync::Mutex, task::Poll, time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody, combinators::BoxBody};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, backend::Backend,
    clock::TokioClock, key::Everyone, layer::Assessment, limiter::Permit,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{
    eventually::eventually_async,
    serve,
    support::{
        Log, bucket,
        patience::{poll, settle},
        store::Store,
    },
};

type Body = BoxBody<Bytes, std::io::Error>;

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("exports", Limit::concurrent(1))
        .limit("others", Limit::concurrent(1))
        .limit("requests", Limit::per_second(1000));
    Limiter::new(limits.build().unwrap(), backend)
}

/// In memory, and in a store that has to be waited for.
fn limiters() -> [Limiter; 2] {
    [limiter(MemoryBackend::new()), limiter(Store::default())]
}

fn of(limiter: &Limiter, limit: &str) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new(limit, Everyone))
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    of(limiter, "requests").rule(Rule::new("exports", Everyone))
}

async fn left_of(limiter: &Limiter, limit: &str) -> u32 {
    settle().await;
    let bucket = bucket(limiter, limit, "everyone").await;
    bucket.remaining().unwrap()
}

async fn left(limiter: &Limiter) -> u32 {
    left_of(limiter, "exports").await
}

fn request() -> Request<Empty<Bytes>> {
    Request::new(Empty::new())
}

fn post() -> Request<Empty<Bytes>> {
    let mut request = request();
    *request.method_mut() = Method::POST;
    request
}

/// A body of three frames. The last one may be an error.
fn streamed(fails: bool) -> Body {
    let frame = |text: &'static str| Ok(Frame::data(Bytes::from_static(text.as_bytes())));
    let last = if fails {
        Err(std::io::Error::other("broken"))
    } else {
        frame("c")
    };
    BodyExt::boxed(StreamBody::new(stream::iter([
        frame("a"),
        frame("b"),
        last,
    ])))
}

fn full(text: &'static str) -> Body {
    Full::from(text).map_err(|never| match never {}).boxed()
}

#[tokio::test]
async fn permits_are_held_until_the_body_has_ended() {
    for limiter in limiters() {
        for fails in [false, true] {
            let handler = service_fn(move |_: Request<Empty<Bytes>>| async move {
                Ok::<_, Infallible>(Response::new(streamed(fails)))
            });
            let service = layer(&limiter).layer(handler);
            let first = service.clone().oneshot(request()).await;
            let mut body = first.unwrap().into_body();
            for _ in 0..2 {
                assert!(body.frame().await.unwrap().is_ok());
                assert_eq!(left(&limiter).await, 0);
                let refused = service.clone().oneshot(request()).await.unwrap();
                assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
                assert_eq!(refused.headers()["retry-after"], "1");
                assert_eq!(refused.headers()["ratelimit"], "\"exports\";r=0");
            }
            assert_eq!(body.frame().await.unwrap().is_err(), fails);
            if !fails {
                assert!(body.frame().await.is_none());
            }
            assert_eq!(left(&limiter).await, 1);
        }
    }
}

#[tokio::test]
async fn permits_are_given_back_when_a_body_is_dropped_or_empty() {
    for limiter in limiters() {
        let handler = service_fn(async |request: Request<Empty<Bytes>>| {
            let is_empty = request.method() == Method::POST;
            let body = if is_empty { full("") } else { streamed(false) };
            Ok::<_, Infallible>(Response::new(body))
        });
        let service = layer(&limiter).layer(handler);
        let response = service.clone().oneshot(post()).await.unwrap();
        assert_eq!(left(&limiter).await, 1, "there is no body to wait for");
        drop(response);
        let mut response = service.oneshot(request()).await.unwrap();
        response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(left(&limiter).await, 0);
        drop(response);
        assert_eq!(left(&limiter).await, 1);
    }
}

#[tokio::test]
async fn permits_are_given_back_when_the_service_fails_or_panics() {
    for limiter in limiters() {
        let handler = service_fn(async |request: Request<Empty<Bytes>>| {
            assert!(request.method() == Method::GET, "a planted panic");
            Err::<Response<Body>, _>("failed")
        });
        let mut service = layer(&limiter).layer(handler);
        let failing = service.ready().await.unwrap().call(request());
        assert_eq!(failing.await.unwrap_err(), "failed");
        assert_eq!(left(&limiter).await, 1);
        let panicking = AssertUnwindSafe(service.oneshot(post())).catch_unwind();
        assert!(panicking.await.is_err());
        assert_eq!(left(&limiter).await, 1);
    }
}

#[tokio::test]
async fn permits_of_clients_that_disconnect_are_given_back_at_any_await() {
    let handler = service_fn(async |_: Request<Empty<Bytes>>| {
        tokio::task::yield_now().await;
        Ok::<_, Infallible>(Response::new(streamed(false)))
    });
    let mut answered = 0;
    for polls in 0..40 {
        let store = Store::gated();
        let limiter = limiter(store.clone());
        {
            let mut response = pin!(layer(&limiter).layer(handler).oneshot(request()));
            for nth in 0..polls {
                match nth {
                    5 => store.gates().decide.add_permits(1),
                    10 => store.gates().answer.add_permits(1),
                    _ => {}
                }
                tokio::task::yield_now().await;
                if let Poll::Ready(response) = poll(response.as_mut()) {
                    drop(response);
                    answered += 1;
                    break;
                }
            }
        }
        store.gates().open();
        assert_eq!(left(&limiter).await, 1, "{polls} polls");
    }
    assert!((1..39).contains(&answered), "{answered}");
}

#[tokio::test]
async fn close_waits_for_permits_of_clients_that_left_before_the_store_decided() {
    let store = Store::gated();
    let limiter_of_store = limiter(store.clone());
    let service = layer(&limiter_of_store).layer(service_fn(|_: Request<Empty<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(full("")))
    }));
    let mut asked = Box::pin(service.oneshot(request()));
    assert!(poll(asked.as_mut()).is_pending());
    drop(asked);
    let mut closed = pin!(limiter_of_store.close());
    assert!(poll(closed.as_mut()).is_pending());
    store.gates().open();
    closed.await.unwrap();
    let stored = limiter(store.memory()).with_clock(TokioClock::default());
    let bucket = bucket(&stored, "exports", "everyone").await;
    assert_eq!(bucket.remaining(), Some(1));
}

/// Upgrades a connection, and keeps the permits of all layers around it.
async fn upgraded(kept: &Mutex<Option<Permit>>, layers: &[RateLimitLayer]) {
    let handler = service_fn(|request: Request<Empty<Bytes>>| {
        let assessment = request.extensions().get::<Assessment>();
        *kept.lock().unwrap() = assessment.and_then(Assessment::permits);
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        async { Ok::<_, Infallible>(response) }
    });
    match layers {
        [one] => drop(one.layer(handler).oneshot(request()).await.unwrap()),
        [outer, inner] => {
            let service = outer.layer(inner.layer(handler));
            drop(service.oneshot(request()).await.unwrap());
        }
        _ => unreachable!("one or two"),
    }
    settle().await;
}

#[tokio::test]
async fn work_that_outlasts_its_response_holds_the_permits_of_all_layers_around_it() {
    let (log, _guard) = Log::capture();
    for limiter in limiters() {
        let permits = || of(&limiter, "exports").extensions(true);
        let others = || of(&limiter, "others").extensions(true);
        let plain = || of(&limiter, "requests").extensions(true);
        for (layers, held) in [
            (vec![permits()], [0, 1]),
            (vec![permits(), others()], [0, 0]),
            (vec![permits(), plain()], [0, 1]),
            (vec![plain(), permits()], [0, 1]),
        ] {
            let kept = Mutex::new(None);
            upgraded(&kept, &layers).await;
            let now = [left(&limiter).await, left_of(&limiter, "others").await];
            assert_eq!(now, held);
            assert!(kept.lock().unwrap().take().is_some());
            assert_eq!(left(&limiter).await, 1);
            assert_eq!(left_of(&limiter, "others").await, 1);
        }
    }
    assert_eq!(log.count("upgrade-not-counted"), 0, "{log:?}");
}

#[tokio::test]
async fn connection_that_is_upgraded_without_its_permits_is_logged() {
    let (log, _guard) = Log::capture();
    let limiter = limiter(MemoryBackend::new());
    for _ in 0..2 {
        upgraded(&Mutex::default(), &[of(&limiter, "exports")]).await;
        assert_eq!(left(&limiter).await, 1);
    }
    assert_eq!(
        log.count("upgrade-not-counted"),
        2,
        "once for each layer: {log:?}"
    );
}

#[tokio::test]
async fn refund_and_settlement_leave_permits_alone() {
    let limiter = limiter(MemoryBackend::new());
    let handler = service_fn(async |request: Request<Empty<Bytes>>| {
        let assessment = request.extensions().get::<Assessment>().unwrap();
        assessment.refund().await.unwrap();
        let exports = assessment.of("exports").unwrap();
        assert!(
            exports
                .settle(0)
                .await
                .unwrap_err()
                .to_string()
                .contains("settle")
        );
        Ok::<_, Infallible>(Response::new(streamed(false)))
    });
    let service = layer(&limiter).extensions(true).layer(handler);
    let response = service.oneshot(request()).await.unwrap();
    assert_eq!(left(&limiter).await, 0, "the work goes on");
    drop(response);
    assert_eq!(left(&limiter).await, 1);
    for rule in [
        Rule::new("exports", Everyone).settle_by(|_| Some(0)),
        Rule::new("exports", Everyone).charge_if(|_| true),
    ] {
        let layer = RateLimitLayer::with_limiter(limiter.clone());
        assert!(layer.try_rule(rule).is_err());
    }
}

/// Waits until a server has noticed that its client is gone.
async fn is_given_back(limiter: &Limiter) {
    eventually_async("the permit comes back", async || left(limiter).await > 0).await;
}

#[tokio::test]
async fn client_that_reads_to_the_end_is_never_refused_for_its_own_last_permit() {
    use axum::{Router, body::Body, routing::get};

    let chunks = || stream::iter(["a", "b", "c"].map(Ok::<_, Infallible>));
    let app = Router::new()
        .route("/text", get(async || "a text with a known length"))
        .route("/empty", get(async || ""))
        .route("/chunks", get(async move || Body::from_stream(chunks())));
    for limiter in limiters() {
        let address = serve(app.clone().layer(layer(&limiter))).await;
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        for _ in 0..100 {
            for path in ["/text", "/empty", "/chunks"] {
                let mut request = request();
                *request.uri_mut() = path.parse().unwrap();
                request
                    .headers_mut()
                    .insert("host", "localhost".parse().unwrap());
                sender.ready().await.unwrap();
                let response = sender.send_request(request).await.unwrap();
                assert_eq!(response.status(), 200, "{path}");
                response.into_body().collect().await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn streams_and_upgraded_connections_hold_permits_until_they_end() {
    use axum::{Extension, Router, body::Body, extract::ws::WebSocketUpgrade, routing::get};

    const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
        sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let endless = async || {
        let events = stream::repeat("token").then(async |token| {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok::<_, Infallible>(token)
        });
        Body::from_stream(events)
    };
    let chat = async |Extension(assessment): Extension<Assessment>, upgrade: WebSocketUpgrade| {
        let permits = assessment.permits();
        upgrade.on_upgrade(async move |mut socket| {
            while let Some(Ok(_)) = socket.recv().await {}
            drop(permits);
        })
    };
    let limiter = limiter(MemoryBackend::new());
    let app = Router::new()
        .route("/endless", get(endless))
        .route("/chat", get(chat));
    let address = serve(app.layer(layer(&limiter).extensions(true))).await;
    // Sends a request, and reads until the answer has this text.
    let send = async |path: &str, headers: &str, until: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains(until) {
            assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "{read:?}");
        }
        stream
    };
    for (path, headers, answer) in [
        ("/endless", "", "token"),
        ("/chat", UPGRADE, "101 Switching Protocols"),
    ] {
        let client = send(path, headers, answer).await;
        assert_eq!(left(&limiter).await, 0);
        send(path, headers, "429 Too Many Requests").await;
        drop(client);
        is_given_back(&limiter).await;
    }
}
