//! Requests that are dropped while they wait or while they are on their way, alone or with their runtime.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use tokio::{task::JoinSet, time::Instant};
use tollgate::pace::PaceLayer;
use tower::{Layer, ServiceExt, service_fn};

use super::{SECOND, Server, gated, request, response};
use crate::support::patience::{poll, settle};

#[tokio::test(start_paused = true)]
async fn requests_that_leave_the_line_keep_nobody_waiting() {
    let server = Server::new(&["status: 429 | retry-after: 5", ""]);
    let pace = PaceLayer::new().layer(server.service());
    pace.clone().oneshot(request("a")).await.unwrap();
    let mut line = Vec::new();
    for _ in 0..4 {
        let mut waits = Box::pin(pace.clone().oneshot(request("a")));
        assert!(poll(waits.as_mut()).is_pending());
        line.push(waits);
    }
    // The first, and one in the middle.
    drop(line.remove(0));
    drop(line.remove(1));
    for waits in line {
        waits.await.unwrap();
    }
    assert_eq!(server.asked(), [0, 5, 5].map(|secs| SECOND * secs));
}

#[test]
fn requests_of_two_runtimes_wait_for_one_server_and_outlive_each_other() {
    let runtimes = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap()
    };
    let (ends, stays, layer) = (runtimes(), runtimes(), PaceLayer::new());
    let (service, owed) = gated();
    let pace = layer.layer(service);
    // The first is on its way, and the second is the first in line.
    ends.block_on(async {
        for _ in 0..2 {
            tokio::spawn(pace.clone().oneshot(request("a")));
            settle().await;
        }
    });
    assert_eq!(owed.lock().unwrap().len(), 1);
    stays.block_on(async {
        let waits = tokio::spawn(pace.clone().oneshot(request("a")));
        settle().await;
        assert_eq!(owed.lock().unwrap().len(), 1, "it waits for the first");
        drop_elsewhere(ends);
        settle().await;
        let answer = owed.lock().unwrap().pop().unwrap();
        answer.send("").unwrap();
        let began = Instant::now();
        assert_eq!(waits.await.unwrap().unwrap().status(), StatusCode::OK);
        assert_eq!(began.elapsed(), Duration::ZERO);
    });
}

/// Ends a runtime from within another one.
fn drop_elsewhere(runtime: tokio::runtime::Runtime) {
    std::thread::spawn(move || drop(runtime)).join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn request_without_a_response_keeps_nobody_waiting() {
    let failures = Arc::new(Mutex::new(2));
    let service = service_fn(move |_: Request<Full<Bytes>>| {
        let mut left = failures.lock().unwrap();
        let fails = *left > 0;
        *left -= i32::from(fails);
        async move {
            match fails {
                true => Err(std::io::Error::other("broken")),
                false => Ok(response("")),
            }
        }
    });
    let (began, pace) = (Instant::now(), PaceLayer::new().layer(service));
    let mut all = JoinSet::new();
    for _ in 0..5 {
        all.spawn(pace.clone().oneshot(request("a")));
    }
    let answers = all.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 3);
    // One that is dropped on its way is no different.
    let hangs = service_fn(|_: Request<Full<Bytes>>| {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let pace = PaceLayer::new().max_wait(2 * SECOND).layer(hangs);
    let mut first = Box::pin(pace.clone().oneshot(request("a")));
    assert!(poll(first.as_mut()).is_pending());
    let mut second = Box::pin(pace.clone().oneshot(request("a")));
    assert!(poll(second.as_mut()).is_pending());
    drop(first);
    assert_eq!(began.elapsed(), Duration::ZERO);
}
