use std::time::Duration;

use tokio::time::Instant;
use tollgate::{Limit, Limiter, Limits, MemoryBackend, clock::TokioClock};

// Needs tokio's feature `test-util`.
#[tokio::test(start_paused = true)]
async fn eight_jobs_take_three_and_a_half_seconds() {
    let line = Limit::per_second(2)
        .burst(1)
        .max_wait(Duration::from_secs(60));
    let limits = Limits::builder().limit("jobs", line).build();
    let limiter = Limiter::new(limits.expect("valid limits"), MemoryBackend::new());
    let jobs = limiter.with_clock(TokioClock::default()).limit("jobs");
    let jobs = jobs.expect("it is a limit");

    let began = Instant::now();
    for job in 0..8 {
        let decision = jobs.acquire("worker").await.expect("memory answers");
        assert!(decision.allowed());
        assert_eq!(began.elapsed(), job * Duration::from_millis(500));
    }
}

// The page ends here.
