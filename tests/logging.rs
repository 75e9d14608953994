//! What is logged. Apart from other tests, because a log is a process's.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod support;

use std::{
    io,
    sync::{Arc, Mutex},
};

use http::{Request, StatusCode};
use support::{Hello, limiter};
use tollgate::{ClientIp, RateLimitLayer, Rule, clock::ManualClock};
use tower::{Layer, ServiceExt};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn server_that_hides_its_peers_is_logged_once_with_the_fix() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .init();
    let layer = RateLimitLayer::new(limiter(&ManualClock::default()))
        .rule(Rule::new("requests", ClientIp::peer()));
    for _ in 0..5 {
        let request = Request::new(http_body_util::Full::<bytes::Bytes>::default());
        let response = layer.layer(Hello).oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert_eq!(
        log.matches("into_make_service_with_connect_info").count(),
        1,
        "{log}"
    );
}
