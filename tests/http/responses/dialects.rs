//! `X-RateLimit-*`: whose limit they are of, and when it resets.

use std::time::Duration;

use http::{HeaderMap, Response};
use http_body_util::Full;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::{ManualClock, Timestamp},
    key::Everyone,
    limit::LimitName,
    response::Headers,
    tiers::Tier,
    transaction::Mode,
};
use tower::{Layer, ServiceExt, service_fn};

use super::value;
use crate::support::{Hello, from_ip, layer, limiter_of, send};

const NAMES: [&str; 3] = [
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// 2026-01-01, and 0.4 seconds.
const NOW: u64 = 1_767_225_600_400_000;

fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_micros(NOW))
}

/// The three fields, each at most once, and none of the other dialect.
fn fields(headers: &HeaderMap) -> [Option<&str>; 3] {
    assert_eq!(value(headers, "ratelimit"), None);
    assert_eq!(value(headers, "ratelimit-policy"), None);
    NAMES.map(|name| {
        assert!(headers.get_all(name).iter().count() <= 1, "{name}");
        value(headers, name)
    })
}

async fn sent(layer: &RateLimitLayer) -> HeaderMap {
    send(layer, "203.0.113.7").await.headers().clone()
}

#[tokio::test]
async fn epoch_and_delta_say_when_the_bucket_is_full() {
    // 10 per second, 20 at once: two tokens take 0.2 s to come back, all 20 take 2 s.
    for (dialect, resets) in [
        (Headers::XRateLimitEpoch, ["1767225601", "1767225603"]),
        (Headers::XRateLimitDelta, ["1", "2"]),
    ] {
        let limit = Limit::per_second(10).burst(20);
        let layer = layer(&limiter_of(&clock(), limit)).headers(dialect);
        let _ = sent(&layer).await;
        let allowed = sent(&layer).await;
        assert_eq!(fields(&allowed), [Some("20"), Some("18"), Some(resets[0])]);
        for _ in 0..18 {
            let _ = sent(&layer).await;
        }
        let denied = sent(&layer).await;
        assert_eq!(fields(&denied), [Some("20"), Some("0"), Some(resets[1])]);
        assert_eq!(value(&denied, "retry-after"), Some("1"));
    }
}

#[tokio::test]
async fn epoch_does_not_move_while_the_bucket_is_not_used() {
    // Thirds of a second, so that nothing is a whole number of microseconds.
    let clock = clock();
    let limiter = limiter_of(&clock, Limit::per_second(3).burst(10));
    let spend = layer(&limiter).headers(Headers::XRateLimitEpoch);
    for _ in 0..8 {
        let _ = sent(&spend).await;
    }
    let probe = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("requests", ClientIp::peer()).cost(0))
        .headers(Headers::XRateLimitEpoch);
    // 8/3 s after 0.4 s: 3.0666 s.
    for step in 0..2600 {
        let headers = sent(&probe).await;
        assert_eq!(fields(&headers)[2], Some("1767225604"), "step {step}");
        clock.advance(Duration::from_micros(1021));
    }
}

#[tokio::test]
async fn reset_that_never_comes_is_left_out() {
    let life = Limit::tiers([Tier::new(2, Tier::FOREVER)]).unwrap();
    for dialect in [Headers::XRateLimitEpoch, Headers::XRateLimitDelta] {
        let layer = layer(&limiter_of(&clock(), life.clone())).headers(dialect);
        assert_eq!(fields(&sent(&layer).await), [Some("2"), Some("1"), None]);
        let blocked = crate::support::layer(&limiter_of(&clock(), Limit::BLOCKED));
        let blocked = sent(&blocked.headers(dialect)).await;
        assert_eq!(fields(&blocked), [Some("0"), Some("0"), None]);
        assert_eq!(value(&blocked, "retry-after"), None);
    }
}

#[tokio::test]
async fn strictest_limit_is_shown() {
    let limits = Limits::builder()
        .limit("loose", Limit::per_minute(50))
        .limit("strict", Limit::per_minute(3))
        .limit("mute", Limit::per_minute(1))
        .limit(LimitName::from("shadow").shadow(true), Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new()).with_clock(clock());
    let layer = RateLimitLayer::with_limiter(limiter)
        .rule(Rule::new("loose", Everyone))
        .rule(Rule::new("strict", ClientIp::peer()))
        .rule(Rule::new("mute", Everyone).mode(Mode::SpendOnly))
        .rule(Rule::new("shadow", Everyone))
        .headers(Headers::XRateLimitDelta);
    let seen = [("2", "20"), ("1", "40"), ("0", "60"), ("0", "60")];
    for (remaining, reset) in seen {
        let expected = [Some("3"), Some(remaining), Some(reset)];
        assert_eq!(fields(&sent(&layer).await), expected);
    }
}

#[tokio::test]
async fn fewer_remaining_win_between_layers() {
    let of = |limit| {
        let layer = layer(&limiter_of(&clock(), limit));
        layer.headers(Headers::XRateLimitDelta)
    };
    let both = |outer: RateLimitLayer, inner: RateLimitLayer| async move {
        let stack = outer.layer(inner.layer(Hello));
        let response = stack.oneshot(from_ip("203.0.113.7")).await.unwrap();
        response.headers().clone()
    };
    let (few, many) = (|| of(Limit::per_minute(6)), || of(Limit::per_hour(60)));
    let strict = [Some("6"), Some("5"), Some("10")];
    assert_eq!(fields(&both(few(), many()).await), strict);
    assert_eq!(fields(&both(many(), few()).await), strict);
    let life = || of(Limit::tiers([Tier::new(3, Tier::FOREVER)]).unwrap());
    let endless = [Some("3"), Some("2"), None];
    assert_eq!(fields(&both(life(), few()).await), endless);
}

#[tokio::test]
async fn fields_of_the_service_itself_are_kept_if_they_are_stricter() {
    let ours = [Some("20"), Some("19"), Some("1")];
    for (theirs, stays) in [("3", true), ("19", true), ("20", false), ("many", false)] {
        let service = service_fn(move |_| async move {
            let mut response = Response::new(Full::<bytes::Bytes>::default());
            for name in NAMES {
                response.headers_mut().insert(name, theirs.parse().unwrap());
            }
            Ok::<_, std::convert::Infallible>(response)
        });
        let limiter = limiter_of(&clock(), Limit::per_second(10).burst(20));
        let layer = layer(&limiter).headers(Headers::XRateLimitDelta);
        let response = layer.layer(service).oneshot(from_ip("203.0.113.7")).await;
        let headers = response.unwrap().headers().clone();
        let expected = if stays { [Some(theirs); 3] } else { ours };
        assert_eq!(fields(&headers), expected);
    }
}
