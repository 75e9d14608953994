//! Permits on real servers: against an independent model, and what a process sends for them.

use futures_util::future::join_all;
use tollgate::testing::{cases::concurrency_history::live_through, cases::world::World};

use crate::{CLUSTER, SERVER, connect, support::scale::scaled};

async fn histories(url: String) {
    let histories = (0..4).map(async |seed| {
        let world = World::new(connect(url.clone()).await);
        live_through(&world, scaled(5_000), seed).await;
    });
    join_all(histories).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_holds_permits_as_a_list_of_instants_does() {
    histories(SERVER.url()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_holds_permits_as_a_list_of_instants_does() {
    histories(CLUSTER.url()).await;
}
