//! Parameters of a route as ids: the id is what the handler gets, however the client spells it.

use axum::{Router, body::Body, extract::Path, routing::get};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use tollgate::{
    Limit, RateLimitLayer,
    key::{HeaderId, PathParam},
};
use tower::ServiceExt;

use crate::support::Log;

/// One request per client.
fn layer(param: PathParam) -> RateLimitLayer {
    RateLimitLayer::new(Limit::per_day(1), param)
}

fn app(param: PathParam) -> Router {
    Router::new()
        .route(
            "/t/{tenant}/x",
            get(|Path(tenant): Path<String>| async move { tenant }),
        )
        .route("/health", get(|| async { "ok" }))
        .layer(layer(param))
}

async fn ask(app: &Router, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn each_spelling_is_the_client_that_the_handler_sees() {
    let spellings: [(&str, &[&str]); 4] = [
        (
            "/t/acme/x",
            &["/t/%61cme/x", "/t/acm%65/x", "/t/%61%63%6d%65/x"],
        ),
        ("/t/a%2Fb/x", &["/t/a%2fb/x", "/t/%61%2Fb/x"]),
        ("/t/m%C3%BCller/x", &["/t/m%c3%bcller/x"]),
        ("/t/a+b/x", &["/t/a%2Bb/x"]),
    ];
    let app = app(PathParam::new("tenant"));
    for (first, others) in spellings {
        assert_eq!(ask(&app, first).await.0, StatusCode::OK, "{first}");
        for other in others {
            let (status, _) = ask(&app, other).await;
            assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{other}");
        }
    }
    // Decoded once, as for the handler: this is another tenant.
    let (status, tenant) = ask(&app, "/t/%2561cme/x").await;
    assert_eq!((status, &*tenant), (StatusCode::OK, "%61cme"));
}

#[tokio::test]
async fn invalid_and_oversized_parameters_are_the_clients_fault() {
    let app = app(PathParam::new("tenant"));
    let long = "x".repeat(HeaderId::MAX_LEN + 1);
    for path in ["/t/%FF/x", &*format!("/t/{long}/x")] {
        let (status, body) = ask(&app, path).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(body.contains("the path parameter `tenant` is"), "{body}");
    }
}

#[tokio::test]
async fn missing_parameter_is_loud_unless_it_is_optional() {
    let (log, _guard) = Log::capture();
    let misspelt = app(PathParam::new("tenent"));
    for path in ["/t/acme/x", "/health", "/elsewhere"] {
        let (status, _) = ask(&misspelt, path).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{path}");
    }
    assert_eq!(
        log.count("no route with a parameter `{tenent}`"),
        1,
        "{log:?}"
    );

    let optional = app(PathParam::new("tenant").optional());
    for _ in 0..3 {
        assert_eq!(ask(&optional, "/health").await.0, StatusCode::OK);
        assert_eq!(ask(&optional, "/elsewhere").await.0, StatusCode::NOT_FOUND);
    }
    assert_eq!(ask(&optional, "/t/acme/x").await.0, StatusCode::OK);
    let (status, _) = ask(&optional, "/t/acme/x").await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn nested_routers_and_routes_have_their_parameters() {
    let inner = || Router::new().route("/{order}", get(|| async { "ok" }));
    let by = |param| layer(PathParam::new(param));
    let outside = Router::new()
        .nest("/t/{tenant}", inner())
        .layer(by("tenant"));
    let inside = Router::new().nest("/t/{tenant}", inner().route_layer(by("tenant")));
    for app in [outside, inside] {
        assert_eq!(ask(&app, "/t/acme/1").await.0, StatusCode::OK);
        let (status, _) = ask(&app, "/t/%61cme/2").await;
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(ask(&app, "/t/other/3").await.0, StatusCode::OK);
    }
}

#[test]
#[should_panic(expected = "write `tenant` for `/t/{tenant}`")]
fn braces_are_not_a_part_of_the_name() {
    let _ = PathParam::new("{tenant}");
}
