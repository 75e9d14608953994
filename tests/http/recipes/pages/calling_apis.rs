use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, Error, connect::HttpConnector},
    rt::TokioExecutor,
};
use tollgate::{
    Limit, RateLimitLayer,
    key::Host,
    layer::{RateLimit, ResponseBody},
    pace::{Cloned, Pace, PaceLayer, PacedBody},
};
use tower::{ServiceBuilder, ServiceExt};

type Api = RateLimit<Pace<Client<HttpConnector, Full<Bytes>>, Cloned>>;

/// The documented rate: at most 100 in any second to each host, 10 ms apart. Further requests wait.
fn documented() -> Limit {
    Limit::per_second(100)
        .burst(1)
        .max_wait(Duration::from_secs(60))
}

fn client() -> Api {
    // The rate limits in responses. A refused request is sent again up to three times.
    let pace = PaceLayer::new()
        .max_wait(Duration::from_secs(30))
        .retry(3);
    ServiceBuilder::new()
        .layer(RateLimitLayer::new(documented(), Host))
        .layer(pace)
        .service(Client::builder(TokioExecutor::new()).build_http())
}

async fn get(client: &Api, uri: &str) -> Result<Response<ResponseBody<PacedBody<Incoming>>>, Error> {
    let request = Request::get(uri).body(Full::default());
    let request = request.expect("a valid URI");
    client.clone().oneshot(request).await
}
