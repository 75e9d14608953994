//! Batches whose buckets are in two slots of a cluster, and a store that fails in the middle of them.

use std::time::Duration;

use tokio::time::sleep;
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    backend::{Backend, BackendError, custom::Operation},
    clock::TokioClock,
    decision::BatchDecision,
    limiter::LimiterError,
    testing::SimulatedCluster,
};

use crate::support::{
    patience::settle,
    store::{Fate, Store},
};

const SECOND: Duration = Duration::from_secs(1);

/// One permit of a client, and one request of another one, whose bucket is in another slot.
fn batch() -> [Transaction<'static>; 2] {
    [
        Transaction::new("jobs", "a"),
        Transaction::new("requests", "bb"),
    ]
}

fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("jobs", Limit::concurrent(1).hold(60 * SECOND))
        .limit("requests", Limit::per_hour(1));
    Limiter::new(limits.build().unwrap(), backend)
}

/// The client of a cluster, in which ids of different lengths are in different slots.
fn cluster(store: &Store) -> Limiter {
    let slot_of = |id: &str| id.len().try_into().unwrap();
    limiter(SimulatedCluster::new(store.clone(), slot_of, SECOND))
}

/// The buckets of a store, whatever happens to its calls.
fn stored(store: &Store) -> Limiter {
    limiter(store.memory()).with_clock(TokioClock::default())
}

/// The permits that are left.
async fn permits_left(store: &Store) -> Option<u32> {
    let peeked = stored(store).peek(&batch()[0]).await;
    peeked.unwrap().remaining()
}

/// Spends a batch that passes when it is checked. Before it is charged, somebody else takes the only request.
async fn deny_after_the_check(store: &Store) -> Result<BatchDecision, LimiterError> {
    let cluster = cluster(store);
    let spent = tokio::spawn(async move { cluster.spend_batch(&batch()).await });
    store.gates().decide.add_permits(2);
    store.gates().answer.add_permits(2);
    settle().await;
    assert_eq!(store.count(Operation::Check), 2);
    assert!(stored(store).spend(&batch()[1]).await.unwrap().allowed());
    store.gates().open();
    spent.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_the_lost_answer_to_a_charge_leaves_open_what_was_charged() {
    let store = Store::default();
    let cluster = cluster(&store);
    store.set_fate_of(Operation::Check, Fate::AppliesThenErrors);
    let error = cluster.spend_batch(&batch()).await.unwrap_err();
    assert!(
        matches!(error, LimiterError::Backend(BackendError::NotDone(_))),
        "{error}"
    );
    store.set_fate_of(Operation::Spend, Fate::AppliesThenErrors);
    let error = cluster.spend_batch(&batch()).await.unwrap_err();
    assert!(
        matches!(error, LimiterError::Backend(BackendError::Unavailable(_))),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn denied_batch_gives_its_permits_back_at_once_and_once() {
    let store = Store::gated();
    let denied = deny_after_the_check(&store).await.unwrap();
    assert!(!denied.allowed());
    assert_eq!(permits_left(&store).await, Some(1));
    sleep(SECOND).await;
    assert_eq!(store.count(Operation::Refund), 1);
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_denied_batch_are_given_back_even_if_the_store_fails_meanwhile() {
    let store = Store::gated();
    store.set_fate_of(Operation::Refund, Fate::NoReply);
    let denied = deny_after_the_check(&store).await.unwrap();
    assert!(!denied.allowed());
    assert_eq!(permits_left(&store).await, Some(0));
    store.set_fate(Fate::Works);
    sleep(SECOND).await;
    assert_eq!(permits_left(&store).await, Some(1));
}
