include!("pages/waiting.rs");

use http::StatusCode;
use tokio::time::Instant;
use tollgate::{MemoryBackend, clock::TokioClock};

use super::{from_ip, status};

#[tokio::test(start_paused = true)]
async fn jobs_wait_and_pages_are_refused() {
    let limiter = Limiter::new(limits().unwrap(), MemoryBackend::new());
    let app = app(limiter.with_clock(TokioClock::default()));
    let began = Instant::now();
    let request = |uri: &str| from_ip("203.0.113.7").uri(uri.to_owned());
    for tenths in [0, 0, 1, 2] {
        assert_eq!(status(&app, request("/export")).await, StatusCode::OK);
        assert_eq!(began.elapsed(), Duration::from_millis(100 * tenths));
    }
    assert_eq!(
        status(&app, request("/")).await,
        StatusCode::TOO_MANY_REQUESTS
    );
    assert_eq!(status(&app, request("/export")).await, StatusCode::OK);
}
