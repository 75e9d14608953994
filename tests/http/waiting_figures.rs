//! The fields of responses on limits with a line: they count the room in it, because nobody in it is refused.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use http::{StatusCode, header};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    backend::Backend,
    clock::TokioClock,
    key::Everyone,
    layer::Assessment,
    quota::Per,
    response::Headers,
    transaction::{Mode, Transaction},
};

use crate::support::patience::{Answer, LINE, T, backends, poll, request, settle};

const IP: &str = "203.0.113.7";

fn limiter(backend: impl Backend) -> Limiter {
    let minute = 600 * T;
    let limits = Limits::builder()
        .limit("requests", LINE)
        .limit("plan", Limit::quota(100, Per::first_use(minute)))
        .limit("window", Limit::window(100, minute))
        .limit("few", Limit::window(15, minute));
    Limiter::new(limits.build().unwrap(), backend).with_clock(TokioClock::default())
}

fn layer(limiter: &Limiter) -> RateLimitLayer {
    RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("requests", ClientIp::peer()))
}

fn field<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers()[name].to_str().unwrap()
}

/// `r` of the only limit.
fn left(answer: &Answer) -> u32 {
    let state = field(answer, "ratelimit");
    let r = state.split(";r=").nth(1).unwrap();
    r.split(';').next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn as_many_pass_as_the_fields_say() {
    for headers in [Headers::Draft11, Headers::XRateLimitDelta] {
        let limiter = limiter(MemoryBackend::new());
        let layer = layer(&limiter).headers(headers);
        let first = request(&layer).await;
        let said = match headers {
            Headers::Draft11 => {
                assert_eq!(field(&first, "ratelimit-policy"), "\"requests\";q=22;w=3");
                assert_eq!(field(&first, "ratelimit"), "\"requests\";r=21;t=1");
                left(&first)
            }
            _ => {
                assert_eq!(field(&first, "x-ratelimit-limit"), "22");
                assert_eq!(field(&first, "x-ratelimit-reset"), "1");
                field(&first, "x-ratelimit-remaining").parse().unwrap()
            }
        };
        let mut more: Vec<_> = (0..said).map(|_| request(&layer)).collect();
        let mut waiting = 0;
        for request in &mut more {
            waiting += u32::from(poll(request.as_mut()).is_pending());
        }
        assert_eq!((said, waiting), (21, 20));
        let refused = request(&layer).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(field(&refused, "retry-after"), "1");
        if headers == Headers::Draft11 {
            assert_eq!(field(&refused, "ratelimit"), "\"requests\";r=0;t=1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn field_says_zero_only_if_the_next_request_is_refused() {
    for wait in [0, 1, 50, 99, 100, 101, 250] {
        let line = LINE.burst(1).max_wait(Duration::from_millis(wait));
        let limits = Limits::builder().limit("requests", line).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::new());
        let layer = layer(&limiter.with_clock(TokioClock::default()));
        let mut said = 1;
        for _ in 0..10 {
            let mut next = request(&layer);
            let answer = match poll(next.as_mut()) {
                std::task::Poll::Ready(answer) => answer,
                std::task::Poll::Pending => {
                    assert!(said > 0, "{wait}");
                    // It is its turn only later, and then there is room for more.
                    let before = said;
                    said = left(&next.await);
                    assert!(said >= before.min(1), "{wait}");
                    continue;
                }
            };
            assert_eq!(answer.status() == StatusCode::OK, said > 0, "{wait}");
            said = left(&answer);
            if answer.status() != StatusCode::OK {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rule_that_does_not_wait_shows_the_bucket() {
    let limiter = limiter(MemoryBackend::new());
    let no_wait = Rule::new("requests", ClientIp::peer()).no_wait();
    let no_wait = RateLimitLayer::with_limiter(limiter.clone()).rule(no_wait);
    let waits = layer(&limiter);
    for (layer, state, policy) in [
        (&no_wait, "r=1;t=1", "q=2;w=1"),
        (&waits, "r=20;t=1", "q=22;w=3"),
    ] {
        let answer = request(layer).await;
        assert!(field(&answer, "ratelimit").ends_with(state));
        assert!(field(&answer, "ratelimit-policy").ends_with(policy));
    }
    let refused = request(&no_wait).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&refused, "ratelimit"), "\"requests\";r=0;t=1");
    assert!(field(&refused, "ratelimit-policy").ends_with(";q=2;w=1"));
}

#[tokio::test(start_paused = true)]
async fn strictest_limit_is_the_one_that_refuses_first() {
    let limiter = limiter(MemoryBackend::new());
    let layer = layer(&limiter).headers(Headers::XRateLimitDelta);
    let layer = layer.rule(Rule::new("few", Everyone));
    for left in (0..15).rev() {
        let answer = request(&layer).await;
        assert_eq!(field(&answer, "x-ratelimit-limit"), "15");
        assert_eq!(
            field(&answer, "x-ratelimit-remaining"),
            left.to_string(),
            "twenty may wait"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn response_shows_the_figures_after_the_wait() {
    for backend in backends() {
        let limiter = limiter(backend);
        let layer = layer(&limiter)
            .rule(Rule::new("plan", Everyone))
            .rule(Rule::new("window", Everyone));
        let others = Transaction::new("requests", IP);
        limiter.spend(&others.cost(2)).await.unwrap();
        // It waits for 1.5 seconds.
        let debit = others.cost(14).mode(Mode::Debit);
        limiter.spend(&debit).await.unwrap();
        let mut waits = request(&layer);
        assert!(poll(waits.as_mut()).is_pending());
        settle().await;
        assert!(poll(waits.as_mut()).is_pending());
        let answer = waits.await;
        assert_eq!(
            field(&answer, "ratelimit"),
            "\"requests\";r=20;t=1, \"plan\";r=99;t=59, \"window\";r=99;t=59"
        );
        // It is the last in line, so nobody else waits.
        let probe = others.cost(20).mode(Mode::CheckAndSpend);
        assert!(
            !limiter
                .check(&probe)
                .await
                .is_ok_and(|probe| probe.allowed())
        );
        let line = limiter.check(&others.cost(2)).await.unwrap();
        assert_eq!(line.delay(), 2 * T);
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_finds_no_seat_shows_what_is_left_of_other_limits() {
    for backend in backends() {
        let limiter = limiter(backend);
        let layer = layer(&limiter)
            .rule(Rule::new("plan", Everyone))
            .rule(Rule::new("window", Everyone))
            .response_extension(true)
            .max_waiting(0);
        for _ in 0..2 {
            assert_eq!(request(&layer).await.status(), StatusCode::OK);
        }
        let refused = request(&layer).await;
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(refused.headers()[header::RETRY_AFTER], "1");
        let assessment = refused.extensions().get::<Assessment>().unwrap();
        for limit in ["plan", "window"] {
            let assessed = assessment.of(limit).unwrap();
            assert_eq!(assessed.decision.remaining(), Some(98), "{limit}");
            assert_eq!(assessed.charged(), 0);
        }
    }
}
