include!("pages/testing.rs");

mod waits {
    include!("pages/testing_waits.rs");

    fn jobs(clock: impl tollgate::clock::Clock) -> tollgate::limiter::LimitHandle {
        let line = Limit::per_second(2).max_wait(Duration::from_secs(60));
        let limits = Limits::builder().limit("jobs", line).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::new());
        limiter.with_clock(clock).limit("jobs").unwrap()
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(
        expected = "give the limiter tokio's clock with `Limiter::with_clock(TokioClock::default())`"
    )]
    async fn clock_that_stands_still_during_a_wait_is_loud() {
        let jobs = jobs(tollgate::clock::ManualClock::default());
        for _ in 0..3 {
            let _ = jobs.acquire("worker").await;
        }
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "tokio's clock is paused")]
    async fn clock_of_the_system_during_a_paused_wait_is_loud() {
        let line = Limit::per_hour(2).max_wait(Duration::from_secs(60 * 60));
        let limits = Limits::builder().limit("jobs", line).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::new());
        let jobs = limiter.limit("jobs").unwrap();
        for _ in 0..3 {
            let _ = jobs.acquire("worker").await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_that_are_advanced_together_are_in_step() {
        let clock = tollgate::clock::ManualClock::default();
        let jobs = jobs(clock.clone());
        let half = Duration::from_millis(500);
        for job in 0..6 {
            let (began, advanced) = (Instant::now(), clock.clone());
            let waits = jobs.acquire("worker");
            let advances = async move {
                tokio::task::yield_now().await;
                if job >= 2 {
                    advanced.advance(half);
                    tokio::time::advance(half).await;
                }
            };
            let (decision, ()) = tokio::join!(waits, advances);
            assert!(decision.unwrap().allowed());
            assert_eq!(began.elapsed(), if job < 2 { Duration::ZERO } else { half });
        }
    }
}
