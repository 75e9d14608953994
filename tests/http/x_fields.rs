//! The fields `X-RateLimit-*`, which show one limit.

use std::{convert::Infallible, future::ready, time::Duration};

use http::{HeaderMap, Response};
use http_body_util::Full;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    clock::{ManualClock, Timestamp},
    key::Everyone,
    limit::LimitName,
    response::Headers,
    tiers::Tier,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    fields::{draft, sent, value},
    support::{Hello, from_ip, layer, limiter, limiter_of},
};

const IP: &str = "203.0.113.7";

const X: [&str; 3] = [
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// The three other fields, each at most once, and none of the draft.
pub(crate) fn x(headers: &HeaderMap) -> [Option<&str>; 3] {
    assert_eq!(draft(headers), [None, None]);
    X.map(|name| {
        assert!(headers.get_all(name).iter().count() <= 1, "{name}");
        value(headers, name)
    })
}

/// 2026-01-01, and 0.4 seconds.
fn clock() -> ManualClock {
    ManualClock::new(Timestamp::from_micros(1_767_225_600_400_000))
}

#[tokio::test]
async fn epoch_and_delta_say_when_the_bucket_is_full() {
    // 10 per second, 20 at once: two tokens take 0.2 s to come back, all 20 take 2 s.
    for (dialect, resets) in [
        (Headers::XRateLimitEpoch, ["1767225601", "1767225603"]),
        (Headers::XRateLimitDelta, ["1", "2"]),
    ] {
        let layer = layer(&limiter(&clock())).headers(dialect);
        sent(&layer).await;
        assert_eq!(
            x(&sent(&layer).await),
            [Some("20"), Some("18"), Some(resets[0])]
        );
        for _ in 0..18 {
            sent(&layer).await;
        }
        assert_eq!(
            x(&sent(&layer).await),
            [Some("20"), Some("0"), Some(resets[1])]
        );
        // A reset that never comes is left out.
        let life = Limit::tiers([Tier::new(2, Tier::FOREVER)]).unwrap();
        for (limit, expected) in [(life, ["2", "1"]), (Limit::BLOCKED, ["0", "0"])] {
            let layer = crate::support::layer(&limiter_of(&clock(), limit)).headers(dialect);
            let [limit, remaining] = expected.map(Some);
            assert_eq!(x(&sent(&layer).await), [limit, remaining, None]);
        }
    }
}

#[tokio::test]
async fn epoch_does_not_move_while_the_bucket_is_not_used() {
    // Thirds of a second, so that nothing is a whole number of microseconds.
    let clock = clock();
    let limiter = limiter_of(&clock, Limit::per_second(3).burst(10));
    let of = |rule| {
        let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
        layer.headers(Headers::XRateLimitEpoch)
    };
    let spends = of(Rule::new("requests", Everyone).cost(8));
    sent(&spends).await;
    let looks = of(Rule::new("requests", Everyone).cost(0));
    // 8/3 s after 0.4 s: 3.0666 s.
    for step in 0..2600 {
        assert_eq!(x(&sent(&looks).await)[2], Some("1767225604"), "step {step}");
        clock.advance(Duration::from_micros(1021));
    }
}

#[tokio::test]
async fn strictest_limit_is_shown() {
    let limits = Limits::builder()
        .limit("loose", Limit::per_minute(50))
        .limit("strict", Limit::per_minute(3))
        .block("abuse", "paused")
        .limit(LimitName::from("shadow").shadow(true), Limit::per_hour(1));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new()).with_clock(clock());
    let layer = RateLimitLayer::with_limiter(limiter).headers(Headers::XRateLimitDelta);
    let layer = ["loose", "strict", "abuse", "shadow"]
        .into_iter()
        .fold(layer, |layer, limit| layer.rule(Rule::new(limit, Everyone)));
    for (remaining, reset) in [("2", "20"), ("1", "40"), ("0", "60"), ("0", "60")] {
        let expected = [Some("3"), Some(remaining), Some(reset)];
        assert_eq!(x(&sent(&layer).await), expected);
    }
}

#[tokio::test]
async fn fewer_remaining_win_between_layers_and_against_the_service() {
    let of = |limit| layer(&limiter_of(&clock(), limit)).headers(Headers::XRateLimitDelta);
    let both = async |outer: RateLimitLayer, inner: RateLimitLayer| {
        let stack = outer.layer(inner.layer(Hello));
        let response = stack.oneshot(from_ip(IP)).await.unwrap();
        response.headers().clone()
    };
    let (few, many) = (|| of(Limit::per_minute(6)), || of(Limit::per_hour(60)));
    let strict = [Some("6"), Some("5"), Some("10")];
    assert_eq!(x(&both(few(), many()).await), strict);
    assert_eq!(x(&both(many(), few()).await), strict);
    let life = of(Limit::tiers([Tier::new(3, Tier::FOREVER)]).unwrap());
    assert_eq!(x(&both(life, few()).await), [Some("3"), Some("2"), None]);
    for (theirs, stays) in [("3", true), ("5", true), ("6", false), ("many", false)] {
        let service = service_fn(move |_| {
            let mut response = Response::new(Full::<bytes::Bytes>::default());
            for name in X {
                response.headers_mut().insert(name, theirs.parse().unwrap());
            }
            ready(Ok::<_, Infallible>(response))
        });
        let response = few().layer(service).oneshot(from_ip(IP)).await.unwrap();
        let expected = if stays { [Some(theirs); 3] } else { strict };
        assert_eq!(x(response.headers()), expected);
    }
}

#[tokio::test]
async fn first_of_equally_strict_limits_is_shown() {
    let limits = Limits::builder()
        .limit("a", Limit::per_minute(5))
        .limit("b", Limit::per_minute(7));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.with_clock(clock()))
        .rule(Rule::new("a", Everyone))
        .rule(Rule::new("b", Everyone).cost(3))
        .headers(Headers::XRateLimitDelta);
    assert_eq!(x(&sent(&layer).await)[..2], [Some("5"), Some("4")]);
}

#[tokio::test]
async fn layer_whose_limits_are_all_in_shadow_says_nothing() {
    let limits = Limits::builder()
        .limit("requests", Limit::per_minute(1))
        .shadow(true);
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    for headers in [Headers::Draft11, Headers::XRateLimitDelta] {
        let layer = layer(&limiter).headers(headers);
        for _ in 0..2 {
            assert_eq!(x(&sent(&layer).await), [None; 3]);
        }
    }
}
