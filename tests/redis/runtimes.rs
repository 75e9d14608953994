//! Backends that are built outside of the runtime in which they decide.

use std::time::{Duration, Instant};

use futures_util::{future::FutureExt, poll};
use tokio::{
    runtime::{Builder, Runtime},
    task::yield_now,
    time::sleep,
};
use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::{Backend, BackendError, redis::RedisError},
    limiter::LimiterError,
};

use crate::{CLUSTER, SERVER, TIMEOUT, eventually::PATIENCE, load::reason, redis_support::Server};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn backend(url: String) -> RedisBackend {
    let backend = RedisBackend::builder(url).timeout(TIMEOUT);
    backend.build().unwrap()
}

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder().limit("runtimes", Limit::per_day(1000));
    Limiter::new(limits.build().unwrap(), backend)
}

/// Returns the tokens that a client has left after some decisions in one runtime. All of them must succeed. Only a decision
/// that fails because a slow machine could not connect in time is repeated.
fn left_after(decisions: usize, limiter: &Limiter, id: &str) -> u32 {
    runtime().block_on(async {
        let (mut left, end) = (None, Instant::now() + PATIENCE);
        for _ in 0..decisions {
            let decision = loop {
                let decision = limiter.spend(&Transaction::new("runtimes", id)).await;
                match decision {
                    Err(error) if is_slow_connection(&error) && Instant::now() < end => {
                        sleep(Duration::from_millis(10)).await;
                    }
                    decision => break decision.unwrap(),
                }
            };
            left = decision.remaining();
        }
        left.unwrap()
    })
}

fn is_slow_connection(error: &LimiterError) -> bool {
    let is_unsent = matches!(error, LimiterError::Backend(BackendError::NotDone(_)));
    let slow = |error: &RedisError| matches!(error, RedisError::Disconnected(reason) if reason.contains("long to connect"));
    is_unsent && slow(&reason(error))
}

#[test]
fn backend_is_built_before_there_is_a_runtime() {
    for (id, url) in [("before-1", SERVER.url()), ("before-c", CLUSTER.url())] {
        let limiter = limiter(backend(url));
        assert_eq!(left_after(5, &limiter, id), 995, "{id}");
    }
}

#[test]
fn backend_is_used_in_one_runtime_after_another() {
    for (id, url) in [("after-1", SERVER.url()), ("after-c", CLUSTER.url())] {
        let backend = runtime().block_on(async {
            let backend = backend(url);
            backend.connected(PATIENCE).await.unwrap();
            backend
        });
        let limiter = limiter(backend);
        for left in [995, 990, 985] {
            assert_eq!(left_after(5, &limiter, id), left, "{id}");
        }
    }
}

/// The runtime in which the backend was built or has connected still exists, but no thread runs it.
#[test]
fn backend_leaves_a_runtime_that_stands_still() {
    for (name, url) in [("still-1", SERVER.url()), ("still-c", CLUSTER.url())] {
        for is_connected in [false, true] {
            let home = runtime();
            let backend = home.block_on(async {
                let backend = backend(url.clone());
                if is_connected {
                    backend.connected(PATIENCE).await.unwrap();
                }
                backend
            });
            let limiter = limiter(backend);
            let id = format!("{name}-{is_connected}");
            assert_eq!(left_after(5, &limiter, &id), 995, "{id}");
            // The tasks that were delayed in the meantime do no harm.
            home.block_on(async {
                for _ in 0..5 {
                    yield_now().await;
                    let spent = limiter.spend(&Transaction::new("runtimes", &id)).await;
                    spent.unwrap();
                }
            });
            assert_eq!(left_after(5, &limiter, &id), 985, "{id}");
        }
    }
}

#[test]
fn connected_leaves_a_runtime_that_stands_still() {
    let (home, other) = (runtime(), runtime());
    for url in [SERVER.url(), CLUSTER.url()] {
        let backend = home.block_on(async { backend(url) });
        other.block_on(backend.connected(PATIENCE)).unwrap();
    }
}

/// The runtime of a caller can end before its task has run, or while its call is in flight. Neither this caller nor those behind it
/// wait forever.
#[test]
fn calls_outlive_the_runtime_of_the_caller_that_sends_them() {
    let server = Server::start();
    let home = runtime();
    let backend = backend(server.url());
    home.block_on(backend.connected(PATIENCE)).unwrap();
    let limiter = limiter(backend);
    for is_sent in [false, true] {
        let [one, two] = ["one", "two"].map(|id| Transaction::new("runtimes", id));
        let (mut first, mut second) = (limiter.spend(&one).boxed(), limiter.spend(&two).boxed());
        let other = runtime();
        if is_sent {
            server.pause();
        }
        other.block_on(async {
            assert!(poll!(&mut first).is_pending());
            if is_sent {
                yield_now().await;
            }
        });
        home.block_on(async { assert!(poll!(&mut second).is_pending()) });
        drop(other);
        server.resume();
        assert!(home.block_on(second).unwrap().allowed());
        // The task of the link, which has sent it, is in another runtime.
        assert!(home.block_on(first).unwrap().allowed());
    }
}

#[test]
fn missing_runtime_is_an_error_with_a_remedy() {
    let backend = backend(SERVER.url());
    let connected = backend.connected(PATIENCE).now_or_never();
    let error = connected.unwrap().unwrap_err();
    assert!(matches!(error, RedisError::Config(_)), "{error}");
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}
