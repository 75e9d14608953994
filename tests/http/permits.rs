//! The layer holds a request's permits until its response has ended, however that happens.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    convert::Infallible,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody, combinators::BoxBody};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::Backend,
    clock::TokioClock,
    key::Everyone,
    layer::{Assessment, RequestPermits},
};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{
    bucket,
    patience::{Slow, poll, settle},
};

type Body = BoxBody<Bytes, std::io::Error>;

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("exports", Limit::concurrent(1))
        .limit("requests", Limit::per_second(1000));
    Limiter::new(limits.build().unwrap(), backend)
}

fn limiters() -> [Limiter; 2] {
    let slow = Slow::default();
    slow.gates.open();
    [limiter(MemoryBackend::new()), limiter(slow)]
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("requests", Everyone))
        .rule(Rule::new("exports", Everyone))
}

async fn left(limiter: &Limiter) -> u32 {
    settle().await;
    let bucket = bucket(limiter, "exports", "everyone").await;
    bucket.remaining().unwrap()
}

fn request() -> Request<Empty<Bytes>> {
    Request::new(Empty::new())
}

/// A body of three frames. The last one may be an error.
fn streamed(fails: bool) -> Body {
    let frame = |text: &'static str| Ok(Frame::data(Bytes::from_static(text.as_bytes())));
    let last = match fails {
        true => Err(std::io::Error::other("broken")),
        false => frame("c"),
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
            let mut body = service
                .clone()
                .oneshot(request())
                .await
                .unwrap()
                .into_body();
            for _ in 0..2 {
                assert!(body.frame().await.unwrap().is_ok());
                assert_eq!(left(&limiter).await, 0);
                let refused = service.clone().oneshot(request()).await.unwrap();
                assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
                assert_eq!(refused.headers()["retry-after"], "1");
                let policy = refused.headers()["ratelimit-policy"].to_str().unwrap();
                assert!(policy.contains("\"exports\";q=1"), "{policy}");
                let state = refused.headers()["ratelimit"].to_str().unwrap();
                assert_eq!(state, "\"exports\";r=0");
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
            Ok::<_, Infallible>(Response::new(match request.method() {
                &Method::POST => full(""),
                _ => streamed(false),
            }))
        });
        let service = layer(&limiter).layer(handler);
        let mut post = request();
        *post.method_mut() = Method::POST;
        let response = service.clone().oneshot(post).await.unwrap();
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
        let mut post = request();
        *post.method_mut() = Method::POST;
        let panicking = AssertUnwindSafe(service.oneshot(post)).catch_unwind();
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
    for polls in 0..40 {
        let slow = Slow::default();
        let gates = Arc::clone(&slow.gates);
        let limiter = limiter(slow);
        let service = layer(&limiter).layer(handler);
        {
            let mut response = pin!(service.oneshot(request()));
            let mut context = Context::from_waker(Waker::noop());
            for nth in 0..polls {
                match nth {
                    5 => gates.decide.add_permits(1),
                    10 => gates.answer.add_permits(1),
                    _ => {}
                }
                tokio::task::yield_now().await;
                if let Poll::Ready(response) = response.as_mut().poll(&mut context) {
                    drop(response);
                    break;
                }
            }
        }
        gates.open();
        assert_eq!(left(&limiter).await, 1, "{polls} polls");
    }
}

#[tokio::test]
async fn work_that_outlasts_its_response_holds_the_permits() {
    for limiter in limiters() {
        let taken: Arc<Mutex<Option<RequestPermits>>> = Arc::default();
        let theirs = Arc::clone(&taken);
        let handler = service_fn(move |request: Request<Empty<Bytes>>| {
            let assessment = request.extensions().get::<Assessment>().unwrap();
            *theirs.lock().unwrap() = assessment.permits();
            let mut response = Response::new(full(""));
            *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            async { Ok::<_, Infallible>(response) }
        });
        let service = layer(&limiter).extensions(true).layer(handler);
        drop(service.oneshot(request()).await.unwrap());
        assert_eq!(left(&limiter).await, 0);
        let permits = taken.lock().unwrap().take();
        assert!(permits.is_some());
        drop(permits);
        assert_eq!(left(&limiter).await, 1);
    }
}

#[tokio::test]
async fn handler_that_refunds_gives_permits_back_once() {
    for limiter in limiters() {
        let handler = service_fn(async |request: Request<Empty<Bytes>>| {
            let assessment = request.extensions().get::<Assessment>().unwrap();
            assessment.refund().await.unwrap();
            Ok::<_, Infallible>(Response::new(streamed(false)))
        });
        let service = layer(&limiter).extensions(true).layer(handler);
        let response = service.oneshot(request()).await.unwrap();
        assert_eq!(left(&limiter).await, 0, "the work goes on");
        drop(response);
        assert_eq!(left(&limiter).await, 1);
    }
}

#[tokio::test]
async fn wait_for_permits_is_a_setting_and_a_known_longer_wait_counts() {
    let limits = Limits::builder()
        .limit("exports", Limit::concurrent(1))
        .limit("rare", Limit::window(1, Duration::from_secs(100)));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let handler = service_fn(async |_: Request<Empty<Bytes>>| {
        Ok::<_, Infallible>(Response::new(streamed(false)))
    });
    let base = RateLimitLayer::with_limiter(limiter.clone())
        .retry_permits_after(Duration::from_secs(7))
        .rule(Rule::new("exports", Everyone));
    let service = base.clone().layer(handler);
    let held = service.clone().oneshot(request()).await.unwrap();
    let refused = service.oneshot(request()).await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "7");
    let rare = Transaction::new("rare", "everyone");
    assert!(limiter.spend(&rare).await.unwrap().allowed());
    let both = base.rule(Rule::new("rare", Everyone)).layer(handler);
    let refused = both.oneshot(request()).await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "100");
    drop(held);
}

#[tokio::test]
async fn rules_that_correct_charges_do_not_fit_permits() {
    let limiter = limiter(MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter);
    let settles = Rule::new("exports", Everyone).settle_by(|_| Some(0));
    assert!(layer.try_rule(settles).is_err());
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_permits_in_memory() {
    let one = Limit::concurrent(1).max_wait(Duration::from_secs(5));
    let limits = Limits::builder().limit("exports", one);
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(TokioClock::default());
    let handler = service_fn(async |_: Request<Empty<Bytes>>| {
        Ok::<_, Infallible>(Response::new(streamed(false)))
    });
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("exports", Everyone));
    let service = layer.layer(handler);
    let first = service.clone().oneshot(request()).await.unwrap();
    let began = tokio::time::Instant::now();
    let refused = service.clone().oneshot(request()).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    let mut waits = Box::pin(service.clone().oneshot(request()));
    assert!(poll(waits.as_mut()).is_pending());
    let mut leaves = Box::pin(service.clone().oneshot(request()));
    assert!(poll(leaves.as_mut()).is_pending());
    let mut last = Box::pin(service.oneshot(request()));
    assert!(poll(last.as_mut()).is_pending());
    drop((first, leaves));
    let second = waits.await.unwrap();
    assert_eq!(second.status(), StatusCode::OK);
    assert!(poll(last.as_mut()).is_pending());
    drop(second);
    assert_eq!(last.await.unwrap().status(), StatusCode::OK);
    assert_eq!(left(&limiter).await, 1);
}
