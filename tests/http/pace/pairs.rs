//! Exact figures together with what goes wrong: lost answers, callers that leave, limits that change, retries.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, clock::TokioClock, key::Everyone,
    pace::PaceLayer, response::Headers,
};
use tower::{Layer, ServiceExt, service_fn};

use super::{
    request, response,
    simulated::{World, ms, possible, twenty},
};

const TIME: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn lost_requests_and_lost_answers_cost_little() {
    for answers_too in [false, true] {
        let world = World::of(twenty()).way(ms(4), ms(2));
        let (server, number) = (world.clone(), Arc::new(AtomicU32::new(0)));
        let service = service_fn(move |request| {
            let (server, number) = (server.clone(), number.fetch_add(1, Ordering::Relaxed));
            async move {
                match number % 10 {
                    4 => Err("lost before the server has seen it"),
                    8 if answers_too => {
                        server.answer(request).await;
                        Err("lost on the way back")
                    }
                    _ => Ok(server.answer(request).await),
                }
            }
        });
        let (pace, until) = (PaceLayer::new().layer(service), Instant::now() + TIME);
        let mut all = JoinSet::new();
        for _ in 0..8 {
            let pace = pace.clone();
            all.spawn(async move {
                while Instant::now() < until {
                    let _ = pace.clone().oneshot(request("a")).await;
                }
            });
        }
        all.join_all().await;
        let outcome = world.outcome(TIME);
        assert!(
            outcome.refused() <= 1,
            "{answers_too}: {}",
            outcome.refused()
        );
        outcome.assert_share(possible(5, 20, TIME), 850, &answers_too);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_that_leave_take_nothing_with_them() {
    let world = World::of(twenty()).way(ms(10), ms(3));
    let (pace, until) = (
        PaceLayer::new().layer(world.service()),
        Instant::now() + TIME,
    );
    let mut all = JoinSet::new();
    for number in 0..40 {
        let pace = pace.clone();
        all.spawn(async move {
            while Instant::now() < until {
                // In line, on the way to the server, and on the way back.
                let sent = pace.clone().oneshot(request("a"));
                let _ = timeout(ms(7 * number), sent).await;
                sleep(ms(1)).await;
            }
        });
    }
    all.join_all().await;
    let outcome = world.outcome(TIME);
    // Before the first response is read, nothing is known.
    let refused = outcome
        .0
        .iter()
        .filter(|(at, passed)| !passed && *at > ms(1000));
    assert_eq!(refused.count(), 0, "{:?}", outcome.0);
    outcome.assert_share(possible(5, 20, TIME), 800, &"some leave");
}

/// A server whose limit can be changed.
fn changeable() -> (World, Limiter) {
    let limits = |limit| Limits::builder().limit("requests", limit).build().unwrap();
    let limiter = Limiter::new(limits(twenty()), MemoryBackend::new());
    let limiter = limiter.with_clock(TokioClock::default());
    let layer = RateLimitLayer::with_limiter(limiter.clone());
    let layer = layer.rule(Rule::new("requests", Everyone));
    let layer = layer.headers(Headers::Exact);
    (World::new(&layer).way(ms(5), ms(0)), limiter)
}

#[tokio::test(start_paused = true)]
async fn changed_limits_are_followed_from_the_next_response() {
    for (per_second, burst) in [(50, 10), (5, 2), (20, 40), (2, 5)] {
        let (world, limiter) = changeable();
        let tasks = world.client(&PaceLayer::new(), TIME);
        sleep(TIME / 2).await;
        let limit = Limit::per_second(per_second).burst(burst);
        let limits = Limits::builder().limit("requests", limit);
        limiter.reload(limits.build().unwrap()).unwrap();
        tasks.join_all().await;
        let outcome = world.outcome(TIME);
        // Requests on their way know nothing of it.
        assert!(
            outcome.refused() <= 2,
            "{per_second}: {}",
            outcome.refused()
        );
        let later = outcome
            .0
            .iter()
            .filter(|(at, passed)| *passed && *at > TIME / 2);
        let (later, most) = (later.count() as u128, possible(0, per_second, TIME / 2));
        assert!(
            later * 100 >= most * 90,
            "{per_second} {burst}: {later} of {most}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn refused_requests_of_clients_in_company_pass_when_they_are_sent_again() {
    let world = World::of(twenty()).way(ms(3), ms(1));
    let passed = Arc::new(AtomicU32::new(0));
    let mut all = JoinSet::new();
    for _ in 0..4 {
        let pace = PaceLayer::new().retry(5).layer(world.service());
        for _ in 0..100 {
            let (pace, passed) = (pace.clone(), Arc::clone(&passed));
            all.spawn(async move {
                let response = pace.oneshot(request("a")).await.unwrap();
                passed.fetch_add(u32::from(response.status() == 200), Ordering::Relaxed);
            });
        }
    }
    all.join_all().await;
    assert_eq!(passed.load(Ordering::Relaxed), 400);
    let outcome = world.outcome(Duration::MAX);
    assert!(
        outcome.refused() * 10 <= outcome.0.len(),
        "{}",
        outcome.refused()
    );
}

#[tokio::test(start_paused = true)]
async fn hostile_figures_hold_a_request_back_for_the_maximum_at_most() {
    const MOST: &str = "999999999999999";
    const BEYOND: &str = "99999999999999999999999999";
    let many = (0..3000).map(|number| format!("\"l{number}\";q=9;w=1;tollgate-window=9000000"));
    let many = many.collect::<Vec<_>>().join(", ");
    let mut policies = vec![many];
    for number in [
        "0",
        "1",
        "-1",
        "4294967295",
        "4294967296",
        MOST,
        BEYOND,
        "NaN",
        "1e9",
        "0.5",
        "\"7\"",
        "?1",
    ] {
        policies.extend([
            format!("\"l\";q=5;w=1;tollgate-count={number};tollgate-period=1000000"),
            format!("\"l\";q=5;w=1;tollgate-count=20;tollgate-period={number}"),
            format!("\"l\";q={number};w=1;tollgate-count=20;tollgate-period=1000000"),
            format!("\"l\";q={number};w=1;tollgate-count={number};tollgate-period={number}"),
            format!("\"l\";q=5;w={number};tollgate-window={number}"),
            format!("\"l\";q={number};w=1;tollgate-window=1000000;tollgate-cost={number}"),
        ]);
    }
    let states = ["0", "1", "5", "4294967295", BEYOND]
        .into_iter()
        .flat_map(|left| {
            ["0", "1", "315360000000000", MOST, BEYOND, "-5"]
                .map(|wait| format!("\"l\";r={left};t=1;tollgate-t={wait}"))
        });
    for (number, state) in states.enumerate() {
        for policy in &policies {
            hold(policy, &state, [200, 429][number % 2]).await;
        }
    }
}

/// Sends requests to a server that always answers with these fields.
async fn hold(policy: &str, state: &str, status: u16) {
    const MOST: Duration = Duration::from_secs(2);
    let (policy, state) = (policy.to_owned(), state.to_owned());
    let (known, field) = (policy.clone(), state.clone());
    let service = service_fn(move |_: Request<Full<Bytes>>| {
        let mut answer: Response<Full<Bytes>> = response("");
        *answer.status_mut() = status.try_into().unwrap();
        let headers = answer.headers_mut();
        headers.insert("ratelimit-policy", known.parse().unwrap());
        headers.insert("ratelimit", field.parse().unwrap());
        async { Ok::<_, Infallible>(answer) }
    });
    let pace = PaceLayer::new().max_wait(MOST).retry(1).layer(service);
    let mut all = JoinSet::new();
    for number in 0..6 {
        let pace = pace.clone();
        all.spawn(async move {
            sleep(ms(500 * number)).await;
            let began = Instant::now();
            pace.oneshot(request("a")).await.unwrap();
            began.elapsed()
        });
    }
    for waited in all.join_all().await {
        let what = &policy[..policy.len().min(100)];
        assert!(
            waited <= MOST + ms(2),
            "{what} {state} {status}: {waited:?}"
        );
    }
}
