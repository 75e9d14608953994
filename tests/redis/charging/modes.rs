//! The ways in which rules charge, with exact counts.

use http::StatusCode;
use http_body_util::BodyExt;
use tokio::task::JoinSet;
use tollgate::{Limit, backend::Backend, rule::RequestEnd};

use super::{
    on_each_backend,
    stack::{Stack, Tokens},
};

const DENIED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

on_each_backend!(
    failures_alone_are_charged,
    failures_at_once_are_all_charged,
    success_is_given_back,
    no_more_than_the_limit_are_on_their_way,
    reservation_is_corrected_to_what_was_used,
    reservations_at_once_are_corrected_exactly,
    bytes_sent_are_charged,
);

fn unauthorized(ending: &RequestEnd<'_>) -> bool {
    ending.status() == Some(StatusCode::UNAUTHORIZED)
}

async fn failures_alone_are_charged(backend: impl Backend) {
    let stack = Stack::start(backend, Limit::per_hour(3), |rule| {
        rule.charge_if(unauthorized)
    });
    let stack = stack.await;
    for (path, status, left) in [
        ("/status/200", 200, 3),
        ("/status/401", 401, 2),
        ("/status/204", 204, 2),
        ("/status/401", 401, 1),
        ("/status/500", 500, 1),
        ("/status/401", 401, 0),
        // Whoever has failed so often is not let in any more.
        ("/status/200", 429, 0),
        ("/status/401", 429, 0),
    ] {
        let response = stack.get(path).await;
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(stack.remaining().await, left, "{path}");
    }
}

async fn failures_at_once_are_all_charged(backend: impl Backend) {
    let stack = Stack::start(backend, Limit::per_hour(100), |rule| {
        rule.cost(2).charge_if(unauthorized)
    });
    let stack = stack.await;
    let paths = (0..60).map(|i| format!("/status/{}", if i % 3 == 0 { 401 } else { 200 }));
    let statuses = stack.at_once(paths).await;
    assert!(!statuses.contains(&DENIED));
    assert_eq!(stack.remaining().await, 100 - 20 * 2);
    // There is room for 30 more; those that are checked at the same time get through beside them.
    let statuses = stack.at_once((0..60).map(|_| "/status/401".into())).await;
    let failed = statuses.iter().filter(|status| **status == 401).count();
    assert!(failed >= 30, "{failed}");
    assert_eq!(stack.remaining().await, 0);
    assert_eq!(stack.get("/status/200").await.status(), DENIED);
}

async fn success_is_given_back(backend: impl Backend) {
    let stack = Stack::start(backend, Limit::per_hour(50), |rule| {
        rule.refund_if(|ending| ending.status().is_some_and(|status| status.is_success()))
    });
    let stack = stack.await;
    assert_eq!(stack.get("/status/500").await.status(), 500);
    let paths = (0..120).map(|i| format!("/status/{}", if i % 4 == 0 { 500 } else { 200 }));
    let statuses = stack.at_once(paths).await;
    let failed = statuses.iter().filter(|status| **status == 500).count();
    assert_eq!(stack.remaining().await as usize, 50 - 1 - failed);
}

async fn no_more_than_the_limit_are_on_their_way(backend: impl Backend) {
    let stack = Stack::start(backend, Limit::per_hour(10), |rule| {
        rule.refund_if(|ending| ending.status() == Some(StatusCode::OK))
    });
    let stack = stack.await;
    let mut requests = JoinSet::new();
    for _ in 0..30 {
        let request = stack.request("/wait/200");
        requests.spawn(async move { request.await.unwrap().status() });
    }
    for _ in 0..20 {
        assert_eq!(requests.join_next().await.unwrap().unwrap(), DENIED);
    }
    stack.gate.add_permits(10);
    assert_eq!(requests.join_all().await, [StatusCode::OK; 10]);
    assert_eq!(stack.remaining().await, 10);
}

fn tokens(ending: &RequestEnd<'_>) -> u32 {
    let response = ending.response().map(|response| &response.extensions);
    response
        .and_then(|extensions| extensions.get::<Tokens>())
        .map_or(0, |tokens| tokens.0)
}

async fn reservation_is_corrected_to_what_was_used(backend: impl Backend) {
    let stack = Stack::start(backend, Limit::per_hour(100), |rule| {
        rule.cost(20).settle_by(tokens)
    });
    let stack = stack.await;
    for (path, status, left) in [
        ("/tokens/5", 200, 95),
        ("/tokens/20", 200, 75),
        ("/tokens/60", 200, 15),
        // There is no room for the reservation.
        ("/tokens/1", 429, 15),
    ] {
        let response = stack.get(path).await;
        assert_eq!(response.status(), status, "{path}");
        response.into_body().collect().await.unwrap();
        stack.comes_to_hold(left).await;
    }
}

async fn reservations_at_once_are_corrected_exactly(backend: impl Backend) {
    let stack = Stack::start(backend, Limit::per_hour(100_000), |rule| {
        rule.cost(50).settle_by(tokens)
    });
    let stack = stack.await;
    let used = (0..100).map(|i| i * 7 % 120);
    let statuses = stack
        .at_once(used.clone().map(|tokens| format!("/tokens/{tokens}")))
        .await;
    assert!(statuses.iter().all(StatusCode::is_success));
    stack.comes_to_hold(100_000 - used.sum::<u32>()).await;
}

async fn bytes_sent_are_charged(backend: impl Backend) {
    let stack = Stack::start(backend, Limit::per_hour(10_000_000), |rule| {
        rule.cost(1000).settle_by(|ending| {
            assert!(ending.is_complete());
            u32::try_from(ending.sent()).unwrap()
        })
    });
    let stack = stack.await;
    let sizes = [0, 1, 1000, 4096, 65_536, 1_000_000];
    let statuses = stack
        .at_once(sizes.map(|bytes| format!("/bytes/{bytes}")))
        .await;
    assert!(statuses.iter().all(StatusCode::is_success));
    stack
        .comes_to_hold(10_000_000 - sizes.iter().sum::<u32>())
        .await;
    // One frame after the other, without a length.
    stack.gate.add_permits(7);
    stack.at_once(["/stream/7".into()]).await;
    let before = sizes.iter().sum::<u32>();
    stack.comes_to_hold(10_000_000 - before - 7 * 1024).await;
}
