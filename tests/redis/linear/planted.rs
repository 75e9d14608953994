//! A fault in the way of a service's calls to Redis, which the check has to find. Others are planted in memory.

use super::{SHAPES, Setup, WAVE};
use crate::{
    SERVER,
    histories::{clients::Shape, stack::Stack},
    redis_support::Proxy,
};

/// How many waves of histories a fault can hide in.
const WAVES: u64 = 50;

/// Whether a fault is found in one of many histories.
async fn is_found(setup: &Setup, kind: (Stack, Shape)) -> bool {
    for wave in 0..WAVES {
        let histories = setup.histories(kind, wave * WAVE..(wave + 1) * WAVE).await;
        if histories.iter().any(|history| !history.is_explained()) {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn answers_that_are_swapped_within_a_group_are_found() {
    for shape in SHAPES {
        let proxy = Proxy::start(SERVER.addr()).await;
        let setup = Setup::on("swapped", &[proxy.url()]).await;
        proxy.swap_answers();
        assert!(is_found(&setup, (Stack::Bare, shape)).await, "{shape:?}");
    }
}
