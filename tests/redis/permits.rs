//! Permits on real servers: against an independent model, and what a process sends for them.

use std::{future::poll_fn, pin::pin, task::Poll, time::Duration};

use tollgate::{Limit, Limiter, Limits, RedisBackend, limiter::LimitHandle};

use crate::{
    PATIENCE, connect,
    redis_support::{Proxy, Server},
};

const HOUR: Duration = Duration::from_secs(3600);

fn two(backend: RedisBackend, hold: Duration) -> LimitHandle {
    let two = Limit::concurrent(2).hold(hold);
    let limits = Limits::builder().limit("l", two).build().unwrap();
    Limiter::new(limits, backend).limit("l").unwrap()
}

async fn left(limit: &LimitHandle, id: &str) -> u32 {
    let probe = limit.cost(0).check(id).await.unwrap();
    probe.remaining().unwrap()
}

/// Waits until this number of permits is left. The hold is an hour, so they must be given back, not expire.
async fn comes_to(limit: &LimitHandle, id: &str, expected: u32) {
    let comes = async {
        while left(limit, id).await != expected {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let came = tokio::time::timeout(PATIENCE, comes).await;
    came.unwrap_or_else(|_| panic!("{id}: never {expected} are left"));
}

/// Drops `enter` after this number of polls, immediately or when it could be polled once more. Returns whether it had already
/// ended.
async fn leaves(limit: &LimitHandle, id: &str, polls: usize, at_next: bool) -> bool {
    let mut entering = pin!(limit.enter(id));
    let mut polled = 0;
    poll_fn(|context| {
        if polled == polls {
            return Poll::Ready(false);
        }
        polled += 1;
        match entering.as_mut().poll(context) {
            Poll::Ready(entered) => {
                drop(entered.unwrap().unwrap());
                Poll::Ready(true)
            }
            Poll::Pending if polled == polls && !at_next => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_leave_at_any_await_leave_no_permit_behind() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let limit = two(connect(proxy.url()).await, HOUR);
    for delay in [0, 20] {
        proxy.delay(Duration::from_millis(delay));
        for at_next in [false, true] {
            let mut polls = 0;
            loop {
                let id = format!("{delay} {at_next} {polls}");
                let has_ended = leaves(&limit, &id, polls, at_next).await;
                comes_to(&limit, &id, 2).await;
                if has_ended {
                    break;
                }
                polls += 1;
            }
            assert!((1..20).contains(&polls), "{polls} polls");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_not_lost_with_the_answer_to_a_renewal() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    // Longer than a busy machine lets a process wait.
    let hold = Duration::from_secs(30);
    let limit = two(connect(proxy.url()).await, hold);
    let direct = two(connect(server.url()).await, hold);
    let permit = limit.enter("a").await.unwrap().unwrap();
    let key = server.command(&["KEYS", "*"]);
    let stored = || server.command(&["GET".as_bytes(), key.array()[0].bytes()]);
    let taken = stored();
    // The renewal, after a third of the hold, reaches the server, and its answer does not come back.
    proxy.delay(PATIENCE);
    let renewed = async {
        while stored().bytes() == taken.bytes() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, renewed).await.unwrap();
    proxy.close_all().await;
    proxy.delay(Duration::ZERO);
    comes_to(&direct, "a", 1).await;
    assert!(permit.is_held());
    drop(permit);
    comes_to(&direct, "a", 2).await;
}
