include!("pages/grpc_methods.rs");

use http::Request;
use tower::{Layer, ServiceExt};

use crate::support::{Hello, as_grpc, from_ip};

/// The gRPC status of a call, which `Hello` leaves out.
async fn call(layer: &RateLimitLayer, path: &str) -> Option<i32> {
    let mut request: Request<_> = as_grpc(from_ip("203.0.113.7"), "application/grpc");
    *request.uri_mut() = path.parse().unwrap();
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let status = response.headers().get("grpc-status")?;
    Some(status.to_str().unwrap().parse().unwrap())
}

#[tokio::test]
async fn one_method_has_a_limit_of_its_own() {
    let (limiter, _) = super::limiter(limits());
    let layer = layer(limiter);
    for _ in 0..3 {
        assert_eq!(call(&layer, "/grpc.health.v1.Health/Check").await, None);
    }
    assert_eq!(call(&layer, "/grpc.health.v1.Health/Check").await, Some(8));
    for _ in 0..17 {
        assert_eq!(call(&layer, "/grpc.health.v1.Health/List").await, None);
    }
    assert_eq!(call(&layer, "/grpc.health.v1.Health/List").await, Some(8));
}
