//! The shared parts of the tests of the whole stack.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod folder;
pub(crate) mod histories;
mod log;
pub(crate) mod patience;
pub(crate) mod scale;
pub(crate) mod store;

use std::{
    convert::Infallible,
    future::{Ready, ready},
    net::SocketAddr,
    sync::Mutex,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Version, header};
use http_body_util::{BodyExt, Full};
use tollgate::{
    ClientIp, Decision, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    clock::ManualClock,
    id::{Id, IdFormat},
    layer::{Assessment, LimitAssessment, ResponseBody},
    transaction::Mode,
};
use tower::{Layer, Service, ServiceExt, service_fn};

#[allow(unused_imports, reason = "as above")]
pub(crate) use self::{
    folder::Folder,
    log::{Log, listen},
};

/// The id formats that this build has.
pub(crate) fn id_formats() -> Vec<IdFormat> {
    let mut formats = vec![
        IdFormat::Opaque,
        IdFormat::IpAddress,
        IdFormat::Ipv6Range,
        IdFormat::RegId,
        IdFormat::FqdnSet,
        IdFormat::RegIdIdentValue,
        IdFormat::RegIdFqdnSet,
    ];
    if cfg!(feature = "domains") {
        formats.extend([
            IdFormat::Domain,
            IdFormat::DomainOrCidr,
            IdFormat::RegIdDomain,
            IdFormat::RegIdDomainOrCidr,
        ]);
    }
    formats
}

/// Returns a limiter with 10 per second, 20 at once, and a clock that stands still.
pub(crate) fn limiter(clock: &ManualClock) -> Limiter {
    limiter_of(clock, Limit::per_second(10).burst(20))
}

/// Returns a limiter with the limit `requests` and a clock that stands still.
pub(crate) fn limiter_of(clock: &ManualClock, limit: Limit) -> Limiter {
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone())
}

/// Returns a layer with the limit `requests` by the peer's address.
pub(crate) fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("requests", ClientIp::peer()))
}

/// A request from `ip`.
pub(crate) fn from_ip(ip: &str) -> Request<Full<Bytes>> {
    let peer = SocketAddr::new(ip.parse().unwrap(), 49_152);
    Request::builder()
        .extension(peer)
        .body(Full::default())
        .unwrap()
}

/// Turns a request into one of gRPC or, by the content type, of gRPC-Web.
pub(crate) fn as_grpc<B>(mut request: Request<B>, content_type: &str) -> Request<B> {
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    let headers = request.headers_mut();
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    headers.insert(header::CONTENT_TYPE, content_type.parse().unwrap());
    request
}

/// A service that answers `hello`, with a body that is neither axum's nor hyper's.
#[derive(Clone)]
pub(crate) struct Hello;

impl<B> Service<Request<B>> for Hello {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::new(Full::from("hello"))))
    }
}

/// Sends a request from `ip` to `Hello` through a layer.
pub(crate) async fn send(layer: &RateLimitLayer, ip: &str) -> Response<ResponseBody<Full<Bytes>>> {
    layer.layer(Hello).oneshot(from_ip(ip)).await.unwrap()
}

/// Returns the state of a bucket without charging it.
pub(crate) async fn bucket(limiter: &Limiter, limit: &str, id: &str) -> Decision {
    let probe = Transaction::new(limit, id).cost(0).mode(Mode::CheckOnly);
    limiter.check(&probe).await.unwrap()
}

/// Returns the assessment that a handler sees, if the request reaches it.
pub(crate) async fn assessed(
    layer: &RateLimitLayer,
    request: Request<Full<Bytes>>,
) -> Option<Assessment> {
    let seen = Mutex::new(None);
    let handler = service_fn(|request: Request<Full<Bytes>>| {
        *seen.lock().unwrap() = request.extensions().get().cloned();
        ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())))
    });
    let layer = layer.clone().extensions(true);
    layer.layer(handler).oneshot(request).await.unwrap();
    seen.into_inner().unwrap()
}

/// The limit, the id and the cost of each charge of a request that passes.
pub(crate) async fn charged(
    layer: &RateLimitLayer,
    request: Request<Full<Bytes>>,
) -> Vec<(String, String, u32)> {
    let assessment = assessed(layer, request).await;
    let assessment = assessment.expect("the request passes");
    let of = |one: &LimitAssessment| {
        let id = one.id.as_ref().map_or("missing", Id::as_str);
        (one.limit.to_string(), id.to_owned(), one.cost)
    };
    assessment.iter().map(of).collect()
}

/// The body of a response.
pub(crate) async fn text(response: Response<ResponseBody<Full<Bytes>>>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}
