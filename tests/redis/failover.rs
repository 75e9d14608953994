//! Masters that fail, and those that take their place.

use std::sync::LazyLock;

use tokio::sync::Mutex;
use tollgate::Limiter;

use crate::{
    load::{BURST, Load, limiter, mixed, patient_limiter, spend, until_decided, wait_until},
    redis_support::{Cluster, Node, Sentinels, Server, wait_for},
};

/// A cluster whose masters fail, one after another.
static FAILING: LazyLock<Mutex<Cluster>> = LazyLock::new(|| Mutex::new(Cluster::start()));

/// Ids of a name that are in slots of this node.
fn ids_of(cluster: &Cluster, node: &Node, name: &str) -> Vec<String> {
    let ids = (0..).map(|number| format!("{name}{number}"));
    let own = ids.filter(|id| cluster.owner(cluster.slot_of(id)).id() == node.id());
    own.take(5).collect()
}

/// Load on ids that are in all slots.
fn everywhere(limiter: &Limiter, name: &'static str) -> Load {
    Load::start(limiter, "one", 6, move |call| {
        vec![format!("{name}{}", mixed(call))]
    })
}

/// Sets what nodes do while a slot is not served.
fn require_full_coverage(cluster: &Cluster, required: &str) {
    for node in cluster.nodes() {
        let set = ["CONFIG", "SET", "cluster-require-full-coverage", required];
        node.command(&set).expect_success();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elected_master_decides_soon_and_admits_at_most_another_burst() {
    let cluster = FAILING.lock().await;
    let limiter = limiter(cluster.url()).await;
    let victim = cluster.masters()[0];
    let lost = ids_of(&cluster, victim, "lost");
    let load = everywhere(&limiter, "failover");
    load.more(300).await;
    cluster.fail_over(victim);
    until_decided(&limiter, "one", &lost).await;
    load.more(300).await;
    let tally = load.stop().await;
    assert!(tally.most() <= 2 * BURST, "{}", tally.most());
    cluster.restart(victim);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_masters_decide_while_one_is_replaced() {
    let cluster = FAILING.lock().await;
    require_full_coverage(&cluster, "no");
    let limiter = limiter(cluster.url()).await;
    let masters = cluster.masters();
    let (victim, other) = (masters[0], masters[1]);
    let lost = ids_of(&cluster, victim, "silent");
    let kept = ids_of(&cluster, other, "kept");
    let slot = cluster.slot_of(&lost[0]);
    let on_lost = Load::start(&limiter, "one", 3, move |call| vec![lost[call % 5].clone()]);
    let on_kept = Load::start(&limiter, "one", 3, move |call| vec![kept[call % 5].clone()]);
    on_lost.more(50).await;
    // Nobody replaces it until others have decided.
    let replica = cluster.replica_of(victim);
    replica.hold_elections(true);
    cluster.hasten(replica);
    victim.pause();
    on_lost.more(10).await;
    on_kept.more_decided(50).await;
    replica.hold_elections(false);
    wait_for("its replica is elected", || {
        cluster.owner(slot).id() != victim.id()
    });
    let after = ids_of(&cluster, cluster.owner(slot), "after");
    until_decided(&limiter, "one", &after).await;
    on_kept.more(50).await;
    let (on_lost, on_kept) = (on_lost.stop().await, on_kept.stop().await);
    assert!(on_kept.most() <= BURST && on_lost.most() <= 2 * BURST);
    victim.resume();
    cluster.wait_until_settled();
    cluster.calm();
    require_full_coverage(&cluster, "yes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn master_that_changes_places_with_its_replica_loses_nothing() {
    let cluster = FAILING.lock().await;
    let limiter = limiter(cluster.url()).await;
    let load = everywhere(&limiter, "switch");
    load.more(300).await;
    cluster.switch_over(cluster.masters()[1]);
    load.more_decided(300).await;
    let tally = load.stop().await;
    assert!(tally.most() <= BURST, "{}", tally.most());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slot_is_found_on_a_master_that_had_none() {
    let cluster = FAILING.lock().await;
    let limiter = patient_limiter(cluster.url()).await;
    let masters = cluster.masters();
    let (from, new) = (masters[2], cluster.replica_of(masters[2]));
    let port = from.port().to_string();
    let config = from.command(&["CONFIG", "GET", "cluster-port"]);
    let bus = config.array()[1].text();
    new.command(&["CLUSTER", "RESET"]).expect_success();
    new.command(&["CLUSTER", "MEET", "127.0.0.1", &port, bus])
        .expect_success();
    cluster.wait_until_settled();
    let id = ids_of(&cluster, from, "moved").remove(0);
    let slot = cluster.slot_of(&id);
    let own = id.clone();
    let load = Load::start(&limiter, "one", 4, move |_| vec![own.clone()]);
    load.more(50).await;
    cluster.migrate(slot, new);
    load.more(50).await;
    let tally = load.stop().await;
    assert_eq!(tally.errors(), [].into());
    assert_eq!(tally.admitted.lock().unwrap().get(&id), Some(&BURST));
    cluster.migrate(slot, from);
    new.command(&["CLUSTER", "REPLICATE", from.id()])
        .expect_success();
    cluster.wait_until_settled();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_master_is_left_for_the_one_that_the_sentinels_choose() {
    let sentinels = Sentinels::start();
    let limiter = limiter(sentinels.url()).await;
    let load = everywhere(&limiter, "silent");
    load.more(300).await;
    let old = sentinels.master();
    old.pause();
    sentinels.replace(old);
    until_decided(&limiter, "one", &["fresh".to_owned()]).await;
    load.more(300).await;
    old.resume();
    sentinels.wait_until_settled();
    load.more(300).await;
    let tally = load.stop().await;
    assert!(tally.most() <= 2 * BURST, "{}", tally.most());
    killed_master_is_replaced(&sentinels, &limiter).await;
}

async fn killed_master_is_replaced(sentinels: &Sentinels, limiter: &Limiter) {
    let load = everywhere(limiter, "killed");
    load.more(300).await;
    sentinels.fail_over();
    until_decided(limiter, "one", &["again".to_owned()]).await;
    load.more(300).await;
    let tally = load.stop().await;
    assert!(tally.most() <= 2 * BURST, "{}", tally.most());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_becomes_a_replica_is_left_until_it_is_a_master_again() {
    let (server, master) = (Server::start(), Server::start());
    let limiter = patient_limiter(server.url()).await;
    let follow =
        |host: &str, port: &str| server.command(&["REPLICAOF", host, port]).expect_success();
    follow("127.0.0.1", &master.port().to_string());
    let connections = || {
        server
            .info("total_connections_received")
            .parse::<u32>()
            .unwrap()
    };
    let before = connections();
    let error = spend(&limiter, "one", &["id".to_owned()])
        .await
        .unwrap_err();
    assert!(error.is_read_only(), "{error}");
    // Each look at it is a connection, too.
    let mut looks = 0;
    wait_until("another connection is made", async || {
        looks += 1;
        connections() > before + looks
    })
    .await;
    follow("NO", "ONE");
    until_decided(&limiter, "one", &["id".to_owned()]).await;
}
