//! What the policy's own memory, and that of the server, bound.

use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::{DenyCache, FailurePolicy},
};

use crate::{
    redis_support::Server,
    stack::{Answer, BURST, LONG, PATIENCE, Stack, charged, spend},
};

fn backend(server: &Server) -> RedisBackend {
    let backend = RedisBackend::builder(server.url()).timeout(LONG);
    backend.build().unwrap()
}

/// A process of so many. Each may use up its part.
fn process(backend: RedisBackend, of: u32) -> Limiter {
    let limits = Limits::builder().limit("requests", Limit::per_day(BURST));
    let policy = FailurePolicy::new(DenyCache::new(backend)).deadline(LONG);
    let policy = policy.share(1, of);
    Limiter::new(limits.build().unwrap(), policy)
}

/// Spends from a client's bucket by all processes in turn, and says how often that was admitted.
async fn admitted(processes: &[Limiter], rounds: u32) -> u32 {
    let mut admitted = 0;
    for _ in 0..rounds {
        for process in processes {
            let spent = process.spend(&Transaction::new("requests", "a")).await;
            admitted += u32::from(spent.unwrap().allowed());
        }
    }
    admitted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_with_shares_admit_no_more_than_one_burst_while_the_store_is_away() {
    let server = Server::start();
    server.kill();
    let processes = [(); 4].map(|()| process(backend(&server), 4));
    assert_eq!(admitted(&processes, 10).await, BURST);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn share_is_less_what_was_seen_spent() {
    for (spent, more) in [(0, 7), (10, 3), (12, 3), (13, 2), (20, 0)] {
        let server = Server::start();
        let backend = backend(&server);
        backend.connected(PATIENCE).await.unwrap();
        let process = [process(backend, 3)];
        assert_eq!(admitted(&process, spent).await, spent);
        server.kill();
        assert_eq!(admitted(&process, 20).await, more, "7 − {spent}/3");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_evicts_those_that_are_nearly_full_keeps_those_that_are_denied() {
    let server = Server::start_with(&["--maxmemory-policy", "volatile-ttl"]);
    let stack = Stack::with_deadline(server.url(), LONG).await;
    let all = Transaction::new("refuse", "denied").cost(BURST);
    assert!(stack.limiter.spend(&all).await.unwrap().allowed());
    let used: u64 = server.info("used_memory").parse().unwrap();
    let most = (used + 200_000).to_string();
    let set = ["CONFIG", "SET", "maxmemory", &most];
    server.command(&set).expect_success();
    for number in 0..3000 {
        let answer = spend(&stack.limiter, "refuse", &format!("client{number}")).await;
        assert_eq!(answer, Answer::Allowed);
    }
    let evicted: u32 = server.info("evicted_keys").parse().unwrap();
    assert!(evicted > 100, "{evicted} were evicted");
    assert_eq!(charged(&server, "refuse", "denied"), BURST);
    stack.end([&server]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_that_is_evicted_is_a_full_one() {
    let server = Server::start();
    let stack = Stack::with_deadline(server.url(), LONG).await;
    let (limiter, all) = (&stack.limiter, Transaction::new("refuse", "a").cost(BURST));
    assert!(limiter.spend(&all).await.unwrap().allowed());
    server.command(&["FLUSHALL"]).expect_success();
    assert!(limiter.spend(&all).await.unwrap().allowed());
    assert_eq!(spend(limiter, "refuse", "a").await, Answer::Denied);
    stack.end([&server]);
}
