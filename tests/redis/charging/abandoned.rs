//! Requests that do not end as they should: each is closed once, and nothing stays charged that should not.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::{Backend, redis::KeyForm},
    clock::ManualClock,
    key::Everyone,
    rule::RequestEnd,
};
use tower::{Layer, ServiceExt, service_fn};

use super::{
    on_each_backend,
    stack::{Stack, comes_to_be, redis_at, remaining},
};
use crate::redis_support::Server;

on_each_backend!(
    client_that_goes_away_is_given_back,
    panic_of_the_handler_is_given_back,
    body_that_is_dropped_ends_where_it_is,
    nobody_is_asked_twice,
    handler_that_was_abandoned_is_charged_what_it_has_used,
);

/// What a closure was told of one ending: the status, whether it was abandoned, and how much was sent.
type Told = (Option<u16>, bool, u64, bool);

/// A closure that tells what it is told, and how to hear it.
fn told() -> (
    impl Fn(&RequestEnd<'_>) + Send + Sync + 'static,
    UnboundedReceiver<Told>,
) {
    let (tell, hear): (UnboundedSender<Told>, _) = unbounded_channel();
    let tell = move |ending: &RequestEnd<'_>| {
        let status = ending.status().map(|status| status.as_u16());
        let facts = (
            status,
            ending.is_abandoned(),
            ending.sent(),
            ending.is_complete(),
        );
        tell.send(facts).unwrap();
    };
    (tell, hear)
}

async fn client_that_goes_away_is_given_back(backend: impl Backend) {
    let (tell, mut hear) = told();
    let stack = Stack::start(backend, Limit::per_hour(9), move |rule| {
        rule.cost(4).refund_if(move |ending| {
            tell(ending);
            ending.is_abandoned()
        })
    });
    let stack = stack.await;
    let request = tokio::spawn(stack.request("/wait/200"));
    stack.comes_to_hold(5).await;
    request.abort();
    assert_eq!(hear.recv().await, Some((None, true, 0, false)));
    stack.comes_to_hold(9).await;
}

async fn panic_of_the_handler_is_given_back(backend: impl Backend) {
    let (tell, mut hear) = told();
    let stack = Stack::start(backend, Limit::per_hour(9), move |rule| {
        rule.refund_if(move |ending| {
            tell(ending);
            ending.is_abandoned()
        })
    });
    let stack = stack.await;
    stack.request("/panic").await.unwrap_err();
    assert_eq!(hear.recv().await, Some((None, true, 0, false)));
    stack.comes_to_hold(9).await;
    assert_eq!(stack.get("/status/200").await.status(), 200);
}

async fn body_that_is_dropped_ends_where_it_is(backend: impl Backend) {
    let (tell, mut hear) = told();
    let stack = Stack::start(backend, Limit::per_hour(100_000), move |rule| {
        rule.cost(50_000).settle_by(move |ending| {
            tell(ending);
            u32::try_from(ending.sent()).unwrap()
        })
    });
    let stack = stack.await;
    stack.gate.add_permits(3);
    let response = stack.get("/stream/40").await;
    let mut body = response.into_body();
    let mut read = 0;
    while read < 3 * 1024 {
        read += body
            .frame()
            .await
            .unwrap()
            .unwrap()
            .data_ref()
            .unwrap()
            .len();
    }
    assert_eq!(stack.remaining().await, 50_000);
    drop(body);
    assert_eq!(hear.recv().await, Some((Some(200), false, 3 * 1024, false)));
    stack.comes_to_hold(100_000 - 3 * 1024).await;
}

async fn nobody_is_asked_twice(backend: impl Backend) {
    let asked = Arc::new(AtomicUsize::new(0));
    let ask = Arc::clone(&asked);
    let stack = Stack::start(backend, Limit::per_hour(1000), move |rule| {
        rule.settle_by(move |_| {
            ask.fetch_add(1, Ordering::Relaxed);
            1
        })
    });
    let stack = stack.await;
    stack.gate.add_permits(1000);
    for path in [
        "/status/204",
        "/status/404",
        "/bytes/0",
        "/bytes/9",
        "/stream/3",
        "/wait/200",
    ] {
        stack.at_once([path.into()]).await;
    }
    stack.comes_to_hold(994).await;
    assert_eq!(asked.load(Ordering::Relaxed), 6);
}

/// How much a handler has used, among the extensions of the request.
#[derive(Clone, Default)]
struct Used(Arc<AtomicU32>);

async fn handler_that_was_abandoned_is_charged_what_it_has_used(backend: impl Backend) {
    let limiter = limiter(backend);
    let rule = || Rule::new("l", Everyone).cost(4);
    let by_use = rule().settle_by(|ending| {
        let Used(used) = ending.request_extensions().get()?;
        Some(used.load(Ordering::Relaxed))
    });
    let by_bytes = rule().settle_by(|ending| {
        ending.response()?;
        u32::try_from(ending.sent()).ok()
    });
    let (tell, mut hear) = unbounded_channel();
    let works = service_fn(move |request: Request<Full<Bytes>>| {
        let tell = tell.clone();
        async move {
            let Used(used) = request.extensions().get().cloned().unwrap();
            used.store(1, Ordering::Relaxed);
            tell.send(()).unwrap();
            std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>().await
        }
    });
    // The second one keeps its reservation.
    for (rule, expected) in [(by_use, 4), (by_bytes, 0)] {
        let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
        let request = Request::builder().extension(Used::default());
        let request = request.body(Full::default()).unwrap();
        let request = tokio::spawn(layer.layer(works.clone()).oneshot(request));
        hear.recv().await.unwrap();
        request.abort();
        request.await.unwrap_err();
        comes_to_be(expected, || remaining(&limiter, "l")).await;
    }
}

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder().limit("l", Limit::per_hour(5)).build();
    Limiter::new(limits.unwrap(), backend).with_clock(ManualClock::default())
}

#[tokio::test]
async fn error_of_the_service_is_told_and_passes_through() {
    let limiter = limiter(MemoryBackend::new());
    let rule = Rule::new("l", Everyone).refund_if(|ending| ending.failed());
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let service = layer.layer(service_fn(|request: Request<()>| async move {
        match request.uri().path() {
            "/" => Ok(Response::new(Full::<Bytes>::default())),
            _ => Err("the service fails"),
        }
    }));
    let request = |path| Request::get(path).body(()).unwrap();
    let error = service.clone().oneshot(request("/x")).await.unwrap_err();
    assert_eq!(error, "the service fails");
    assert_eq!(remaining(&limiter, "l").await, 5);
    service.oneshot(request("/")).await.unwrap();
    assert_eq!(remaining(&limiter, "l").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_that_goes_away_while_redis_decides_is_given_back() {
    let (tell, mut hear) = told();
    let server = Server::start();
    let limiter = limiter(redis_at(&server, KeyForm::default()).await);
    assert_eq!(remaining(&limiter, "l").await, 5);
    let rule = Rule::new("l", Everyone).cost(3).refund_if(move |ending| {
        tell(ending);
        ending.is_abandoned()
    });
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let service = layer.layer(service_fn(|_: Request<()>| async move {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    server.pause();
    let mut request = Box::pin(service.oneshot(Request::new(())));
    assert!(futures_util::poll!(&mut request).is_pending());
    drop(request);
    server.resume();
    assert_eq!(hear.recv().await, Some((None, true, 0, false)));
    comes_to_be(5, || remaining(&limiter, "l")).await;
    // It has been charged in between.
    assert!(server.info("cmdstat_set").starts_with("calls="));
}
