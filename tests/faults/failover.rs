//! Several servers: the master or the owner of a slot changes.

use std::time::{Duration, Instant};

use redis::Cmd;
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    backend::{DenyCache, FailurePolicy},
    decision::Source,
};

use crate::{
    eventually::{PATIENCE, eventually, eventually_async},
    load::scenario,
    redis_support::{Cluster, Sentinels, Server},
    report::failed_over,
    stack::{Stack, connect},
};

/// Waits until a replica has what a master had at the time that is returned.
pub(crate) fn replicated(master: &Server) -> Instant {
    let known = Instant::now();
    let mut to = master.connect().unwrap();
    // A key in one of the master's slots, or in any.
    let written = (0..1000).any(|number| {
        let set = ["SET", &format!("marker{number}"), "", "PX", "1"];
        Cmd::new().arg(&set).exec(&mut to).is_ok()
    });
    assert!(written);
    eventually("a replica has it", || {
        let wait = Cmd::new().arg(&["WAIT", "1", "500"]).query::<u32>(&mut to);
        wait.unwrap() >= 1
    });
    known
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_in_a_cluster_loses_unreplicated_charges_only() {
    let cluster = Cluster::start();
    // With a short deadline, a slow machine would also admit some requests locally, before and after the failover.
    let stack = Stack::with_deadline(cluster.url(), PATIENCE).await;
    let report = scenario(stack, failed_over, async |_| {
        let master = cluster.masters()[0];
        let known = replicated(master);
        cluster.fail_over(master);
        known
    })
    .await;
    report
        .stack
        .end(cluster.masters().iter().map(|node| &***node));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_by_sentinels_loses_unreplicated_charges_only() {
    let sentinels = Sentinels::start();
    let stack = Stack::with_deadline(sentinels.url(), PATIENCE).await;
    let report = scenario(stack, failed_over, async |load| {
        let known = replicated(sentinels.master());
        // The master is not replaced until the loss is noticed, however fast the other servers are.
        let old = sentinels.kill_master();
        load.more_without_the_store(0).await;
        sentinels.replace(old);
        known
    })
    .await;
    report.stack.end([sentinels.master()]);
}

/// A limiter whose limit denies no client.
async fn limiter(cluster: &Cluster, timeout: Duration) -> Limiter {
    let backend = connect(&cluster.url(), timeout).await;
    let policy = FailurePolicy::new(DenyCache::new(backend)).deadline(PATIENCE);
    let limits = Limits::builder().limit("requests", Limit::per_day(1_000_000));
    Limiter::new(limits.build().unwrap(), policy)
}

/// The source of a decision.
async fn source(limiter: &Limiter, id: &str) -> Source {
    let spent = limiter.spend(&Transaction::new("requests", id)).await;
    spent.unwrap().source()
}

/// The id of a bucket that a master has.
fn id_on(cluster: &Cluster, master: &Server) -> String {
    let mut ids = (0..).map(|number| format!("client{number}"));
    let has = |id: &String| cluster.owner(cluster.slot_of_client(id)).port() == master.port();
    ids.find(has).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_master_affects_only_its_own_buckets() {
    let cluster = Cluster::start();
    // Decisions on the one that is silent wait as long.
    let limiter = limiter(&cluster, Duration::from_secs(5)).await;
    let masters = cluster.masters();
    let [lost, kept] = [0, 1].map(|place| id_on(&cluster, masters[place]));
    for id in [&lost, &kept] {
        assert_eq!(source(&limiter, id).await, Source::Store);
    }
    masters[0].pause();
    // Its failure counts against the one that is silent, and not against the one that has answered.
    let both = [&lost, &kept].map(|id| Transaction::new("requests", id));
    let decided = limiter.spend_batch(&both).await.unwrap();
    assert_eq!(decided.members()[1].source(), Source::Local);
    for _ in 0..50 {
        assert_eq!(source(&limiter, &lost).await, Source::Local);
        assert_eq!(source(&limiter, &kept).await, Source::Store);
    }
    masters[0].resume();
    eventually_async("the master decides again", async || {
        source(&limiter, &lost).await == Source::Store
    })
    .await;
}

/// `docs/failures.md`: with `cluster-require-full-coverage no`, the other masters go on while one is down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn masters_go_on_while_another_is_down_unless_slots_must_be_covered() {
    let cluster = Cluster::start();
    let limiter = limiter(&cluster, PATIENCE).await;
    let [lost, kept, _] = cluster.masters()[..] else {
        panic!("there are three")
    };
    let id = id_on(&cluster, kept);
    cluster.lose(lost);
    eventually("the slots are not covered", || !kept.is_whole());
    assert_eq!(source(&limiter, &id).await, Source::Local);
    for node in cluster.nodes().iter().filter(|node| node.is_up()) {
        node.configure("cluster-require-full-coverage", "no");
    }
    eventually_async("the other master goes on", async || {
        source(&limiter, &id).await == Source::Store
    })
    .await;
}

/// Returns the figure that gauges show.
fn is_open(limiter: &Limiter) -> bool {
    limiter.stats().is_open.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn master_that_was_replaced_has_no_breaker() {
    let cluster = Cluster::start();
    let limiter = limiter(&cluster, PATIENCE).await;
    let master = cluster.masters()[0];
    let id = id_on(&cluster, master);
    assert_eq!(source(&limiter, &id).await, Source::Store);
    assert!(!is_open(&limiter));
    // It is not replaced until its breaker is open.
    let (slot, replica) = (cluster.slot_of_client(&id), cluster.replica_of(master));
    replica.hold_elections(true);
    cluster.hasten(replica);
    master.kill();
    eventually_async("the breaker opens", async || {
        assert_eq!(source(&limiter, &id).await, Source::Local);
        is_open(&limiter)
    })
    .await;
    replica.hold_elections(false);
    eventually("its replica is elected", || {
        cluster.owner(slot).id() != master.id()
    });
    // The decisions are the new master's, which has no breaker yet. That of the old one is never probed again.
    eventually_async("the new master decides", async || {
        source(&limiter, &id).await == Source::Store && !is_open(&limiter)
    })
    .await;
    for _ in 0..50 {
        assert_eq!(source(&limiter, &id).await, Source::Store);
        assert!(!is_open(&limiter));
    }
}
