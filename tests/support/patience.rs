//! Limits, requests and runtimes for tests of callers that wait.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
};
use tollgate::{Limit, MemoryBackend, RateLimitLayer, backend::Backend, layer::ResponseBody};
use tower::{Layer, ServiceExt};

use super::{Hello, from_ip, store::Store};

/// The emission interval of [`LINE`].
pub(crate) const T: Duration = Duration::from_millis(100);

/// A limit of two requests at once, with a line of twenty.
pub(crate) const LINE: Limit = Limit::per_second(10)
    .burst(2)
    .max_wait(Duration::from_secs(2));

/// Returns a backend that decides at once, and one for which callers have to wait.
pub(crate) fn backends() -> [Arc<dyn Backend>; 2] {
    [Arc::new(MemoryBackend::new()), Arc::new(Store::default())]
}

pub(crate) type Answer = Response<ResponseBody<Full<Bytes>>>;

/// A request that is sent when it is polled.
pub(crate) fn request(layer: &RateLimitLayer) -> Pin<Box<dyn Future<Output = Answer> + Send>> {
    let sent = layer.layer(Hello).oneshot(from_ip("203.0.113.7"));
    Box::pin(async { sent.await.unwrap() })
}

/// Polls once.
pub(crate) fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

pub(crate) async fn settle() {
    for _ in 0..100 {
        yield_now().await;
    }
}

/// Returns a runtime of one thread, and one of two.
pub(crate) fn runtimes() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.worker_threads(2).enable_all().build().unwrap())
}
