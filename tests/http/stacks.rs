//! The layer in stacks: around services of all kinds, above and below other layers, in servers of axum and hyper.

use std::{
    convert::Infallible,
    future::{Ready, poll_fn, ready},
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderName, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::ManualClock, key::Everyone,
    layer::ResponseFuture, response::Headers,
};
use tower::{
    Layer, Service, ServiceBuilder, ServiceExt, limit::GlobalConcurrencyLimitLayer, service_fn,
};
use tower_http::cors::CorsLayer;

use crate::{
    serve,
    support::{
        Hello, from_ip, layer, limiter_of,
        patience::{poll, settle},
        send,
        store::Store,
    },
};

const IP: &str = "203.0.113.7";

/// A layer that lets one request of an address pass.
fn one_per_minute() -> RateLimitLayer {
    layer(&limiter_of(&ManualClock::default(), Limit::per_minute(1)))
}

#[tokio::test]
async fn refused_request_does_not_reach_the_service_and_errors_of_it_pass_through() {
    let calls = AtomicUsize::new(0);
    let mut service = one_per_minute().layer(service_fn(|_: Request<Full<Bytes>>| {
        calls.fetch_add(1, Ordering::Relaxed);
        ready(Err::<Response<Empty<Bytes>>, _>("broken"))
    }));
    assert_eq!(service.call(from_ip(IP)).await.unwrap_err(), "broken");
    for _ in 0..2 {
        let refused = service.call(from_ip(IP)).await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn nested_layers_add_to_the_fields_and_each_charges() {
    let limits = Limits::builder()
        .limit("outer", Limit::per_minute(10))
        .limit("inner", Limit::per_minute(20));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let of = |limit: &str| {
        RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new(limit, Everyone))
    };
    let (outer, inner) = (of("outer"), of("inner"));
    let service = outer.layer(inner.layer(outer.layer(Hello)));
    let response = service.oneshot(from_ip(IP)).await.unwrap();
    let fields: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
    let expected = [
        r#""outer";r=8;t=6"#,
        r#""inner";r=19;t=3"#,
        r#""outer";r=9;t=6"#,
    ];
    assert_eq!(fields, expected);
    let policies = response.headers().get_all("ratelimit-policy");
    assert_eq!(policies.iter().count(), 3);
}

/// Fails when it is called without having been polled ready, as a pool or a permit would.
#[derive(Default)]
struct Strict {
    is_ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<B> Service<Request<B>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        assert!(
            std::mem::take(&mut self.is_ready),
            "called before it was ready"
        );
        ready(Ok(Response::new(Full::from("hello"))))
    }
}

/// A layer on a store that answers when its gates are open.
fn on_a_slow_store() -> (RateLimitLayer, Store) {
    let store = Store::gated();
    let limits = Limits::builder().limit("requests", Limit::per_minute(1));
    let limiter = Limiter::new(limits.build().unwrap(), store.clone());
    (layer(&limiter), store)
}

#[tokio::test]
async fn service_that_was_ready_is_the_one_called() {
    let (slow, store) = on_a_slow_store();
    store.gates().open();
    for layer in [slow, one_per_minute()] {
        let mut service = layer.layer(Strict::default());
        poll_fn(|cx| Service::<Request<Full<Bytes>>>::poll_ready(&mut service, cx))
            .await
            .unwrap();
        let response = service.call(from_ip(IP)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
}

/// Whether a service is ready at once.
fn is_ready<S: Service<Request<Full<Bytes>>>>(service: &mut S) -> bool {
    let polled = service.poll_ready(&mut Context::from_waker(Waker::noop()));
    polled.is_ready()
}

/// A layer on memory refuses in its call, and one on a store when that has answered.
#[tokio::test]
async fn refused_request_leaves_its_place_in_the_service_to_others() {
    let (slow, store) = on_a_slow_store();
    store.gates().open();
    for layer in [one_per_minute(), slow] {
        assert_eq!(send(&layer, IP).await.status(), StatusCode::OK);
        let one_at_once = GlobalConcurrencyLimitLayer::new(1);
        let mut limited = layer.layer(one_at_once.layer(Hello));
        let mut other = one_at_once.layer(Hello);
        assert!(is_ready(&mut limited) && !is_ready(&mut other));
        let refused = limited.call(from_ip(IP)).await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(is_ready(&mut other));
    }
}

#[tokio::test]
async fn request_that_is_dropped_while_it_is_decided_does_not_reach_the_service() {
    let (layer, store) = on_a_slow_store();
    let unreachable = service_fn(|_: Request<Full<Bytes>>| {
        ready(Err::<Response<Full<Bytes>>, _>("it is called"))
    });
    let mut sent = Box::pin(layer.layer(unreachable).oneshot(from_ip(IP)));
    assert!(poll(sent.as_mut()).is_pending());
    drop(sent);
    store.gates().open();
    // Its charge stays. Otherwise, requests could be free.
    settle().await;
    assert_eq!(
        send(&layer, IP).await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
}

#[test]
fn future_of_a_plain_layer_is_small() {
    type Inner = <Hello as Service<Request<Full<Bytes>>>>::Future;
    let ours = size_of::<ResponseFuture<Hello, Full<Bytes>>>();
    let beside = ours - size_of::<Inner>();
    assert!(beside <= 200, "{beside} bytes");
}

/// Sends requests for these paths one after the other over one connection.
async fn fetch(address: SocketAddr, paths: &[&str]) -> Vec<Response<Bytes>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut responses = Vec::new();
    for path in paths {
        let request = Request::get(*path)
            .header(header::HOST, "localhost")
            .header(header::ACCEPT_ENCODING, "gzip")
            .body(Empty::<Bytes>::new());
        sender.ready().await.unwrap();
        let response = sender.send_request(request.unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        responses.push(Response::from_parts(parts, body));
    }
    responses
}

async fn statuses(address: SocketAddr, paths: &[&str]) -> Vec<u16> {
    let responses = fetch(address, paths).await;
    responses
        .iter()
        .map(|response| response.status().as_u16())
        .collect()
}

#[tokio::test]
async fn layer_covers_the_fallback_and_route_layer_does_not() {
    use axum::{Router, routing::get};

    let app = || Router::new().route("/", get(|| async { "hello" }));
    let paths = ["/nowhere", "/nowhere", "/", "/"];
    let covered = serve(app().layer(one_per_minute())).await;
    assert_eq!(statuses(covered, &paths).await, [404, 429, 429, 429]);
    let routes = serve(app().route_layer(one_per_minute())).await;
    assert_eq!(statuses(routes, &paths).await, [404, 404, 200, 429]);
}

/// Returns the request of a page: a preflight, if the method is `OPTIONS`.
fn asked_by_a_page(method: Method) -> Request<Full<Bytes>> {
    let mut request = from_ip(IP);
    *request.method_mut() = method;
    let headers = request.headers_mut();
    headers.insert(header::ORIGIN, "https://page.example".parse().unwrap());
    let put = "PUT".parse().unwrap();
    headers.insert(header::ACCESS_CONTROL_REQUEST_METHOD, put);
    request
}

#[tokio::test]
async fn cors_layer_outside_answers_preflights_and_exposes_all_fields_of_refusals() {
    for (dialect, fields) in [
        (Headers::Draft11, 3),
        (Headers::XRateLimitEpoch, 4),
        (Headers::None, 1),
    ] {
        let stack = ServiceBuilder::new()
            .layer(CorsLayer::permissive().expose_headers(dialect.exposed()))
            .layer(one_per_minute().headers(dialect))
            .service(Hello);
        let send = |method| stack.clone().oneshot(asked_by_a_page(method));
        for status in [200, 429] {
            let preflight = send(Method::OPTIONS).await.unwrap();
            assert_eq!(preflight.headers()["access-control-allow-methods"], "*");
            assert_eq!(send(Method::PUT).await.unwrap().status(), status);
        }
        let refused = send(Method::PUT).await.unwrap();
        let exposed = refused.headers()["access-control-expose-headers"]
            .to_str()
            .unwrap();
        let exposed: Vec<_> = exposed.split(',').map(str::trim).collect();
        let names = refused.headers().keys().map(HeaderName::as_str);
        let ours = names.filter(|name| name.contains("ratelimit") || *name == "retry-after");
        assert_eq!(ours.filter(|name| exposed.contains(name)).count(), fields);
    }
}
