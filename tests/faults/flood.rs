//! An attack by clients that are denied.

use std::time::{Duration, Instant};

use tollgate::{Limiter, RedisBackend, Transaction, backend::DenyCache};

use crate::{
    redis_support::Server,
    stack::{Answer, BURST, LONG, Stack, spend},
    support::scale::scaled,
};

const CLIENTS: usize = 1000;

/// For how long a denial is remembered.
const LIFETIME: Duration = DenyCache::<RedisBackend>::DEFAULT_LIFETIME;

/// How many scripts a server has run.
fn scripts(server: &Server) -> usize {
    let calls = |command: &str| {
        let stat = server.info(&format!("cmdstat_{command}"));
        let calls = stat.split(',').next()?.strip_prefix("calls=")?;
        calls.parse::<usize>().ok()
    };
    calls("evalsha").unwrap_or(0) + calls("eval").unwrap_or(0)
}

/// Spends all that these clients may.
async fn exhaust(limiter: &Limiter, ids: &[String]) {
    for id in ids {
        let all = Transaction::new("refuse", id).cost(BURST);
        assert!(limiter.spend(&all).await.unwrap().allowed());
        assert_eq!(spend(limiter, "refuse", id).await, Answer::Denied);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denied_requests_hardly_reach_the_store() {
    let server = Server::start();
    let stack = Stack::with_deadline(server.url(), LONG).await;
    let ids: Vec<_> = (0..CLIENTS)
        .map(|number| format!("client{number}"))
        .collect();
    exhaust(&stack.limiter, &ids).await;
    let requests = scaled(100_000);
    let (before, begun) = (scripts(&server), Instant::now());
    let tasks = ids.chunks(CLIENTS / 2).map(|ids| {
        let (limiter, ids) = (stack.limiter.clone(), ids.to_vec());
        tokio::spawn(async move {
            for _ in 0..requests / CLIENTS {
                for id in &ids {
                    assert_eq!(spend(&limiter, "refuse", id).await, Answer::Denied);
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let (asked, took) = (scripts(&server) - before, begun.elapsed());
    println!("{requests} denials in {took:?}: the store was asked {asked} times");
    // Each client once in the lifetime of what is remembered, however long that was.
    let lifetimes = took.as_micros() / LIFETIME.as_micros() + 1;
    let most = CLIENTS * usize::try_from(lifetimes).unwrap();
    assert!(asked <= most, "asked {asked} times in {took:?}");
    stack.end([&server]);
}
