//! Clocks and stores for tests of callers that wait.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use tokio::{
    runtime::{Builder, Runtime},
    sync::Semaphore,
    task::yield_now,
};
use tollgate::{
    Limit, MemoryBackend, RateLimitLayer,
    backend::{
        Backend, BackendError, async_trait,
        custom::{Batch, Operation, Outcome},
    },
    layer::ResponseBody,
};
use tower::{Layer, ServiceExt};

use super::{Hello, from_ip, store::Store};

/// The emission interval of [`LINE`].
pub(crate) const T: Duration = Duration::from_millis(100);

/// A limit of two requests at once, with a line of twenty.
pub(crate) const LINE: Limit = Limit::per_second(10)
    .burst(2)
    .max_wait(Duration::from_secs(2));

/// A store that answers once its gates are open, and counts its calls.
#[derive(Debug, Default)]
pub(crate) struct Slow {
    memory: MemoryBackend,
    pub(crate) gates: Arc<Gates>,
}

#[derive(Debug)]
pub(crate) struct Gates {
    /// The gates before the decision and before the answer.
    pub(crate) decide: Semaphore,
    pub(crate) answer: Semaphore,
    spends: AtomicUsize,
    refunds: AtomicUsize,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            decide: Semaphore::new(0),
            answer: Semaphore::new(0),
            spends: AtomicUsize::new(0),
            refunds: AtomicUsize::new(0),
        }
    }
}

impl Gates {
    /// Lets everything pass from now on.
    pub(crate) fn open(&self) {
        const ENOUGH: usize = Semaphore::MAX_PERMITS / 8;
        self.decide.add_permits(ENOUGH);
        self.answer.add_permits(ENOUGH);
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
        (count(&self.spends), count(&self.refunds))
    }
}

#[async_trait]
impl Backend for Slow {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.gates.decide.acquire().await.unwrap().forget();
        match batch.operation {
            Operation::Spend => self.gates.spends.fetch_add(1, Ordering::SeqCst),
            Operation::Refund => self.gates.refunds.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        let outcome = self.memory.apply(batch).await;
        self.gates.answer.acquire().await.unwrap().forget();
        outcome
    }
}

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
