//! Linearizability in memory: short histories of several clients are explained by some order, on each stack of wrappers.
//! Faults that are planted are found.

use std::{sync::Arc, time::Duration};

use tollgate::{MemoryBackend, backend::Backend};

use crate::{
    histories::{
        clients::{Shape, World},
        faults::{Losses, Lossy, RefundsTheUnknown, RefundsTwice, RenewsBudget, SwapsAnswers},
        random::Random,
        stack::Stack,
    },
    support::scale::scaled,
};

type Wrap = fn(Arc<dyn Backend>) -> Arc<dyn Backend>;

/// Within it, a process gives back what it holds.
const IDLE: Duration = Duration::from_secs(3);

/// What histories are made with.
#[derive(Clone, Copy, Debug)]
struct Setup {
    stack: Stack,
    shape: Shape,
    losses: Losses,
    /// What is around the store, in each process.
    wrap: Wrap,
}

/// Whether a history is explained, of one process or two on one store.
async fn is_explained(setup: Setup, seed: u64) -> bool {
    let random = Random::new(seed);
    let store: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    let processes = u32::try_from(1 + seed % 2).unwrap();
    let backends = (0..processes).map(|_| {
        let lossy = Lossy {
            store: Arc::clone(&store),
            random: random.clone(),
            losses: setup.losses,
        };
        let store = (setup.wrap)(Arc::new(lossy));
        setup.stack.around(store, processes)
    });
    let kind = (setup.stack, setup.shape);
    let world = World::new(kind, backends, random.clone(), "id".to_owned());
    let history = Arc::new(world.idle(IDLE)).history().await;
    history.is_explained()
}

#[tokio::test(start_paused = true)]
async fn each_stack_is_linearizable() {
    for stack in Stack::ALL
        .into_iter()
        .chain([Stack::Cached, Stack::Leasing])
    {
        for seed in 0..scaled(150_u64) {
            let losses = [Losses::Nothing, Losses::Some][usize::from(seed % 4 > 1)];
            let setup = Setup {
                stack,
                shape: Shape::Mixed,
                losses,
                wrap: |store| store,
            };
            assert!(is_explained(setup, seed).await, "{setup:?}, {seed}");
        }
    }
}

/// A fault is found in one of many histories of one process.
async fn assert_found(setup: Setup) {
    for seed in 0..2000 {
        if !is_explained(setup, 2 * seed).await {
            return;
        }
    }
    panic!("not found: {setup:?}");
}

#[tokio::test(start_paused = true)]
async fn planted_faults_are_found() {
    let refunds_the_unknown = Setup {
        stack: Stack::Bare,
        shape: Shape::Mixed,
        losses: Losses::Some,
        wrap: |store| Arc::new(RefundsTheUnknown(store)),
    };
    assert_found(refunds_the_unknown).await;
    let swaps_answers = Setup {
        losses: Losses::Nothing,
        wrap: |store| Arc::new(SwapsAnswers::new(store)),
        ..refunds_the_unknown
    };
    assert_found(swaps_answers).await;
    let renews_budget = Setup {
        stack: Stack::Deciding,
        losses: Losses::All,
        wrap: |store| Arc::new(RenewsBudget::new(store)),
        ..refunds_the_unknown
    };
    assert_found(renews_budget).await;
    // All that is refunded are leases.
    let refunds_twice = Setup {
        stack: Stack::Leasing,
        shape: Shape::Spends,
        losses: Losses::Nothing,
        wrap: |store| Arc::new(RefundsTwice(store)),
    };
    assert_found(refunds_twice).await;
}
