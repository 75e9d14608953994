//! Masters that fail, and those that take their place.

use std::sync::LazyLock;

use tokio::sync::Mutex;
use tollgate::Limiter;

use crate::{
    eventually::eventually,
    load::{BURST, Load, Tally, limiter, load, patient_limiter, spend, until_decided},
    redis_support::{Cluster, Node, Sentinels, is_redis_6, mixed},
};

/// A cluster whose masters fail, one after another.
static FAILING: LazyLock<Mutex<Cluster>> = LazyLock::new(|| Mutex::new(Cluster::start()));

/// Ids of a name that are in slots of this node.
fn ids_of(cluster: &Cluster, node: &Node, name: &str) -> Vec<String> {
    let ids = (0..).map(|number| format!("{name}{number}"));
    let own = ids.filter(|id| cluster.owner(cluster.slot_of_client(id)).id() == node.id());
    own.take(5).collect()
}

/// Load on ids that are in all slots.
fn everywhere(limiter: &Limiter, name: &'static str) -> Load {
    load(limiter, "one", 6, move |call| {
        vec![format!("{name}{}", mixed(call, 6))]
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn master_that_changes_places_with_its_replica_loses_nothing() {
    let cluster = FAILING.lock().await;
    let limiter = limiter(cluster.url()).await;
    let load = everywhere(&limiter, "switch");
    load.more(300).await;
    cluster.switch_over(cluster.masters()[1]);
    load.more_of(300, |spend| spend.passed.is_ok()).await;
    let tally = Tally::of(load).await;
    assert_eq!(tally.most(), BURST);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn first_decision_after_an_idle_failover_is_right() {
    let cluster = FAILING.lock().await;
    let [old, other, ..] = cluster.masters()[..] else {
        panic!("there are three")
    };
    // It does not know the replica yet.
    let limiter = patient_limiter(format!("redis-cluster://{}", other.addr())).await;
    let ids = ids_of(&cluster, old, "quiet");
    cluster.replica_of(old).exec(&["CONFIG", "RESETSTAT"]);
    let new = cluster.fail_over(old);
    eventually("the new master is connected", || {
        !new.info("cmdstat_evalsha").is_empty()
    });
    assert_eq!(spend(&limiter, "one", &ids[..1]).await.ok(), Some(true));
    cluster.restart(old);
}

/// Servers without a name announce `?`, or no host at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_announces_no_host_is_asked_where_it_was_reached() {
    let cluster = FAILING.lock().await;
    let announce = |endpoint| {
        for node in cluster.nodes() {
            node.configure("cluster-preferred-endpoint-type", endpoint);
        }
    };
    for endpoint in ["hostname", "unknown-endpoint"] {
        announce(endpoint);
        let [from, to, ..] = cluster.masters()[..] else {
            panic!("there are three")
        };
        let limiter = patient_limiter(format!("redis-cluster://{}", from.addr())).await;
        for master in cluster.masters() {
            let ids = ids_of(&cluster, master, endpoint);
            assert_eq!(spend(&limiter, "one", &ids[..1]).await.ok(), Some(true));
        }
        // The table is old, so the call is redirected.
        let ids = ids_of(&cluster, from, "redirected");
        let slot = cluster.slot_of_client(&ids[0]);
        cluster.migrate(slot, to);
        assert_eq!(spend(&limiter, "one", &ids[..1]).await.ok(), Some(true));
        cluster.migrate(slot, from);
    }
    announce("ip");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slot_is_found_on_a_master_that_had_none() {
    let cluster = FAILING.lock().await;
    let limiter = patient_limiter(cluster.url()).await;
    let masters = cluster.masters();
    let (from, new) = (masters[2], cluster.replica_of(masters[2]));
    new.exec(&["CLUSTER", "RESET"]);
    new.meet(from);
    cluster.wait_until_settled();
    let id = ids_of(&cluster, from, "moved").remove(0);
    let slot = cluster.slot_of_client(&id);
    let own = id.clone();
    let load = load(&limiter, "one", 4, move |_| vec![own.clone()]);
    load.more(50).await;
    cluster.migrate(slot, new);
    load.more(50).await;
    let tally = Tally::of(load).await;
    tally.assert_no_errors();
    assert_eq!(tally.admitted[&id], BURST);
    cluster.migrate(slot, from);
    new.exec(&["CLUSTER", "REPLICATE", from.id()]);
    cluster.wait_until_settled();
}

/// Returns how often the servers were asked for their table of slots.
fn tables_read(servers: &[&Node]) -> u64 {
    // Redis 6.2 has one figure for all commands about the cluster.
    let statistic = if is_redis_6() {
        "cmdstat_cluster"
    } else {
        "cmdstat_cluster|slots"
    };
    let of_server = |server: &&Node| count(&server.info(statistic));
    servers.iter().map(of_server).sum()
}

/// Reads the first number of a statistic, such as `calls=3,usec=17`, which is missing until it happens.
fn count(statistic: &str) -> u64 {
    let first = statistic.split(',').next().unwrap();
    first
        .split_once('=')
        .map_or(0, |(_, number)| number.parse().unwrap())
}

/// Returns the id of the client that has connected last.
fn newest_client(node: &Node) -> String {
    let clients: String = node.query(&["CLIENT", "LIST", "TYPE", "normal"]);
    let mut newest_first = clients.lines().rev();
    let newest = newest_first.find(|client| client.contains("addr=127.0.0.1"));
    let newest = newest.unwrap();
    newest.split(' ').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_table_keeps_the_links_to_servers_that_are_not_in_the_url() {
    let cluster = FAILING.lock().await;
    let [first, second, third, ..] = cluster.masters()[..] else {
        panic!("there are three")
    };
    let limiter = patient_limiter(format!("redis-cluster://{}", first.addr())).await;
    let client = newest_client(second);
    // The first of two new tables has been taken over before the second is asked for.
    let servers = [first, second, third];
    let before = tables_read(&servers);
    eventually("the table is read twice", || {
        third.exec(&["CLIENT", "KILL", "TYPE", "normal"]);
        tables_read(&servers) >= before + 2
    });
    let ids = ids_of(&cluster, second, "kept");
    assert_eq!(spend(&limiter, "one", &ids[..1]).await.ok(), Some(true));
    assert_eq!(newest_client(second), client);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn table_is_read_again_if_a_master_does_not_answer() {
    let cluster = FAILING.lock().await;
    let limiter = limiter(cluster.url()).await;
    let [silent, others @ ..] = &cluster.masters()[..] else {
        panic!("there are three")
    };
    let ids = ids_of(&cluster, silent, "late");
    let before = tables_read(others);
    silent.pause();
    let passed = spend(&limiter, "one", &ids[..1]).await;
    eventually("the table is read again", || tables_read(others) > before);
    silent.resume();
    assert!(passed.is_err(), "{passed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirections_without_end_are_given_up_after_a_few() {
    let cluster = FAILING.lock().await;
    let limiter = patient_limiter(cluster.url()).await;
    let [one, other, ..] = cluster.masters()[..] else {
        panic!("there are three")
    };
    let ids = ids_of(&cluster, one, "circle");
    let slot = cluster.slot_of_client(&ids[0]).to_string();
    let redirections = || {
        let of_node = |node: &Node| count(&node.info("errorstat_MOVED"));
        of_node(one) + of_node(other)
    };
    let before = redirections();
    // A server refuses to give up a slot that has keys. After this, each of the two says that the other has the slot.
    one.exec(&["FLUSHALL"]);
    one.exec(&["CLUSTER", "SETSLOT", &slot, "NODE", other.id()]);
    let passed = spend(&limiter, "one", &ids[..1]).await;
    let followed = redirections() - before;
    one.exec(&["CLUSTER", "SETSLOT", &slot, "NODE", one.id()]);
    cluster.wait_until_settled();
    let error = passed.unwrap_err();
    assert!(error.to_string().contains("MOVED"), "{error}");
    assert_eq!(followed, 4);
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
    let tally = Tally::of(load).await;
    assert!(tally.most() <= 2 * BURST, "{}", tally.most());
}
