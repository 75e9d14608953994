use std::net::SocketAddr;

use tollgate::{
    ClientIp,
    limiter::{LimitHandle, NotAdmitted},
};
use warp::{
    Filter, Rejection, Reply,
    http::{StatusCode, header::RETRY_AFTER},
    reject::{self, Reject},
};

fn routes(requests: LimitHandle) -> impl Filter<Extract = (impl Reply,)> + Clone {
    limited(requests)
        .and(warp::path::end())
        .map(|| "hello")
        .recover(refuse)
}

/// In front of all routes, so that a request is charged once.
fn limited(requests: LimitHandle) -> impl Filter<Extract = (), Error = Rejection> + Clone {
    let admit = move |peer: Option<SocketAddr>| {
        let requests = requests.clone();
        async move {
            let peer = peer.ok_or_else(reject::reject)?;
            let admitted = requests.admit(ClientIp::id(peer.ip()).as_str()).await;
            admitted
                .map(drop)
                .map_err(|denied| reject::custom(Denied(denied)))
        }
    };
    warp::addr::remote().and_then(admit).untuple_one()
}

#[derive(Debug)]
struct Denied(NotAdmitted);

impl Reject for Denied {}

async fn refuse(rejection: Rejection) -> Result<impl Reply, Rejection> {
    let Some(Denied(denied)) = rejection.find() else {
        return Err(rejection);
    };
    let Some(decision) = denied.decision() else {
        return Ok(StatusCode::SERVICE_UNAVAILABLE.into_response());
    };
    let mut response = denied.to_string().into_response();
    *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
    if let Some(secs) = decision.retry_after_secs() {
        response.headers_mut().insert(RETRY_AFTER, secs.into());
    }
    Ok(response)
}

// The page ends here.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, clock::ManualClock, key::Everyone,
};
use tower::{Layer, ServiceExt};

#[tokio::test]
async fn third_request_of_a_client_is_refused() {
    let limits = Limits::builder().limit("requests", Limit::per_minute(2));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let routes = routes(limiter.limit("requests").unwrap());
    let get = async |peer: &str, path: &str| {
        let request = warp::test::request().path(path);
        let request = request.remote_addr(peer.parse().unwrap());
        request.reply(&routes).await
    };
    assert_eq!(get("203.0.113.7:1", "/").await.status(), 200);
    assert_eq!(get("203.0.113.7:1", "/nothing").await.status(), 404);
    let refused = get("203.0.113.7:2", "/").await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "30");
    let text = "too many requests (2 per minute, 2 at once) from 203.0.113.7: retry in 30 s";
    assert_eq!(refused.body(), text);
    assert_eq!(get("203.0.113.8:1", "/").await.body(), "hello");
}

#[tokio::test]
async fn layer_takes_warp_as_a_tower_service() {
    let layer = RateLimitLayer::new(Limit::per_hour(1), Everyone);
    let service = layer.layer(warp::service(warp::path::end().map(|| "hello")));
    for status in [200, 429] {
        let request = Request::new(Full::<Bytes>::default());
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), status);
    }
}
