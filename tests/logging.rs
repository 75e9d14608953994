//! What is logged. Apart from other tests, because a log is a process's.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod support;

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use http::{Request, StatusCode};
use support::{Hello, limiter, send};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::{Backend, BackendError, async_trait},
    clock::ManualClock,
    decision::Outcome,
    transaction::Batch,
};
use tower::{Layer, ServiceExt};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
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

async fn log_of_a_server_that_hides_its_peers(log: &Log) {
    let layer = RateLimitLayer::new(limiter(&ManualClock::default()))
        .rule(Rule::new("requests", ClientIp::peer()));
    for _ in 0..5 {
        let request = Request::new(http_body_util::Full::<bytes::Bytes>::default());
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
    let log = log.text();
    assert_eq!(
        log.matches("into_make_service_with_connect_info").count(),
        1,
        "{log}"
    );
}

/// A backend that answers the sixth batch and all after it.
#[derive(Debug, Default)]
struct Flaky {
    inner: MemoryBackend,
    batches: AtomicU32,
}

#[async_trait]
impl Backend for Flaky {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        match self.batches.fetch_add(1, Ordering::Relaxed) {
            0..5 => Err(BackendError::unavailable("connection refused")),
            _ => self.inner.apply(batch).await,
        }
    }
}

async fn log_of_a_backend_that_recovers(log: &Log) {
    let limits = Limits::builder()
        .limit("requests", Limit::per_minute(9))
        .build()
        .unwrap();
    let layer = RateLimitLayer::new(Limiter::new(limits, Flaky::default()))
        .rule(Rule::new("requests", ClientIp::peer()));
    for _ in 0..8 {
        send(&layer, "203.0.113.7").await;
    }
    let log = log.text();
    assert_eq!(
        log.matches("rate limits cannot be decided").count(),
        1,
        "{log}"
    );
    assert_eq!(log.matches("connection refused").count(), 1, "{log}");
    assert_eq!(
        log.matches("rate limits are decided again").count(),
        1,
        "{log}"
    );
}

#[tokio::test]
async fn nothing_is_logged_on_each_request() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    log_of_a_server_that_hides_its_peers(&log).await;
    log_of_a_backend_that_recovers(&log).await;
}
