//! A server with a layer, and its client.

use std::{
    net::SocketAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

use axum::{
    Extension, Router,
    body::Body,
    extract::{Path, State},
    routing::get,
};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};
use tollgate::{
    Limit, Limiter, Limits, RateLimitLayer, RedisBackend, Rule, Transaction,
    backend::{Backend, redis::KeyForm},
    clock::ManualClock,
    key::Everyone,
};

use crate::{PATIENCE, redis_support::Server};

static REDIS: LazyLock<Server> = LazyLock::new(Server::start);

/// A backend on a Redis that all tests share, with keys of its own.
pub(crate) async fn redis() -> RedisBackend {
    static TESTS: AtomicU32 = AtomicU32::new(0);
    let prefix = format!("test{}", TESTS.fetch_add(1, Ordering::Relaxed));
    let form = KeyForm::with_prefix(&prefix).unwrap();
    redis_at(&REDIS, form).await
}

/// A backend on a Redis that may take its time, on a busy machine.
pub(crate) async fn redis_at(server: &Server, form: KeyForm) -> RedisBackend {
    let backend = RedisBackend::builder(server.url()).keys(form);
    let backend = backend.timeout(PATIENCE).ping_timeout(PATIENCE);
    let backend = backend.build().unwrap();
    backend.connected(PATIENCE).await.unwrap();
    backend
}

/// How many tokens an answer took, for the closure that settles.
#[derive(Clone, Copy)]
pub(crate) struct Tokens(pub(crate) u32);

/// A server whose one limit is `l`, for everyone together, by a clock that stands still.
pub(crate) struct Stack {
    pub(crate) limiter: Limiter,
    /// What requests of `/wait/` wait for.
    pub(crate) gate: Arc<Semaphore>,
    client: Client<HttpConnector, Empty<Bytes>>,
    address: SocketAddr,
}

impl Stack {
    pub(crate) async fn start(
        backend: impl Backend,
        limit: Limit,
        rule: impl FnOnce(Rule) -> Rule,
    ) -> Self {
        let limits = Limits::builder().limit("l", limit).build().unwrap();
        let limiter = Limiter::new(limits, backend).with_clock(ManualClock::default());
        let rule = rule(Rule::new("l", Everyone));
        let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
        let gate = Arc::new(Semaphore::new(0));
        let app = router(&gate).layer(layer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self {
            limiter,
            gate,
            client: Client::builder(TokioExecutor::new()).build_http(),
            address,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Incoming> {
        self.request(path).await.unwrap()
    }

    pub(crate) fn request(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Response<Incoming>, hyper_util::client::legacy::Error>>
    + Send
    + 'static {
        let uri = format!("http://{}{path}", self.address);
        let request = Request::get(uri).body(Empty::new()).unwrap();
        self.client.request(request)
    }

    /// The statuses of requests that are made at the same time, read to their ends.
    pub(crate) async fn at_once(&self, paths: impl IntoIterator<Item = String>) -> Vec<StatusCode> {
        let mut requests = JoinSet::new();
        for path in paths {
            let request = self.request(&path);
            requests.spawn(async move {
                let response = request.await.unwrap();
                let status = response.status();
                response.into_body().collect().await.unwrap();
                status
            });
        }
        requests.join_all().await
    }

    /// What the bucket holds.
    pub(crate) async fn remaining(&self) -> u32 {
        remaining(&self.limiter, "l").await
    }

    /// Waits until the bucket holds so much.
    pub(crate) async fn comes_to_hold(&self, expected: u32) {
        comes_to_be(expected, || self.remaining()).await;
    }
}

/// How much is left of everyone's bucket.
pub(crate) async fn remaining(limiter: &Limiter, limit: &str) -> u32 {
    let look = Transaction::new(limit, "everyone").cost(0);
    limiter.check(&look).await.unwrap().remaining().unwrap()
}

/// Asks again until the answer is this.
pub(crate) async fn comes_to_be<F: Future<Output = u32>>(expected: u32, ask: impl Fn() -> F) {
    let asking = async {
        while ask().await != expected {
            tokio::task::yield_now().await;
        }
    };
    let is_so = tokio::time::timeout(PATIENCE, asking).await;
    if is_so.is_err() {
        panic!("{} instead of {expected}", ask().await);
    }
}

fn router(gate: &Arc<Semaphore>) -> Router {
    Router::new()
        .route("/status/{code}", get(status))
        .route("/tokens/{tokens}", get(tokens))
        .route("/wait/{code}", get(wait))
        .route("/panic", get(panics))
        .route("/bytes/{bytes}", get(bytes))
        .route("/stream/{kilobytes}", get(stream))
        .with_state(Arc::clone(gate))
}

async fn status(Path(code): Path<u16>) -> StatusCode {
    StatusCode::from_u16(code).unwrap()
}

async fn tokens(Path(tokens): Path<u32>) -> (Extension<Tokens>, String) {
    (Extension(Tokens(tokens)), "an answer".into())
}

async fn wait(State(gate): State<Arc<Semaphore>>, Path(code): Path<u16>) -> StatusCode {
    gate.acquire().await.unwrap().forget();
    StatusCode::from_u16(code).unwrap()
}

async fn panics() -> StatusCode {
    panic!("the handler panics, as the test wants it to")
}

async fn bytes(Path(bytes): Path<usize>) -> Vec<u8> {
    vec![0; bytes]
}

/// Kilobytes, one at a time, each as the gate lets it.
async fn stream(State(gate): State<Arc<Semaphore>>, Path(kilobytes): Path<usize>) -> Body {
    let frames = futures_util::stream::unfold(kilobytes, move |left| {
        let gate = Arc::clone(&gate);
        async move {
            let left = left.checked_sub(1)?;
            gate.acquire().await.unwrap().forget();
            let frame = Frame::data(Bytes::from_static(&[0; 1024]));
            Some((Ok::<_, std::convert::Infallible>(frame), left))
        }
    });
    Body::new(StreamBody::new(frames))
}
