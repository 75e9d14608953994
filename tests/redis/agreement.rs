//! Memory, a server and a cluster decide the same random histories, and answer alike to the microsecond.

use std::sync::Arc;

use tollgate::{
    MemoryBackend,
    backend::Backend,
    testing::cases::{history, tiers_history, windows_history},
};

use crate::{CLUSTER, SERVER, connect, support::scale::scaled};

/// Runs four histories, each on three backends. A history has a seed, and ids that begin with its own prefix.
async fn agree<F: Future<Output = ()> + Send + 'static>(
    prefix: &str,
    history: impl Fn(u64, [Arc<dyn Backend>; 3], String) -> F,
) {
    let mut tasks = Vec::new();
    for seed in 0..4 {
        let backends: [Arc<dyn Backend>; 3] = [
            Arc::new(MemoryBackend::new()),
            Arc::new(connect(SERVER.url()).await),
            Arc::new(connect(CLUSTER.url()).await),
        ];
        tasks.push(tokio::spawn(history(
            seed,
            backends,
            format!("{prefix}{seed}-"),
        )));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_redis_and_a_cluster_agree_on_random_histories() {
    agree("history", |seed, backends, ids| async move {
        history::live_through(scaled(2_000), seed, &backends, &ids).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_redis_and_a_cluster_agree_on_random_tiers() {
    // The limits follow from the seed.
    for round in 0..scaled(1) {
        agree(
            &format!("tiers{round}-"),
            move |seed, backends, ids| async move {
                tiers_history::live_through(1_000, 1000 + 4 * round + seed, &backends, &ids).await;
            },
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_redis_and_a_cluster_agree_on_random_windows_and_quotas() {
    agree("windows", |seed, backends, ids| async move {
        windows_history::live_through(scaled(1_000), seed, &backends, &ids).await;
    })
    .await;
}
