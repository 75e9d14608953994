include!("pages/calling_apis.rs");

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
    let client = client();
    for _ in 0..5 {
        let response = get(&client, &uri).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "data");
    }
    let missing = get(&client, "/relative").await.unwrap();
    assert_eq!(missing.status(), StatusCode::INTERNAL_SERVER_ERROR);
}
