//! Windows and quotas behind the layer: fields, problem documents, and charges by outcome.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tollgate::{
    ClientIp, Limit, Limiter, RateLimitLayer, Rule, Transaction,
    clock::{Clock, ManualClock},
    layer::Assessment,
    quota::{Per, UtcOffset},
    response::Headers,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{bucket, from_ip, layer, limiter_of, send, text};

const IP: &str = "203.0.113.7";
const QUARTER: Duration = Duration::from_secs(900);
const DAY: u64 = 86_400;

fn field<'a, B>(response: &'a Response<B>, name: &str) -> Option<&'a str> {
    let value = response.headers().get(name)?;
    Some(value.to_str().unwrap())
}

fn both<B>(response: &Response<B>) -> [Option<&str>; 2] {
    ["ratelimit-policy", "ratelimit"].map(|name| field(response, name))
}

#[tokio::test]
async fn fields_of_a_window_are_its_limit_its_window_and_the_next_unit() {
    let clock = ManualClock::default();
    let layer = layer(&limiter_of(&clock, Limit::window(2, QUARTER)));
    let policy = Some("\"requests\";q=2;w=900");
    for (advance, state) in [
        (0, "\"requests\";r=1;t=900"),
        (100, "\"requests\";r=0;t=800"),
        (10, "\"requests\";r=0;t=790"),
        (790, "\"requests\";r=0;t=100"),
    ] {
        clock.advance(Duration::from_secs(advance));
        let response = send(&layer, IP).await;
        assert_eq!(both(&response), [policy, Some(state)]);
    }
    let denied = send(&layer, IP).await;
    assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&denied, "retry-after"), Some("100"));
    let body: serde_json::Value = serde_json::from_str(&text(denied).await).unwrap();
    assert_eq!(
        body["detail"],
        "too many requests (2 in any 15m0s) from 203.0.113.7: retry in 100 s"
    );
}

#[tokio::test]
async fn fields_of_a_quota_are_those_of_the_current_period() {
    let clock = ManualClock::default();
    for (per, window, rest) in [
        (Per::Hour.at_offset(UtcOffset::minutes(30)), 3600, 1800),
        (Per::Day, DAY, DAY),
        (Per::Week, 7 * DAY, 4 * DAY),
        (Per::first_use(Duration::from_secs(60)), 60, 60),
    ] {
        let layer = layer(&limiter_of(&clock, Limit::quota(2, per)));
        for left in [1, 0, 0] {
            let response = send(&layer, IP).await;
            let policy = format!("\"requests\";q=2;w={window}");
            let state = format!("\"requests\";r={left};t={rest}");
            assert_eq!(both(&response), [Some(&*policy), Some(&*state)]);
        }
    }
}

#[tokio::test]
async fn month_in_the_policy_has_the_length_of_the_current_one() {
    let clock = ManualClock::default();
    let layer = layer(&limiter_of(&clock, Limit::quota(1, Per::Month)));
    // January, February and March of 2026, and a February with a leap day, in 2028.
    for (secs, days) in [(0, 31), (31 * DAY, 28), (28 * DAY, 31), (702 * DAY, 29)] {
        clock.advance(Duration::from_secs(secs));
        let policy = format!("\"requests\";q=1;w={}", days * DAY);
        let response = send(&layer, IP).await;
        assert_eq!(field(&response, "ratelimit-policy"), Some(&*policy));
        assert_eq!(response.status(), StatusCode::OK);
        let denied = send(&layer, IP).await;
        assert_eq!(field(&denied, "ratelimit-policy"), Some(&*policy));
        let body: serde_json::Value = serde_json::from_str(&text(denied).await).unwrap();
        let detail = body["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("too many requests (1 per calendar month) from"),
            "{detail}"
        );
    }
}

#[tokio::test]
async fn x_ratelimit_resets_when_all_is_back() {
    let clock = ManualClock::default();
    let now = clock.now().as_micros() / 1_000_000;
    for (limit, reset) in [
        (Limit::window(2, QUARTER), now + 900),
        (Limit::quota(2, Per::Week), now + 4 * DAY),
    ] {
        let layer = layer(&limiter_of(&clock, limit)).headers(Headers::XRateLimitEpoch);
        let response = send(&layer, IP).await;
        let fields = ["limit", "remaining", "reset"];
        let fields = fields.map(|name| field(&response, &format!("x-ratelimit-{name}")));
        assert_eq!(fields, [Some("2"), Some("1"), Some(&*reset.to_string())]);
    }
}

/// How much of the client's bucket remains.
async fn remaining(limiter: &Limiter) -> Option<u32> {
    bucket(limiter, "requests", IP).await.remaining()
}

/// A service that answers so, whatever it is asked.
async fn answered(rule: Rule, limiter: &Limiter, status: StatusCode) {
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(rule);
    let service = layer.layer(service_fn(move |_: Request<Full<Bytes>>| async move {
        let mut response = Response::new(Full::<Bytes>::default());
        *response.status_mut() = status;
        Ok::<_, std::io::Error>(response)
    }));
    let response = service.oneshot(from_ip(IP)).await.unwrap();
    text(response).await;
}

#[tokio::test]
async fn charges_by_outcome_are_given_back_and_taken_exactly() {
    let clock = ManualClock::default();
    for limit in [Limit::window(5, QUARTER), Limit::quota(5, Per::Day)] {
        let limiter = limiter_of(&clock, limit);
        let rule = || Rule::new("requests", ClientIp::peer());
        for (status, left) in [(StatusCode::OK, 5), (StatusCode::UNAUTHORIZED, 4)] {
            let refunds = rule().refund_if(|ending| ending.status() == Some(StatusCode::OK));
            answered(refunds, &limiter, status).await;
            assert_eq!(remaining(&limiter).await, Some(left));
        }
        for (status, left) in [(StatusCode::OK, 4), (StatusCode::UNAUTHORIZED, 3)] {
            let charges = rule().charge_if(|ending| ending.status() != Some(StatusCode::OK));
            answered(charges, &limiter, status).await;
            assert_eq!(remaining(&limiter).await, Some(left));
        }
        let settles = rule().cost(3).settle_by(|ending| match ending.status() {
            Some(StatusCode::OK) => 1,
            _ => 70_000,
        });
        answered(settles.clone(), &limiter, StatusCode::OK).await;
        assert_eq!(remaining(&limiter).await, Some(2));
        let least = settles.cost(1);
        answered(least, &limiter, StatusCode::BAD_GATEWAY).await;
        let bucket = bucket(&limiter, "requests", IP).await;
        assert!(!bucket.allowed(), "it owes the rest");
    }
}

#[tokio::test]
async fn settlement_of_a_window_stops_where_it_remembers_no_more_and_gives_back_what_it_took() {
    let clock = ManualClock::default();
    let limiter = limiter_of(&clock, Limit::window(5, QUARTER));
    let layer = layer(&limiter).extensions(true);
    let service = layer.layer(service_fn(|request: Request<Full<Bytes>>| async move {
        let assessment: &Assessment = request.extensions().get().unwrap();
        let assessed = assessment.of("requests").unwrap();
        assessed.settle(1_000_000).await.unwrap();
        assert_eq!(assessed.charged(), 4096);
        assessed.settle(4000).await.unwrap();
        Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default()))
    }));
    service.oneshot(from_ip(IP)).await.unwrap();
    let debit = |cost| {
        let debit = Transaction::new("requests", IP).cost(cost);
        debit.mode(tollgate::transaction::Mode::Debit)
    };
    assert!(limiter.spend(&debit(97)).await.is_err());
    assert!(limiter.spend(&debit(96)).await.unwrap().allowed());
}

#[tokio::test]
async fn handler_that_settles_to_the_most_and_refunds_gives_back_its_own_charges_only() {
    for limit in [
        Limit::per_second(1).burst(10),
        Limit::quota(10, Per::Day),
        Limit::quota(10, Per::first_use(QUARTER)),
        Limit::window(10, QUARTER),
    ] {
        let clock = ManualClock::default();
        let limiter = limiter_of(&clock, limit.clone());
        let others = Transaction::new("requests", IP).cost(6);
        assert!(limiter.spend(&others).await.unwrap().allowed());
        clock.advance(Duration::from_micros(1));
        let layer = layer(&limiter).extensions(true);
        let service = layer.layer(service_fn(|request: Request<Full<Bytes>>| async move {
            let assessment: &Assessment = request.extensions().get().unwrap();
            let assessed = assessment.of("requests").unwrap();
            for cost in [u32::MAX, 3, u32::MAX, u32::MAX] {
                assessed.settle(cost).await.unwrap();
                assert!(assessed.charged() <= cost);
            }
            assessment.refund().await.unwrap();
            assert_eq!(assessed.charged(), 0);
            Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default()))
        }));
        service.oneshot(from_ip(IP)).await.unwrap();
        assert_eq!(remaining(&limiter).await, Some(4), "{limit:?}");
    }
}
