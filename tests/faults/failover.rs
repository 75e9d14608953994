//! Several servers: another one becomes the master, or the owner of a slot.

use std::time::Instant;

use crate::{
    load::Load,
    redis_support::{Cluster, Sentinels, Server, wait_for},
    report::{always, failed_over},
    stack::{LONG, PATIENCE, Stack},
};

/// Waits until a replica has what a master had at the time that is returned.
pub(crate) fn replicated(master: &Server) -> Instant {
    let known = Instant::now();
    let mut to = master.connect(PATIENCE).unwrap();
    // A key in one of the master's slots, or in any.
    let key = |number: u32| format!("marker{number}");
    let written = (0..1000).any(|number| {
        let reply = to.command(&["SET", &key(number), "", "PX", "1"]);
        reply.unwrap().is_ok()
    });
    assert!(written);
    wait_for("a replica has it", || {
        let reply = to.command(&["WAIT", "1", "500"]);
        reply.unwrap().integer() >= 1
    });
    known
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_in_a_cluster_loses_what_was_not_replicated() {
    let cluster = Cluster::start();
    let load = Load::start(Stack::connect(cluster.url()).await);
    load.more(2000).await;
    let master = cluster.masters()[0];
    let known = replicated(master);
    cluster.fail_over(master);
    let back = load.returns_after(Instant::now()).await;
    load.more(1000).await;
    let report = load.stop().await;
    report.print(&format!("failover in a cluster, {back:?}"));
    report.assert_admitted(known, failed_over);
    report.assert_none_denied_wrongly();
    let masters = cluster.masters();
    report.end(masters.iter().map(|node| &***node));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_by_sentinels_loses_what_was_not_replicated() {
    let sentinels = Sentinels::start();
    let load = Load::start(Stack::connect(sentinels.url()).await);
    load.more(2000).await;
    let known = replicated(sentinels.master());
    let master = sentinels.fail_over();
    load.more_without_the_store(0).await;
    let back = load.returns_after(Instant::now()).await;
    load.more(1000).await;
    let report = load.stop().await;
    report.print(&format!("failover by sentinels, {back:?}"));
    report.assert_admitted(known, failed_over);
    report.assert_none_denied_wrongly();
    report.end([master]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_are_not_noticed() {
    let cluster = Cluster::start();
    let load = Load::start(Stack::with_deadline(cluster.url(), LONG).await);
    load.more(500).await;
    for client in 0..3 {
        let slot = cluster.slot_of(&format!("{{client{client}}}"));
        let from = cluster.owner(slot).id().to_owned();
        let masters = cluster.masters();
        let to = masters.iter().find(|node| node.id() != from).unwrap();
        cluster.migrate(slot, to);
        load.more(300).await;
    }
    let report = load.stop().await;
    report.print("slots moved");
    assert_eq!((report.without(), report.opened()), (0, 0));
    report.assert_admitted(Instant::now(), always);
    report.assert_none_denied_wrongly();
    let masters = cluster.masters();
    report.end(masters.iter().map(|node| &***node));
}
