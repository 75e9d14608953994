//! Memory decides as the models do, whatever changes between two batches: period, window, hold, limit and algorithm.

use tollgate::MemoryBackend;

use crate::support::{histories::agree, scale::scaled};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_change_are_decided_as_by_the_models() {
    agree(MemoryBackend::new(), scaled(20)).await;
}
