//! Where charging and correcting could go wrong.

use std::{convert::Infallible, time::Duration};

use axum::{Router, body::Body, routing::get};
use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc::unbounded_channel,
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::FailurePolicy, clock::ManualClock, decision::Source, key::Everyone, layer::Assessment,
    rule::RequestEnd, tiers::Tier, transaction::Mode,
};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::stack::remaining;
use crate::support::store::{Fate, Store};

fn limits(limit: Limit) -> Limits {
    let limits = Limits::builder().limit("l", limit);
    limits.limit("other", Limit::per_hour(10)).build().unwrap()
}

fn limiter(limit: Limit) -> Limiter {
    let limiter = Limiter::new(limits(limit), MemoryBackend::new());
    limiter.with_clock(ManualClock::default())
}

async fn hello(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::default())
}

async fn status(limiter: &Limiter, rules: impl IntoIterator<Item = Rule>) -> StatusCode {
    let layer = RateLimitLayer::with_limiter(limiter.clone());
    let layer = rules.into_iter().fold(layer, RateLimitLayer::rule);
    let service = layer.layer(service_fn(hello));
    service.oneshot(Request::default()).await.unwrap().status()
}

/// Sends a request to this handler.
async fn serve<S>(layer: &RateLimitLayer, handler: S)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone,
{
    let service = layer.clone().extensions(true).layer(handler);
    service.oneshot(Request::default()).await.unwrap();
}

fn rule() -> Rule {
    Rule::new("l", Everyone)
}

#[tokio::test]
async fn debit_above_the_burst_is_given_back() {
    let limiter = limiter(Limit::per_hour(10));
    let rule = rule().cost(20).mode(Mode::Debit).refund_if(|_| true);
    assert_eq!(status(&limiter, [rule]).await, 200);
    assert_eq!(remaining(&limiter, "l").await, 10);
}

#[tokio::test]
async fn debit_that_is_charged_later_refuses_nobody_and_goes_into_debt() {
    let limiter = limiter(Limit::per_hour(10));
    let rule = || rule().cost(20).mode(Mode::Debit).charge_if(|_| true);
    for hours in [1, 3, 5] {
        assert_eq!(status(&limiter, [rule()]).await, 200);
        let look = Transaction::new("l", "everyone").cost(0);
        let wait = limiter.check(&look).await.unwrap().retry_after();
        assert_eq!(wait, Duration::from_secs(3600 * hours));
    }
}

#[tokio::test]
async fn what_a_handler_settled_into_debt_is_given_back() {
    let limiter = limiter(Limit::per_hour(10));
    let handler = service_fn(|request: Request<Body>| async move {
        let assessment = request.extensions().get::<Assessment>().unwrap();
        let assessed = assessment.of("l").unwrap();
        for cost in [30, 200, 3, 0] {
            assessed.settle(cost).await.unwrap();
            assert_eq!(assessed.charged(), cost);
        }
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule());
    serve(&layer, handler).await;
    assert_eq!(remaining(&limiter, "l").await, 10);
}

#[tokio::test]
async fn burst_that_is_lowered_meanwhile_keeps_refunds() {
    let limiter = limiter(Limit::per_hour(10).burst(100));
    let rule = rule().cost_by(|_| 60).refund_if(|_| true);
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let reloading = &limiter;
    let handler = service_fn(|_: Request<Body>| async move {
        let lower = limits(Limit::per_hour(10).burst(50));
        reloading.reload(lower).unwrap();
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    serve(&layer, handler).await;
    assert_eq!(remaining(&limiter, "l").await, 50);
}

#[tokio::test]
async fn tiers_that_give_nothing_back_are_not_charged_twice() {
    let tier = Tier::new(100, Duration::from_secs(3600));
    let limiter = limiter(Limit::tiers([tier]).unwrap());
    let handler = service_fn(|request: Request<Body>| async move {
        let assessment = request.extensions().get::<Assessment>().unwrap();
        let assessed = assessment.of("l").unwrap();
        assessed.settle(4).await.unwrap_err();
        assert_eq!(assessed.charged(), 10);
        assessed.settle(10).await.unwrap();
        assessed.settle(12).await.unwrap();
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule().cost(10));
    serve(&layer, handler).await;
    let one_more = limiter.check(&Transaction::new("l", "everyone")).await;
    assert_eq!(one_more.unwrap().remaining(), Some(100 - 12 - 1));
}

#[tokio::test]
async fn panic_of_one_rules_closure_keeps_no_other_from_its_refund() {
    let limiter = limiter(Limit::per_hour(10));
    let panics = rule().refund_if(|ending| panic!("{:?}", ending.status()));
    let refunds = Rule::new("other", Everyone).refund_if(|_| true);
    let of = limiter.clone();
    let request = tokio::spawn(async move { status(&of, [panics, refunds]).await });
    assert!(request.await.unwrap_err().is_panic());
    assert_eq!(remaining(&limiter, "other").await, 10);
    assert_eq!(remaining(&limiter, "l").await, 9);
}

#[tokio::test]
async fn panic_on_an_abandoned_request_keeps_no_other_from_its_refund() {
    let limiter = limiter(Limit::per_hour(10));
    let panics = rule().refund_if(|ending| panic!("{:?}", ending.status()));
    let refunds = Rule::new("other", Everyone).refund_if(|_| true);
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(panics)
        .rule(refunds);
    let service = layer.layer(service_fn(|_: Request<Body>| async move {
        std::future::pending::<Result<Response<Body>, Infallible>>().await
    }));
    let mut request = Box::pin(service.oneshot(Request::default()));
    assert!(futures_util::poll!(&mut request).is_pending());
    assert_eq!(remaining(&limiter, "other").await, 9);
    drop(request);
    assert_eq!(remaining(&limiter, "other").await, 10);
    assert_eq!(remaining(&limiter, "l").await, 9);
}

#[tokio::test]
async fn refusal_of_an_inner_layer_is_none_the_less_for_being_told_by_grpc() {
    let limiter = limiter(Limit::per_hour(10));
    let gives_back =
        |ending: &RequestEnd<'_>| ending.status().is_some_and(|status| status.is_success());
    let outer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule().refund_if(gives_back));
    let inner = RateLimitLayer::with_limiter(limiter.clone())
        .deny_if("all", |_: &http::request::Parts| true);
    let service = outer.layer(inner.layer(service_fn(hello)));
    for (content_type, status) in [("application/json", 403), ("application/grpc", 200)] {
        let request = Request::post("/").version(Version::HTTP_2);
        let request = request.header("te", "trailers");
        let request = request.header("content-type", content_type);
        let request = request.body(Body::empty()).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status);
    }
    assert_eq!(remaining(&limiter, "l").await, 8);
}

#[tokio::test]
async fn body_with_a_length_and_no_body_are_complete_over_http_1() {
    let (tell, mut hear) = unbounded_channel();
    let rule = rule().settle_by(move |ending| {
        tell.send((ending.sent(), ending.is_complete())).unwrap();
        None
    });
    let layer = RateLimitLayer::with_limiter(limiter(Limit::per_hour(10))).rule(rule);
    let body = || {
        let frames = ["hello", "world"].map(|text| Ok::<_, Infallible>(Bytes::from(text)));
        Body::from_stream(futures_util::stream::iter(frames))
    };
    let handler = |status| get(async move || (status, [("content-length", "10")], body()));
    let app = Router::new()
        .route("/", handler(StatusCode::OK))
        .route("/unchanged", handler(StatusCode::NOT_MODIFIED))
        .route("/nothing", get(async || StatusCode::NO_CONTENT))
        .layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap())
        .await
        .unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    for (target, sent) in [
        ("GET /", 10),
        ("HEAD /", 0),
        ("GET /unchanged", 0),
        ("GET /nothing", 0),
    ] {
        let request = format!("{target} HTTP/1.1\r\nhost: a\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(hear.recv().await, Some((sent, true)), "{target}");
    }
    client.shutdown().await.unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    assert!(answers.contains("helloworld"), "{answers}");
}

#[tokio::test]
async fn what_was_decided_locally_is_not_given_back_to_the_store() {
    let store = Store::default();
    let limit = || limits(Limit::per_hour(10));
    let direct = Limiter::new(limit(), store.clone());
    let ours = Limiter::new(limit(), FailurePolicy::new(store.clone()));
    let five = Transaction::new("l", "everyone").cost(5);
    direct.spend(&five).await.unwrap();
    let layer = RateLimitLayer::with_limiter(ours).rule(rule().cost(3).refund_if(|_| true));
    let store = &store;
    store.becomes(Fate::Away);
    let handler = service_fn(|request: Request<Body>| async move {
        let assessment = request.extensions().get::<Assessment>().unwrap();
        let decision = &assessment.of("l").unwrap().decision;
        assert_eq!(decision.source(), Source::Local);
        store.becomes(Fate::Works);
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    serve(&layer, handler).await;
    assert_eq!(remaining(&direct, "l").await, 5);
}

#[tokio::test]
async fn charge_of_unknown_outcome_is_not_given_back_from_what_is_charged() {
    let store = Store::default();
    let limiter = Limiter::new(limits(Limit::per_hour(10)), store.clone());
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule().cost(5));
    let store = &store;
    let handler = service_fn(|request: Request<Body>| async move {
        let assessed = request.extensions().get::<Assessment>().unwrap();
        let assessed = assessed.of("l").unwrap();
        store.becomes(Fate::Away);
        assert!(assessed.settle(9).await.is_err());
        store.becomes(Fate::Works);
        assert_eq!(assessed.charged(), 9);
        assessed.settle(4).await.unwrap();
        assert_eq!(assessed.charged(), 4);
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    serve(&layer, handler).await;
    assert_eq!(remaining(&limiter, "l").await, 6);
}
