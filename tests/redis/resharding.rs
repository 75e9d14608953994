//! A cluster whose slots move while it decides.

use std::slice;

use futures_util::future::join_all;
use tokio::sync::{Mutex, MutexGuard};
use tollgate::{Limiter, RedisBackend, backend::redis::KeyForm};

use crate::{
    CLUSTER, connect_as,
    eventually::eventually_async,
    load::{BURST, Load, Tally, limits, load, spend},
    redis_support::{Cluster, Node, mixed},
};

/// One slot is moved at a time.
static TURN: Mutex<()> = Mutex::const_new(());

/// A slot of the shared cluster, and the node that it moves to.
struct Moving<'a> {
    cluster: &'a Cluster,
    account: &'static str,
    slot: u16,
    to: &'a Node,
    _turn: MutexGuard<'static, ()>,
}

impl Moving<'_> {
    async fn of(account: &'static str) -> Self {
        let turn = TURN.lock().await;
        let cluster = &*CLUSTER;
        let slot = cluster.slot_of(&format!("{{{account}}}"));
        let from = cluster.owner(slot);
        let masters = cluster.masters();
        let mut others = masters.iter().filter(|node| node.id() != from.id());
        Self {
            cluster,
            account,
            slot,
            to: others.next().unwrap(),
            _turn: turn,
        }
    }

    fn id(&self, number: usize) -> String {
        id(self.account, number)
    }

    /// Moves a bucket of the open slot, if it exists.
    fn move_bucket(&self, id: &str) {
        let from = self.cluster.owner(self.slot);
        if let Some(key) = from.key_of(&format!("2:{id}")) {
            self.cluster.move_key(&key, self.to);
        }
    }

    /// Moves the slot while load goes on, one step at a time.
    async fn go(&self, load: &Load) {
        load.more(200).await;
        self.cluster.begin_migration(self.slot, self.to);
        load.more(200).await;
        for number in (0..20).step_by(2) {
            self.move_bucket(&self.id(number));
        }
        load.more(200).await;
        self.cluster.move_keys(self.slot, self.to);
        load.more(200).await;
        // A server gives up no slot in which it still has a key, so a second pass moves what the first has missed.
        self.cluster.move_keys(self.slot, self.to);
        self.cluster.finish_migration(self.slot, self.to);
        load.more(200).await;
    }
}

/// A limiter with a tag for each slot, so that no other test has keys in a slot that is moved.
async fn limiter() -> Limiter {
    let form = KeyForm::default().tags(16_384).unwrap();
    let backend = RedisBackend::builder(CLUSTER.url()).keys(form);
    Limiter::new(limits(), connect_as(backend).await)
}

fn id(account: &str, number: usize) -> String {
    format!("{account}:d{number}.com")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_is_found_wherever_its_slot_moves() {
    let moving = Moving::of("7001").await;
    let limiter = limiter().await;
    let from = moving.cluster.owner(moving.slot);
    let load = load(&limiter, "ofAccount", 6, |call| {
        vec![id("7001", mixed(call, 6))]
    });
    moving.go(&load).await;
    let tally = Tally::of(load).await;
    tally.assert_no_errors();
    assert_eq!(tally.most(), BURST);
    assert_admitted_exactly(&tally);
    // The table is read again, so spends go to the new master at once.
    eventually_async("no spend is redirected", async || {
        let before = from.info("errorstat_MOVED");
        let ids = [moving.id(0)];
        spend(&limiter, "ofAccount", &ids).await.unwrap();
        from.info("errorstat_MOVED") == before
    })
    .await;
}

/// Without errors, each id that was spent six times or more was admitted the burst.
fn assert_admitted_exactly(tally: &Tally) {
    let admitted = &tally.admitted;
    let newest = admitted.len() - 1;
    let full = admitted.values().filter(|count| **count == BURST);
    assert!(full.count() >= newest, "{admitted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_is_decided_while_its_keys_are_on_both_sides() {
    let moving = Moving::of("7002").await;
    let limiter = limiter().await;
    let pairs = |call| {
        let pair = mixed(call, 6);
        vec![id("7002", 2 * pair), id("7002", 2 * pair + 1)]
    };
    let load = load(&limiter, "ofAccount", 6, pairs);
    moving.go(&load).await;
    let tally = Tally::of(load).await;
    tally.assert_no_errors();
    assert_eq!(tally.most(), BURST, "{:?}", tally.admitted);
    assert_settled(&limiter, &tally).await;
}

/// Spends all that an id has left, and returns how much that is.
async fn left(limiter: &Limiter, id: &String) -> u32 {
    let mut left = 0;
    while spend(limiter, "ofAccount", slice::from_ref(id))
        .await
        .unwrap()
    {
        left += 1;
    }
    left
}

/// Exactly the admitted requests are charged.
async fn assert_settled(limiter: &Limiter, tally: &Tally) {
    for (id, count) in &tally.admitted {
        assert_eq!(count + left(limiter, id).await, BURST, "{id}");
    }
}

#[tokio::test]
async fn grouped_calls_are_decided_while_their_keys_are_on_both_sides() {
    let moving = Moving::of("7003").await;
    let limiter = limiter().await;
    let ids: Vec<_> = (0..12).map(|number| moving.id(number)).collect();
    let spend_one = |id| spend(&limiter, "ofAccount", slice::from_ref(id));
    for id in &ids[..6] {
        assert!(spend_one(id).await.unwrap());
    }
    moving.cluster.begin_migration(moving.slot, moving.to);
    for id in &ids[..3] {
        moving.move_bucket(id);
    }
    for passed in join_all(ids.iter().map(spend_one)).await {
        assert!(passed.unwrap());
    }
    moving.cluster.move_keys(moving.slot, moving.to);
    moving.cluster.finish_migration(moving.slot, moving.to);
    for (number, id) in ids.iter().enumerate() {
        let expected = if number < 6 { 1 } else { 2 };
        assert_eq!(left(&limiter, id).await, expected, "{id}");
    }
}
