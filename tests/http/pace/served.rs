//! Clients of a real axum server with this crate's layer.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{net::TcpListener, task::JoinSet};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    pace::{Pace, PaceLayer, Resend},
    response::Headers,
};
use tower::{ServiceBuilder, ServiceExt};

use super::with_milliseconds;

/// A limit of each client behind a real server, whose refusals also carry the wait in milliseconds.
async fn serve(limit: Limit, headers: Headers) -> SocketAddr {
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("requests", ClientIp::peer()))
        .headers(headers)
        .respond_with(with_milliseconds);
    let app = Router::new().route("/", get(|| async {})).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

type Paced<R> = Pace<Client<HttpConnector, Empty<Bytes>>, R>;

fn client<R: Clone>(pace: PaceLayer<R>) -> Paced<R> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    ServiceBuilder::new().layer(pace).service(client)
}

async fn statuses<R>(client: &Paced<R>, address: SocketAddr, requests: usize) -> Vec<StatusCode>
where
    R: Resend<Empty<Bytes>> + Clone + 'static,
{
    let mut all = JoinSet::new();
    for _ in 0..requests {
        let uri = format!("http://{address}/");
        let request = Request::get(uri).body(Empty::new()).unwrap();
        let sent = client.clone().oneshot(request);
        all.spawn(async move {
            let response = sent.await.unwrap();
            let status = response.status();
            response.into_body().collect().await.unwrap();
            status
        });
    }
    all.join_all().await
}

#[tokio::test]
async fn client_of_a_real_server_is_never_refused_twice() {
    let dialects = [
        Headers::Draft10,
        Headers::XRateLimitEpoch,
        Headers::XRateLimitDelta,
    ];
    for headers in dialects {
        let address = serve(Limit::per_second(20), headers).await;
        let statuses = statuses(&client(PaceLayer::new()), address, 25).await;
        let refused = statuses.iter().filter(|status| **status != StatusCode::OK);
        assert!(refused.count() <= 1, "{headers:?}: {statuses:?}");
    }
}

#[tokio::test]
async fn refused_requests_to_a_server_without_headers_pass_later() {
    // It says nothing before it refuses several at once. Of those that are sent again, one passes each time.
    let address = serve(Limit::per_second(20), Headers::None).await;
    let statuses = statuses(&client(PaceLayer::new().retry(25)), address, 25).await;
    assert_eq!(statuses, [StatusCode::OK; 25]);
}
