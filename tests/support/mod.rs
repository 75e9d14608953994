//! What the tests of the whole stack share.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

pub(crate) mod patience;
pub(crate) mod scale;
pub(crate) mod store;

use std::{
    convert::Infallible,
    fmt,
    future::{Ready, ready},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, Once},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Version, header};
use http_body_util::{BodyExt, Full};
use tollgate::{
    ClientIp, Decision, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    clock::ManualClock,
    id::IdFormat,
    layer::{Assessment, ResponseBody},
    transaction::Mode,
};
use tower::{Layer, Service, ServiceExt};
use tracing::{
    Event, Metadata, Subscriber,
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

/// The id formats that this build has.
pub(crate) fn id_formats() -> Vec<IdFormat> {
    let needs_domains = |format| matches!(format, IdFormat::Domain | IdFormat::RegIdDomain);
    let all = IdFormat::ALL.iter().copied();
    all.filter(|format| cfg!(feature = "domains") || !needs_domains(*format))
        .collect()
}

/// 10 per second, 20 at once, by a clock that stands still.
pub(crate) fn limiter(clock: &ManualClock) -> Limiter {
    limiter_of(clock, Limit::per_second(10).burst(20))
}

/// The limit `requests`, by a clock that stands still.
pub(crate) fn limiter_of(clock: &ManualClock, limit: Limit) -> Limiter {
    let limits = Limits::builder().limit("requests", limit).build().unwrap();
    Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone())
}

/// The limit `requests` by the peer's address.
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

/// Makes a request one of gRPC or, by the content type, of gRPC-Web.
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

/// The state of a bucket, which is not charged.
pub(crate) async fn bucket(limiter: &Limiter, limit: &str, id: &str) -> Decision {
    let probe = Transaction::new(limit, id).cost(0).mode(Mode::CheckOnly);
    limiter.check(&probe).await.unwrap()
}

/// The limit, the id and the cost of each charge of a request.
pub(crate) async fn charged(
    layer: &RateLimitLayer,
    request: Request<Full<Bytes>>,
) -> Vec<(String, String, u32)> {
    let layer = layer.clone().response_extension(true);
    let response = layer.layer(Hello).oneshot(request).await.unwrap();
    let assessment = response.extensions().get::<Assessment>();
    let assessed = assessment.into_iter().flat_map(Assessment::iter);
    assessed
        .map(|one| (one.limit.to_string(), one.id.to_string(), one.cost))
        .collect()
}

/// What is logged.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what this thread logs, for as long as the guard is there.
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        Self::capture_at(tracing::Level::INFO)
    }

    /// Keeps what this thread logs at a level and above.
    pub(crate) fn capture_at(level: tracing::Level) -> (Self, DefaultGuard) {
        listen();
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_writer(move || writer.clone());
        (log, tracing::subscriber::set_default(subscriber.finish()))
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        let log = self.0.lock().unwrap();
        str::from_utf8(&log).unwrap().matches(text).count()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.0.lock().unwrap()).unwrap())
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sees to it that somebody listens at all times: what is cached of others' interest, while tests come and go, hides events.
pub(crate) fn listen() {
    static LISTENER: Once = Once::new();
    LISTENER.call_once(|| {
        tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap();
    });
}

/// A subscriber that calls back whenever something is logged at `INFO` or above.
pub(crate) struct OnEvent<F>(pub(crate) F);

impl<F: Fn() + 'static> Subscriber for OnEvent<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        (self.0)();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The body of a response.
pub(crate) async fn text(response: Response<ResponseBody<Full<Bytes>>>) -> String {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}
