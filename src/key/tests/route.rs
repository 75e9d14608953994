//! A parameter of a route equals what the handler gets, however the client spells it.

use std::net::SocketAddr;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{ConnectInfo, RawPathParams, Request, connect_info::MockConnectInfo},
    middleware::{Next, from_fn},
    response::Response,
    routing::get,
};
use tower::ServiceExt;

use super::{found, id};
use crate::key::{ClientIp, KeyExtractor, MatchedPath, PathParam};

/// Answers with the parameter `tenant`, as axum reads it.
async fn handler(params: RawPathParams) -> String {
    let tenants = params.iter().filter(|(name, _)| *name == "tenant");
    tenants
        .last()
        .map_or("none".into(), |(_, tenant)| tenant.into())
}

/// Extracts the parameter around the handler.
async fn extract(request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let tenant = found(PathParam::new("tenant").extract(&parts));
    let route = id(&MatchedPath, &parts);
    let mut response = next.run(Request::from_parts(parts, body)).await;
    response.extensions_mut().insert((tenant, route));
    response
}

type ExtractedIds = (Result<String, String>, Result<String, String>);

/// Returns the extracted parameter and route, and the parameter that the handler gets.
async fn ask(app: &Router, path: &str) -> (Result<String, String>, String, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let (tenant, route) = response.extensions().get::<ExtractedIds>().unwrap().clone();
    let body = to_bytes(response.into_body(), 10_000).await.unwrap();
    (
        tenant,
        route.unwrap(),
        String::from_utf8(body.into()).unwrap(),
    )
}

fn app() -> Router {
    Router::new()
        .route("/t/{tenant}/x", get(handler))
        .route("/prefixed/v-{tenant}", get(handler))
        .route("/all/{*tenant}", get(handler))
        .route("/both/{tenant}/{tenant_name}", get(handler))
        .route("/{{tenant}}/{tenant}", get(handler))
        .route("/health", get(handler))
}

#[tokio::test]
async fn parameter_is_what_the_handler_gets() {
    let around = || from_fn(extract);
    let orders = || Router::new().route("/{order}", get(handler));
    let inner = || Router::new().route("/in/{tenant}", get(handler));
    let nested = |inner| Router::new().nest("/nested/{tenant}", inner);
    let outer = |inner| Router::new().nest("/outer/{tenant}", inner);
    let service = |inner: Router| Router::new().nest_service("/outer/{tenant}", inner);
    let apps = [
        app().layer(around()),
        app().route_layer(around()),
        Router::new().fallback_service(app().layer(around())),
        nested(orders()).layer(around()),
        nested(orders().route_layer(around())),
        outer(inner()).layer(around()),
        outer(inner().route_layer(around())),
        service(inner().layer(around())),
    ];
    let mut asked = 0;
    for (path, tenant) in [
        ("/t/acme/x", "acme"),
        ("/t/%61cme/x?tenant=other", "acme"),
        ("/t/acm%65/x", "acme"),
        // The parameter is decoded once.
        ("/t/%2561cme/x", "%61cme"),
        ("/t/a%2Fb/x", "a/b"),
        ("/t/m%c3%bcller/x", "müller"),
        ("/t/a+b/x", "a+b"),
        ("/prefixed/v-1%2e2", "1.2"),
        ("/all/a/%62/c", "a/b/c"),
        ("/both/a/b", "a"),
        ("/{tenant}/b", "b"),
        ("/nested/acme/7", "acme"),
        ("/nested/%61cme/7", "acme"),
        // The inner parameter of the same name counts.
        ("/outer/a/in/%62", "b"),
    ] {
        for app in &apps {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = app.clone().oneshot(request).await.unwrap();
            if response.extensions().get::<ExtractedIds>().is_none()
                || !response.status().is_success()
            {
                continue;
            }
            let (extracted, route, body) = ask(app, path).await;
            assert!(route.starts_with('/'), "{route}");
            assert_eq!(
                (extracted, &*body),
                (Ok(tenant.into()), tenant),
                "{path} {route}"
            );
            asked += 1;
        }
    }
    assert_eq!(asked, 40);
}

#[tokio::test]
async fn missing_parameter_is_the_servers_fault_and_a_bad_one_the_clients() {
    let app = app().layer(from_fn(extract));
    for path in ["/health", "/elsewhere", "/t/acme"] {
        let (extracted, ..) = ask(&app, path).await;
        let reason = extracted.unwrap_err();
        let expected = "500 no route with a parameter `{tenant}` has matched the request: add the layer to such routes";
        assert!(reason.starts_with(expected), "{reason}");
    }
    let (_, route, _) = ask(&app, "/elsewhere").await;
    assert_eq!(route, "unmatched");
    let long = format!("/t/{}/x", "x".repeat(1025));
    for (path, problem) in [
        ("/t/%FF/x", "is not UTF-8"),
        (&long, "is longer than 1024 bytes"),
    ] {
        let (extracted, ..) = ask(&app, path).await;
        let expected = format!("400 the path parameter `tenant` {problem}");
        assert_eq!(extracted.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn path_that_was_rewritten_between_two_routers_has_no_parameter() {
    async fn rewrite(mut request: Request, next: Next) -> Response {
        *request.uri_mut() = "/t/acme/x".parse().unwrap();
        next.run(request).await
    }
    let inner = app().layer(from_fn(extract));
    let rewritten = Router::new()
        .fallback_service(inner)
        .layer(from_fn(rewrite));
    let (extracted, _, body) = ask(&rewritten, "/alias/other/x").await;
    assert_eq!(body, "acme");
    assert!(extracted.unwrap_err().starts_with("500 no route"));
}

#[tokio::test]
async fn peer_is_that_of_axum() {
    let peer = SocketAddr::from(([203, 0, 113, 7], 80));
    let mut parts = super::request(&[]);
    parts.extensions.insert(MockConnectInfo(peer));
    assert_eq!(id(&ClientIp::peer(), &parts).unwrap(), "203.0.113.7");
    let real = SocketAddr::from(([203, 0, 113, 8], 80));
    parts.extensions.insert(ConnectInfo(real));
    assert_eq!(id(&ClientIp::peer(), &parts).unwrap(), "203.0.113.8");
}

#[test]
#[should_panic(expected = "write `tenant` for `/t/{tenant}`")]
fn braces_are_not_a_part_of_the_name() {
    let _ = PathParam::new("{tenant}");
}
