use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use reqwest::{Body, Client, Error};
use tollgate::{Limit, RateLimitLayer, key::Host, layer::ResponseBody, pace::PaceLayer};
use tower::{ServiceBuilder, ServiceExt, service_fn, util::BoxCloneSyncService};

type Api = BoxCloneSyncService<Request<Bytes>, Response<ResponseBody<Body>>, Error>;

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
        async move { Ok(client.execute(request.try_into()?).await?.into()) }
    });
    // The rate limits in responses. A refused request is sent again up to three times.
    let pace = PaceLayer::new().max_wait(Duration::from_secs(30)).retry(3);
    let api = ServiceBuilder::new()
        .layer(RateLimitLayer::new(documented(), Host))
        .layer(pace)
        .service(client);
    BoxCloneSyncService::new(api)
}

async fn get(api: &Api, uri: &str) -> Result<Response<ResponseBody<Body>>, Error> {
    let request = Request::get(uri).body(Bytes::new());
    let request = request.expect("a valid URI");
    api.clone().oneshot(request).await
}

// The page ends here.

use std::net::SocketAddr;

use axum::Router;
use http::StatusCode;
use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tollgate::ClientIp;

#[test]
fn documented_rate_holds_in_any_second() {
    assert_eq!(documented().most_within(Duration::from_secs(1)), Some(100));
    let burst = Limit::per_second(100);
    assert_eq!(
        burst.most_within(Duration::from_secs(1)),
        Some(199),
        "as the page says"
    );
}

#[tokio::test]
async fn client_is_answered_by_an_api_with_a_limit() {
    let limit = Limit::per_second(20).burst(3);
    let app = Router::new()
        .route("/", axum::routing::get(|| async { "data" }))
        .layer(RateLimitLayer::new(limit, ClientIp::peer()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("http://{}/", listener.local_addr().unwrap());
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await });
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
