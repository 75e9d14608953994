//! Faults in the way of a service's calls to Redis, which the check has to find.

use std::sync::Arc;

use super::{SHAPES, Setup, WAVE};
use crate::{
    SERVER,
    histories::{
        clients::Shape,
        lossy::{Losses, Lossy},
        planted::{RefundsTheUnknown, RefundsTwice, RenewsBudget},
        stack::Stack,
    },
    redis_support::Proxy,
};

/// How many waves of histories a fault can hide in.
const WAVES: u64 = 50;

/// A fault is found in one of many histories.
async fn assert_found(setup: Setup, kind: (Stack, Shape)) {
    for wave in 0..WAVES {
        let histories = setup.histories(kind, wave * WAVE..(wave + 1) * WAVE).await;
        if histories.iter().any(|history| !history.is_explained()) {
            return;
        }
    }
    panic!("{} is not found", setup.name);
}

#[tokio::test]
async fn answers_that_are_swapped_within_a_group_are_found() {
    for shape in SHAPES {
        let proxy = Proxy::start(SERVER.addr()).await;
        let setup = Setup::on("swapped", &[proxy.url()]).await;
        proxy.swap_answers();
        assert_found(setup, (Stack::Bare, shape)).await;
    }
}

#[tokio::test]
async fn refund_after_an_unknown_outcome_is_found() {
    let mut setup = Setup::on("unknown", &[SERVER.url()]).await;
    setup.wrap = |store, random| {
        Arc::new(RefundsTheUnknown(Arc::new(Lossy {
            store,
            random: random.clone(),
            losses: Losses::Some,
        })))
    };
    assert_found(setup, (Stack::Bare, Shape::Mixed)).await;
}

#[tokio::test]
async fn lease_that_is_refunded_twice_is_found() {
    let mut setup = Setup::on("twice", &[SERVER.url()]).await;
    setup.wrap = |store, _| Arc::new(RefundsTwice(store));
    // All that is refunded are leases.
    assert_found(setup, (Stack::Leasing, Shape::Spends)).await;
}

#[tokio::test]
async fn refund_that_renews_a_local_budget_is_found() {
    let mut setup = Setup::on("renewed", &[SERVER.url()]).await;
    setup.wrap = |store, random| {
        Arc::new(RenewsBudget::new(Arc::new(Lossy {
            store,
            random: random.clone(),
            losses: Losses::All,
        })))
    };
    assert_found(setup, (Stack::Deciding, Shape::Mixed)).await;
}
