//! What a request is charged if its refunds give nothing back.

#![cfg(feature = "tokio")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{convert::Infallible, future::Future, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::time::{advance, sleep};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::Backend,
    clock::TokioClock,
    key::Everyone,
    layer::{Assessed, Assessment},
    quota::Per,
};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{bucket, patience::Slow};

const T: Duration = Duration::from_secs(1);

/// One per second, forty at once, in two kinds; and the same with hard bounds.
fn limiter(backend: impl Backend) -> Limiter {
    let tokens = Limit::per_second(1).burst(40);
    let limits = Limits::builder()
        .limit("line", tokens.clone().max_wait(60 * T))
        .limit("tokens", tokens)
        .limit("quota", Limit::quota(40, Per::first_use(10 * T)))
        .limit("window", Limit::window(40, 10 * T));
    Limiter::new(limits.build().unwrap(), backend).with_clock(TokioClock::default())
}

fn limiters() -> [Limiter; 2] {
    let slow = Slow::default();
    slow.gates.open();
    [limiter(MemoryBackend::new()), limiter(slow)]
}

/// Sends a request that costs 10, and lets a handler settle it.
async fn handle<F: Future<Output = ()>>(
    limiter: &Limiter,
    limit: &'static str,
    settle: impl Fn(Assessment) -> F + Clone,
) {
    let settle = &settle;
    let handler = service_fn(move |request: Request<Full<Bytes>>| async move {
        let assessment = request.extensions().get::<Assessment>().unwrap();
        settle(assessment.clone()).await;
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let layer = RateLimitLayer::with_limiter(limiter.clone());
    let layer = layer.rule(Rule::new(limit, Everyone).cost(10));
    let layer = layer.extensions(true);
    let request = Request::new(Full::default());
    let answer = layer.layer(handler).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 200);
}

fn of<'a>(assessment: &'a Assessment, limit: &str) -> &'a Assessed {
    assessment.of(limit).unwrap()
}

async fn taken(limiter: &Limiter, limit: &str) -> Duration {
    bucket(limiter, limit, "everyone").await.reset_after()
}

async fn remaining(limiter: &Limiter, limit: &str) -> u32 {
    let bucket = bucket(limiter, limit, "everyone").await;
    bucket.remaining().unwrap()
}

#[tokio::test(start_paused = true)]
async fn charge_that_a_line_keeps_is_not_made_again() {
    for limiter in limiters() {
        let of_handler = &limiter;
        handle(&limiter, "line", |assessment| async move {
            let line = of(&assessment, "line");
            // Thirty fit, and five wait behind them.
            let others = Transaction::new("line", "everyone");
            for cost in [30, 5] {
                let spent = of_handler.spend(&others.cost(cost)).await.unwrap();
                assert!(spent.allowed());
            }
            for (cost, charged) in [(4, 10), (10, 10), (0, 10), (7, 10), (12, 12)] {
                line.settle(cost).await.unwrap();
                assert_eq!(line.charged(), charged, "{cost}");
                assert_eq!(taken(of_handler, "line").await, (35 + charged) * T);
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn charge_that_a_line_keeps_is_refunded_once_the_line_is_empty() {
    for limiter in limiters() {
        let of_handler = &limiter;
        handle(&limiter, "line", |assessment| async move {
            let others = Transaction::new("line", "everyone");
            let spent = of_handler.spend(&others.cost(31)).await.unwrap();
            assert_eq!(spent.delay(), T);
            assessment.refund().await.unwrap();
            assert_eq!(of(&assessment, "line").charged(), 10);
            advance(T).await;
            assessment.refund().await.unwrap();
            assert_eq!(of(&assessment, "line").charged(), 0);
            assert_eq!(taken(of_handler, "line").await, 30 * T);
            assessment.refund().await.unwrap();
            assert_eq!(taken(of_handler, "line").await, 30 * T, "once");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn charge_of_a_period_that_is_over_is_not_made_again_in_the_next() {
    for limit in ["quota", "window"] {
        for limiter in limiters() {
            let of_handler = &limiter;
            handle(&limiter, limit, |assessment| async move {
                let assessed = of(&assessment, limit);
                assert_eq!(remaining(of_handler, limit).await, 30);
                advance(11 * T).await;
                for cost in [4, 10] {
                    assessed.settle(cost).await.unwrap();
                    assert_eq!((cost, assessed.charged()), (cost, 10));
                }
                assert_eq!(remaining(of_handler, limit).await, 40);
                assessed.settle(13).await.unwrap();
                assert_eq!(remaining(of_handler, limit).await, 37);
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn charge_that_time_has_replaced_is_not_made_again() {
    for limiter in limiters() {
        let of_handler = &limiter;
        handle(&limiter, "tokens", |assessment| async move {
            let tokens = of(&assessment, "tokens");
            sleep(20 * T).await;
            tokens.settle(4).await.unwrap();
            tokens.settle(10).await.unwrap();
            assert_eq!(taken(of_handler, "tokens").await, Duration::ZERO);
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn charge_that_is_given_back_is_made_again() {
    for limit in ["line", "tokens", "quota", "window"] {
        for limiter in limiters() {
            let of_handler = &limiter;
            handle(&limiter, limit, |assessment| async move {
                let assessed = of(&assessment, limit);
                for cost in [4, 10, 0, 10, 25, 3] {
                    assessed.settle(cost).await.unwrap();
                    assert_eq!(assessed.charged(), cost);
                    assert_eq!(remaining(of_handler, limit).await, 40 - cost);
                }
            })
            .await;
        }
    }
}
