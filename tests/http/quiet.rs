//! Layers without headers and extensions decide as those with both, by any algorithm.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use http::{Response, StatusCode};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction, clock::ManualClock,
    key::Everyone, quota::Per, response::Headers, tiers::Tier,
};
use tower::{Layer, Service};

use crate::support::{Hello, from_ip};

const SECOND: Duration = Duration::from_secs(1);

/// Limits that each allow four requests at once. Some of them allow more a second later.
fn of_four() -> [Limit; 6] {
    [
        Limit::per_second(4),
        Limit::quota(4, Per::Hour),
        Limit::window(4, SECOND),
        Limit::tiers([Tier::new(4, SECOND)]).unwrap(),
        Limit::concurrent(4),
        Limit::per_second(4).max_wait(Duration::from_millis(1)),
    ]
}

/// A layer that charges all limits, and what it looks at.
struct Limited {
    clock: ManualClock,
    limiter: Limiter,
    layer: RateLimitLayer,
    names: Vec<String>,
}

impl Limited {
    fn by(limits: &[Limit]) -> Self {
        let clock = ManualClock::default();
        let names = (0..limits.len()).map(|place| format!("limit{place}"));
        let names: Vec<_> = names.collect();
        let all = names.iter().zip(limits);
        let all = all.fold(Limits::builder(), |all, (name, limit)| {
            all.limit(name.as_str(), limit.clone())
        });
        let limiter = Limiter::new(all.build().unwrap(), MemoryBackend::new());
        let limiter = limiter.with_clock(clock.clone());
        let layer = RateLimitLayer::with_limiter(limiter.clone());
        let layer = names.iter().fold(layer, |layer, name| {
            layer.rule(Rule::new(name.as_str(), Everyone))
        });
        Self {
            clock,
            limiter,
            layer,
            names,
        }
    }

    fn quiet(mut self) -> Self {
        self.layer = self.layer.headers(Headers::None).extensions(false);
        self
    }

    /// Sends six requests at once, and two a second later. Returns what came of each, with all buckets after it.
    async fn answers(&self) -> Vec<(StatusCode, Vec<Option<u32>>)> {
        let mut service = self.layer.layer(Hello);
        let mut answers = Vec::new();
        // Permits come back with the body of a response, so it is kept.
        let mut held: Vec<Response<_>> = Vec::new();
        for request in 0..8 {
            if request == 6 {
                self.clock.advance(SECOND);
            }
            let response = service.call(from_ip("203.0.113.7")).await.unwrap();
            let status = response.status();
            held.push(response);
            let mut left = Vec::new();
            for name in &self.names {
                let asked = Transaction::new(name.as_str(), "everyone");
                let decision = self.limiter.peek(&asked).await.unwrap();
                left.push(decision.remaining());
            }
            answers.push((status, left));
        }
        answers
    }
}

async fn assert_same(limits: &[Limit]) {
    let (quiet, full) = (Limited::by(limits).quiet(), Limited::by(limits));
    let answers = quiet.answers().await;
    assert_eq!(answers, full.answers().await, "{limits:?}");
    let denied = answers.iter().filter(|(status, _)| !status.is_success());
    assert!((2..8).contains(&denied.count()), "{limits:?}: {answers:?}");
}

#[tokio::test(start_paused = true)]
async fn quiet_layer_decides_like_one_with_everything_by_any_algorithm() {
    for limit in of_four() {
        assert_same(&[limit]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn quiet_layer_with_two_rules_charges_both_or_none() {
    for first in of_four() {
        for second in of_four() {
            assert_same(&[first.clone(), second]).await;
        }
    }
}
