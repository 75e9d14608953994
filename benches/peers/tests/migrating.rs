//! The settings of the page on migration, next to the crate itself.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use governor::{
    clock::{Clock, DefaultClock},
    middleware::NoOpMiddleware,
};
use tollgate::{Limit, Limiter, Limits, MemoryBackend, clock::ManualClock};
use tower_governor::{
    governor::{GovernorConfig, GovernorConfigBuilder},
    key_extractor::PeerIpKeyExtractor,
};

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 7));

type Config = GovernorConfig<PeerIpKeyExtractor, NoOpMiddleware>;

/// How many requests pass at once, and the time in which one comes back at most. By the real clock, some come back meanwhile,
/// and they are not counted.
fn theirs(config: &Config, interval: Duration) -> (u32, Duration) {
    let (began, mut passed) = (Instant::now(), 0);
    let wait = loop {
        match config.limiter().check_key(&CLIENT) {
            Ok(()) => passed += 1,
            Err(until) => break until.wait_time_from(DefaultClock::default().now()),
        }
    };
    let regained = began.elapsed().as_nanos() / interval.as_nanos();
    let regained = u32::try_from(regained).expect("it takes no such time");
    (passed - regained.min(passed), wait)
}

/// The same by tollgate, whose clock stands still.
fn ours(limit: Limit) -> (u32, Duration) {
    let limits = Limits::builder().limit("requests", limit).build();
    let limits = limits.expect("it is a limit");
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
    let requests = limiter.limit("requests").expect("it is there");
    let mut passed = 0;
    loop {
        let decision = requests.try_spend("client").expect("memory never waits");
        let decision = decision.expect("it is decided");
        if decision.allowed() {
            passed += 1
        } else {
            return (passed, decision.retry_after().expect("it ends"));
        }
    }
}

#[test]
fn limits_of_the_page_are_those_of_tower_governor() {
    let built = GovernorConfigBuilder::default()
        .per_second(2)
        .burst_size(5)
        .finish();
    let (half, two) = (Duration::from_millis(500), Duration::from_secs(2));
    for (config, interval, limit) in [
        (Config::default(), half, Limit::every(half).burst(8)),
        (built.expect("it is valid"), two, Limit::every(two).burst(5)),
    ] {
        let (passed, wait) = ours(limit);
        assert_eq!(wait, interval);
        let (their_passed, their_wait) = theirs(&config, interval);
        assert!(their_wait <= wait, "{their_wait:?} {wait:?}");
        // A slow machine can regain one more between the last check and the reading of the time.
        assert!(
            [passed, passed - 1].contains(&their_passed),
            "{their_passed} {passed}"
        );
    }
}
