//! PostgreSQL decides as memory and the models do, whatever changes between two batches: batches, receipts, renewals, resets,
//! and the limit itself.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::{
    Limit,
    backend::custom::Operation,
    testing::driver::{Driver, Question, START, VERSIONS},
};

use crate::{histories::agree, scale::scaled, server::Server};

/// About 4000 operations on single buckets: 500,000 at a scale of 125.
#[test]
fn limits_that_change_are_decided_as_by_the_models() {
    tollgate::testing::block_on(async {
        let backend = Server::shared().backend("agreement").await;
        agree(backend, scaled(1)).await;
    });
}

#[test]
fn states_of_4096_units_are_kept() {
    tollgate::testing::block_on(async {
        let backend = Server::shared().backend("large").await;
        let hour = Duration::from_secs(3600);
        let driver =
            Driver::new(backend).versions([Limit::window(4096, hour), Limit::concurrent(4096)]);
        let window = [Question::new(VERSIONS, 1, 1)];
        for step in 0..4 {
            let many = [Question::new(VERSIONS, 1, 1024)];
            assert!(driver.spends(START + step, &many).await);
        }
        assert!(!driver.spends(START + 9, &window).await);
        let end = START + 3_600_000_000;
        assert!(!driver.spends(end - 1, &window).await);
        assert!(driver.spends(end, &window).await);
        let permits = [Question::new(VERSIONS + 1, 1, 1)];
        // They travel together.
        let mut asking = JoinSet::new();
        for _ in 0..4096 {
            let driver = driver.clone();
            asking.spawn(async move { driver.ask(START, Operation::Spend, &permits).await });
        }
        let taken = asking.join_all().await.into_iter();
        let taken: Vec<_> = taken.flat_map(Result::unwrap).collect();
        assert!(taken.iter().all(|answer| answer.passed));
        assert!(!driver.spends(START + 9, &permits).await);
        let refund = [permits[0].of(&taken[77])];
        let refunded = driver.ask(START + 10, Operation::Refund, &refund).await;
        assert!(refunded.unwrap()[0].passed);
        assert!(driver.spends(START + 11, &permits).await);
    });
}
