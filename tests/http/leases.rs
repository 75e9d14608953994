//! The fields of responses on leased limits: the figures of the limit, not those of a process.

#![cfg(feature = "failure-policy")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use tokio::time::{advance, sleep};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::{Backend, BackendError, DenyCache, FailurePolicy, Lease, async_trait},
    clock::{ManualClock, TokioClock},
    decision::{Outcome, Source},
    key::Everyone,
    layer::Assessment,
    limit::LimitName,
    quota::Per,
    response::Headers,
    testing::cases::history::Random,
    transaction::Batch,
};
use tower::{Layer, ServiceExt};

use crate::support::{Hello, from_ip};

/// A store that has to be waited for.
#[derive(Clone, Debug, Default)]
struct Store(std::sync::Arc<MemoryBackend>);

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        tokio::task::yield_now().await;
        self.0.apply(batch).await
    }
}

const PROCESSES: u32 = 4;
/// What the store decides with: four processes may hold 50 each.
const LEFT: u32 = 800;

fn limits(limit: Limit) -> Limits {
    let leased = LimitName::from("requests").lease(1, 20);
    let limits = Limits::builder()
        .limit(leased, limit)
        .limit("other", Limit::per_hour(100_000));
    limits.build().unwrap()
}

fn thousand() -> Limit {
    Limit::per_second(1000)
}

fn limiter(store: &Store, limit: Limit) -> Limiter {
    let lease = Lease::new(DenyCache::new(store.clone()), PROCESSES);
    Limiter::new(limits(limit), FailurePolicy::new(lease))
}

fn layer(limiter: Limiter) -> RateLimitLayer {
    let layer = RateLimitLayer::with_limiter(limiter).rule(Rule::new("requests", Everyone));
    layer.response_extension(true)
}

type Answer = Response<tollgate::layer::ResponseBody<Full<Bytes>>>;

async fn send(layer: &RateLimitLayer) -> Answer {
    let sent = layer.layer(Hello).oneshot(from_ip("203.0.113.7"));
    sent.await.unwrap()
}

/// `r` and `t` of the first limit.
fn left(answer: &Answer) -> (u32, Option<u32>) {
    let state = answer.headers()["ratelimit"].to_str().unwrap();
    let first = state.split(',').next().unwrap();
    let number = |name: &str| {
        let rest = first.split(name).nth(1)?;
        rest.split(';').next()?.parse().ok()
    };
    (number(";r=").unwrap(), number(";t="))
}

fn source(answer: &Answer) -> Source {
    let assessment = answer.extensions().get::<Assessment>().unwrap();
    assessment.of("requests").unwrap().decision.source()
}

#[tokio::test(start_paused = true)]
async fn sequential_requests_see_the_figures_of_the_limit() {
    for (limit, window) in [
        (thousand(), "w=1"),
        (Limit::quota(1000, Per::Day), "w=86400"),
    ] {
        for has_other in [false, true] {
            let clock = ManualClock::default();
            let limiter = limiter(&Store::default(), limit.clone()).with_clock(clock);
            let layer = match has_other {
                true => layer(limiter).rule(Rule::new("other", Everyone)),
                false => layer(limiter),
            };
            let (mut leased, mut others) = (0, 0);
            // At the end, units that are charged in the background are missing at the store.
            let requests = if has_other { LEFT - 50 } else { LEFT };
            for sent in 1..=requests {
                let answer = send(&layer).await;
                assert_eq!(answer.status(), StatusCode::OK);
                let policy = answer.headers()["ratelimit-policy"].to_str().unwrap();
                let expected = format!("\"requests\";q=1000;{window}");
                assert!(policy.starts_with(&expected), "{policy}");
                let (r, _) = left(&answer);
                assert!(LEFT - sent - r <= 50, "{sent}: {r}");
                others += u32::from(r != LEFT - sent);
                leased += u32::from(source(&answer) == Source::Lease);
            }
            // What is charged in the background is neither left nor held until the store has answered.
            assert!(others <= if has_other { 100 } else { 0 }, "{others}");
            assert!(leased > LEFT / 2, "{leased}");
            if !has_other {
                let refused = send(&layer).await;
                assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
                assert_eq!(left(&refused).0, 0);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn field_says_zero_only_if_the_next_request_is_refused() {
    let store = Store::default();
    let clock = ManualClock::default();
    let limiters = [0; 2].map(|_| limiter(&store, thousand()).with_clock(clock.clone()));
    let layers = limiters.map(layer);
    let (mut random, mut zeros, mut leased) = (Random(1), 0, 0);
    let mut last = [(1, Source::Store); 2];
    for _ in 0..20_000 {
        let process = usize::try_from(random.below(2)).unwrap();
        let answer = send(&layers[process]).await;
        let (before, by) = last[process];
        let passes = answer.status() == StatusCode::OK;
        zeros += u32::from(before == 0);
        leased += u32::from(source(&answer) == Source::Lease);
        // Without time and other processes in between, the next request is refused after a zero.
        assert!(!passes || before > 0, "{by:?}");
        last[process] = (left(&answer).0, source(&answer));
        let other = 1 - process;
        last[other].0 = last[other].0.max(1);
        if random.below(40) == 0 {
            clock.advance(Duration::from_micros(random.below(30_000)));
            last = [(1, Source::Store); 2];
        }
        if random.below(2000) == 0 {
            sleep(Duration::from_secs(2)).await;
            last = [(1, Source::Store); 2];
        }
    }
    assert!(zeros > 100 && leased > 1000, "{zeros} {leased}");
}

#[tokio::test(start_paused = true)]
async fn what_comes_back_in_the_meantime_is_shown() {
    let clock = TokioClock::default();
    let limiter = limiter(&Store::default(), thousand()).with_clock(clock);
    let layer = layer(limiter);
    for _ in 0..600 {
        send(&layer).await;
    }
    advance(Duration::from_millis(100)).await;
    let mut last = loop {
        let answer = send(&layer).await;
        if source(&answer) == Source::Lease {
            break left(&answer).0;
        }
    };
    assert!((290..300).contains(&last), "{last}");
    for _ in 0..50 {
        advance(Duration::from_millis(2)).await;
        let (r, _) = left(&send(&layer).await);
        assert_eq!(r, last + 1);
        last = r;
    }
}

#[tokio::test(start_paused = true)]
async fn units_that_are_given_back_are_shown_as_left() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let slow = Limit::per_hour(1).burst(1000);
    let limiter = limiter(&store, slow).with_clock(clock);
    let layer = layer(limiter.clone());
    for _ in 0..400 {
        send(&layer).await;
    }
    for (seconds, sent) in [(0, 401), (1, 402), (1, 403), (5, 404)] {
        sleep(Duration::from_secs(seconds)).await;
        let (r, _) = left(&send(&layer).await);
        assert_eq!(r, LEFT - sent);
    }
    let everyone = Transaction::new("requests", "everyone");
    limiter.refund(&everyone.cost(3)).await.unwrap();
    assert_eq!(left(&send(&layer).await).0, LEFT - 402);
}

#[tokio::test(start_paused = true)]
async fn other_fields_show_the_same_figures() {
    let clock = ManualClock::default();
    let limiter = limiter(&Store::default(), Limit::per_second(10).burst(1000));
    let layer = layer(limiter.with_clock(clock)).headers(Headers::XRateLimitDelta);
    for sent in 1..=400 {
        let answer = send(&layer).await;
        let field = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(field("x-ratelimit-limit"), "1000");
        assert_eq!(field("x-ratelimit-remaining"), (LEFT - sent).to_string());
        assert_eq!(field("x-ratelimit-reset"), sent.div_ceil(10).to_string());
    }
}

#[cfg(feature = "pace")]
#[tokio::test(start_paused = true)]
async fn paced_client_is_as_fast_as_without_leases() {
    use tokio::time::Instant;
    use tollgate::pace::PaceLayer;

    for requests in [400, 2000] {
        let mut times = Vec::new();
        for is_leased in [false, true] {
            let limiter = match is_leased {
                true => limiter(&Store::default(), thousand()),
                false => Limiter::new(limits(thousand()), Store::default()),
            };
            let layer = layer(limiter.with_clock(TokioClock::default()));
            let client = PaceLayer::new().layer(layer.layer(Hello));
            let began = Instant::now();
            for _ in 0..requests {
                let answer = client.clone().oneshot(from_ip("203.0.113.7")).await;
                assert_eq!(answer.unwrap().status(), StatusCode::OK);
                advance(Duration::from_micros(500)).await;
            }
            times.push(began.elapsed());
        }
        let [without, with] = *times else {
            panic!("two")
        };
        let more = with.saturating_sub(without);
        assert!(more <= Duration::from_secs(1), "{requests}: {times:?}");
    }
}
