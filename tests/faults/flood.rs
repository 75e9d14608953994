//! An attack by clients that are denied.

use std::time::Instant;

use tollgate::{Limiter, Transaction};

use crate::{
    redis_support::Server,
    stack::{Answer, BURST, PATIENCE, Stack, spend},
};

const CLIENTS: usize = 1000;
const REQUESTS: usize = 1_000_000;

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
async fn million_denied_requests_hardly_reach_the_store() {
    let server = Server::start();
    let stack = Stack::with_deadline(server.url(), PATIENCE).await;
    let ids: Vec<_> = (0..CLIENTS)
        .map(|number| format!("client{number}"))
        .collect();
    exhaust(&stack.limiter, &ids).await;
    let (before, begun) = (scripts(&server), Instant::now());
    let tasks = ids.chunks(CLIENTS / 2).map(|ids| {
        let (limiter, ids) = (stack.limiter.clone(), ids.to_vec());
        tokio::spawn(async move {
            for _ in 0..REQUESTS / CLIENTS {
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
    println!("{REQUESTS} denials in {took:?}: the store was asked {asked} times");
    assert!(asked < REQUESTS / 100, "asked {asked} times in {took:?}");
    stack.end([&server]);
}
