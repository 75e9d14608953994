use std::{
    future::{Ready, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use reqwest::{Body, Client};
use tollgate::{
    Limit, RateLimitLayer, key::Host, layer::ResponseBody, pace::PaceLayer, response::Headers,
};
use tower::{
    BoxError, ServiceBuilder, ServiceExt, retry::Policy, service_fn, util::BoxCloneSyncService,
};

type Api = BoxCloneSyncService<Request<Bytes>, Response<ResponseBody<Body>>, BoxError>;

/// The documented rate: at most 100 in any second to each host, 10 ms apart. Further requests wait.
fn documented() -> Limit {
    Limit::per_second(100)
        .burst(1)
        .max_wait(Duration::from_secs(60))
}

fn api(client: Client) -> Api {
    // reqwest as a service over `http`.
    let client = service_fn(move |request: Request<Bytes>| {
        let client = client.clone();
        async move { Ok::<_, BoxError>(client.execute(request.try_into()?).await?.into()) }
    });
    // The rate limits in responses. A refused request is sent again up to three times.
    let pace = PaceLayer::new().max_wait(Duration::from_secs(30)).retry(3);
    // `PaceLayer` reads the server's fields, not those of our own limit.
    let documented = RateLimitLayer::new(documented(), Host).headers(Headers::None);
    let api = ServiceBuilder::new()
        .retry(FurtherAttempts(2))
        .layer(pace)
        .layer(documented)
        .timeout(Duration::from_secs(10))
        .service(client);
    BoxCloneSyncService::new(api)
}

/// Repeats what failed: errors, timeouts and answers of a broken server, if the request may be sent twice.
#[derive(Clone)]
struct FurtherAttempts(u32);

impl<B> Policy<Request<Bytes>, Response<B>, BoxError> for FurtherAttempts {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<Bytes>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Ready<()>> {
        // `PaceLayer` has repeated refusals, 429 and 503.
        let is_answered = result.as_ref().is_ok_and(|response| {
            let status = response.status();
            !status.is_server_error() || status == StatusCode::SERVICE_UNAVAILABLE
        });
        if is_answered || self.0 == 0 {
            return None;
        }
        self.0 -= 1;
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &Request<Bytes>) -> Option<Request<Bytes>> {
        request.method().is_idempotent().then(|| request.clone())
    }
}

async fn get(api: &Api, uri: &str) -> Result<Response<ResponseBody<Body>>, BoxError> {
    let request = Request::get(uri).body(Bytes::new());
    let request = request.expect("a valid URI");
    api.clone().oneshot(request).await
}

// The page ends here.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use axum::Router;
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tollgate::{
    ClientIp, Limiter, Limits, MemoryBackend, Rule,
    clock::{ManualClock, Timestamp},
};

use crate::serve;

/// The layers of the page around an API that refuses its first request.
#[tokio::test(start_paused = true)]
async fn requests_that_were_held_back_leave_at_the_documented_rate() {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&starts);
    let server = service_fn(move |_: Request<Bytes>| {
        let mut starts = recorded.lock().unwrap();
        starts.push(Instant::now());
        let refusal = Response::builder().status(429).header("retry-after", "1");
        let response = if starts.len() == 1 {
            refusal.body(Full::default()).unwrap()
        } else {
            Response::new(Full::<Bytes>::default())
        };
        std::future::ready(Ok::<_, BoxError>(response))
    });
    let limits = Limits::builder().limit("documented", documented());
    let clock = ManualClock::new(Timestamp::from_micros(0));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new()).with_clock(clock);
    let documented = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("documented", Host))
        .headers(Headers::None);
    let api = ServiceBuilder::new()
        .layer(PaceLayer::new().retry(3))
        .layer(documented)
        .service(server);
    let calls = (0..20).map(|_| {
        let request = Request::get("http://api.test/").body(Bytes::new()).unwrap();
        api.clone().oneshot(request)
    });
    for response in join_all(calls).await {
        assert_eq!(response.unwrap().status(), StatusCode::OK);
    }
    let starts = starts.lock().unwrap();
    assert_eq!(starts.len(), 21);
    for pair in starts.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(10), "{starts:?}");
    }
}

#[tokio::test]
async fn client_is_answered_by_an_api_with_a_limit() {
    let limit = Limit::per_second(20).burst(3);
    let app = Router::new()
        .route("/", axum::routing::get(|| async { "data" }))
        .layer(RateLimitLayer::new(limit, ClientIp::peer()));
    let uri = format!("http://{}/", serve(app).await);
    let api = api(Client::new());
    for _ in 0..5 {
        let response = get(&api, &uri).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "data");
    }
    let missing = get(&api, "/relative").await.unwrap();
    assert_eq!(missing.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn broken_answers_are_repeated_if_the_request_may_be() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    // Of three answers, the last one is good.
    let answer = move || {
        let is_good = counted.fetch_add(1, Ordering::SeqCst) % 3 == 2;
        let status = if is_good {
            StatusCode::OK
        } else {
            StatusCode::BAD_GATEWAY
        };
        std::future::ready(status)
    };
    let app = Router::new().route("/", axum::routing::any(answer));
    let uri = format!("http://{}/", serve(app).await);
    let api = api(Client::new());
    assert_eq!(get(&api, &uri).await.unwrap().status(), StatusCode::OK);
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    let request = Request::post(&uri).body(Bytes::new()).unwrap();
    let response = api.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(calls.load(Ordering::SeqCst), 4, "a POST is not repeated");
}
