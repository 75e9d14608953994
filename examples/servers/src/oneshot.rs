use std::{convert::Infallible, net::SocketAddr};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tollgate::{ClientIp, Limit, RateLimitLayer};
use tower::{Layer, ServiceExt, service_fn};

#[tokio::test]
async fn third_request_is_refused() {
    let layer = RateLimitLayer::new(Limit::per_hour(2), ClientIp::peer());
    let service = layer.layer(service_fn(async |_: Request<Full<Bytes>>| {
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("hello")))
    }));
    let peer = SocketAddr::from(([203, 0, 113, 7], 49_152));
    for status in [200, 200, 429] {
        let request = Request::builder().extension(peer).body(Full::default());
        let request = request.expect("a valid request");
        let response = service.clone().oneshot(request).await;
        assert_eq!(response.expect("it does not fail").status(), status);
    }
}

// The page ends here.
