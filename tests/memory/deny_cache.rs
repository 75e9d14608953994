//! Denials without asking the store: one that counts its calls, behind a cache.

use std::{slice, time::Duration};

use futures_util::{
    FutureExt,
    future::{join, join_all},
};
use tokio::time::{advance, sleep, timeout};
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    backend::{
        Backend, BackendError, DenyCache, async_trait,
        custom::{Batch, Outcome},
    },
    clock::TokioClock,
    decision::Source,
    tiers::Tier,
    transaction::Mode,
};

use crate::{
    refund, spend,
    support::store::{Fate, Store},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn limits(limit: Limit) -> Limits {
    let limits = Limits::builder().limit("requests", limit);
    limits
        .limit("other", Limit::per_minute(60).burst(10))
        .build()
        .unwrap()
}

/// A store behind a cache, with one token per second and 10 at once, or another limit.
fn cached(store: &Store, limit: impl Into<Option<Limit>>) -> Limiter {
    let limit = limit.into().unwrap_or(Limit::per_minute(60).burst(10));
    Limiter::new(limits(limit), DenyCache::new(store.clone()))
}

/// Another process at the same store.
fn other(store: &Store) -> Limiter {
    Limiter::new(limits(Limit::per_minute(60).burst(10)), store.clone())
}

fn one() -> Transaction<'static> {
    Transaction::new("requests", "client")
}

/// Uses up 10 units, and is denied once by the store.
async fn use_up(limiter: &Limiter) {
    assert!(spend(limiter, one().cost(10)).await.allowed());
    let denied = spend(limiter, one()).await;
    assert!(!denied.allowed() && denied.source() == Source::Store);
}

#[tokio::test(start_paused = true)]
async fn denied_client_costs_the_store_one_call() {
    let store = Store::default();
    let limiter = cached(&store, None);
    use_up(&limiter).await;
    assert_eq!(store.calls(), 2);
    for passed in 0..10 {
        let denied = limiter
            .try_spend(&one())
            .expect("it does not wait")
            .unwrap();
        assert_eq!((denied.allowed(), denied.source()), (false, Source::Cache));
        assert_eq!(denied.remaining(), Some(0));
        assert_eq!(denied.retry_after(), Some(SECOND - 100 * passed * MS));
        assert_eq!(denied.more_after(), Some(SECOND - 100 * passed * MS));
        assert_eq!(denied.reset_after(), Some(10 * SECOND - 100 * passed * MS));
        assert!(!limiter.check(&one()).await.unwrap().allowed());
        advance(100 * MS).await;
    }
    assert_eq!(store.calls(), 0);
    assert!(
        spend(&limiter, one()).await.allowed(),
        "after the second that the store has said"
    );
    assert!(
        spend(&limiter, Transaction::new("requests", "another"))
            .await
            .allowed()
    );
    assert!(
        spend(&limiter, Transaction::new("other", "client"))
            .await
            .allowed()
    );
    assert_eq!(store.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn cached_denial_applies_to_equal_or_higher_costs() {
    let store = Store::default();
    let limiter = cached(&store, None);
    assert!(spend(&limiter, one().cost(7)).await.allowed());
    assert!(!spend(&limiter, one().cost(5)).await.allowed());
    store.calls();
    assert!(!spend(&limiter, one().cost(5)).await.allowed());
    assert!(!spend(&limiter, one().cost(9)).await.allowed());
    assert_eq!(store.calls(), 0);
    assert!(!spend(&limiter, one().cost(4)).await.allowed());
    assert!(spend(&limiter, one().cost(3)).await.allowed());
    assert_eq!(store.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn cached_denial_ends_at_the_time_of_the_store_even_if_its_answer_is_late() {
    let store = Store::default();
    let limiter = cached(&store, None);
    assert!(spend(&limiter, one().cost(10)).await.allowed());
    store.set_fate(Fate::Takes(400 * MS));
    assert!(!spend(&limiter, one()).await.allowed());
    store.set_fate(Fate::Works);
    let denied = spend(&limiter, one()).await;
    assert_eq!(
        (denied.source(), denied.retry_after()),
        (Source::Cache, Some(600 * MS))
    );
    advance(600 * MS).await;
    assert!(spend(&limiter, one()).await.allowed());
}

#[tokio::test(start_paused = true)]
async fn refunds_of_others_take_effect_after_five_seconds() {
    let store = Store::default();
    let limiter = cached(&store, Limit::per_day(10));
    use_up(&limiter).await;
    other(&store).reset(&[one()]).await.unwrap();
    advance(5 * SECOND - MS).await;
    assert!(!spend(&limiter, one()).await.allowed());
    advance(MS).await;
    assert!(spend(&limiter, one()).await.allowed());
}

#[tokio::test(start_paused = true)]
async fn own_refunds_and_resets_take_effect_at_once() {
    let store = Store::default();
    let limiter = cached(&store, None);
    use_up(&limiter).await;
    refund(&limiter, one()).await;
    assert!(spend(&limiter, one()).await.allowed());
    assert!(!spend(&limiter, one()).await.allowed());
    limiter.reset(&[one()]).await.unwrap();
    assert!(spend(&limiter, one().cost(10)).await.allowed());
}

/// The denial is decided before the refund, and known after it has begun or ended.
#[tokio::test(start_paused = true)]
async fn denial_from_before_a_refund_does_not_outlive_it() {
    for answered in [20, 40, 60, 80] {
        let store = Store::default();
        let limiter = cached(&store, None);
        assert!(spend(&limiter, one().cost(10)).await.allowed());
        store.set_fate(Fate::Takes(answered * MS));
        let denied = async { assert!(!spend(&limiter, one()).await.allowed()) };
        let refund = async {
            sleep(10 * MS).await;
            store.set_fate(Fate::Decides(20 * MS));
            refund(&limiter, one()).await;
        };
        join(denied, refund).await;
        store.set_fate(Fate::Works);
        assert!(spend(&limiter, one()).await.allowed(), "{answered}");
    }
}

/// The denial is asked for while the refund is under way, and decided before it.
#[tokio::test(start_paused = true)]
async fn denial_from_within_a_refund_does_not_outlive_it() {
    for answered in [5, 100] {
        let store = Store::default();
        let limiter = cached(&store, None);
        assert!(spend(&limiter, one().cost(10)).await.allowed());
        store.set_fate(Fate::Decides(50 * MS));
        let refund = async { assert!(refund(&limiter, one()).await.refunded()) };
        let denied = async {
            sleep(10 * MS).await;
            store.set_fate(Fate::Takes(answered * MS));
            assert!(!spend(&limiter, one()).await.allowed());
        };
        join(refund, denied).await;
        store.set_fate(Fate::Works);
        assert!(spend(&limiter, one()).await.allowed(), "{answered}");
    }
}

#[tokio::test(start_paused = true)]
async fn refund_whose_caller_leaves_forgets_the_denial() {
    let store = Store::default();
    let limiter = cached(&store, Limit::per_day(10));
    use_up(&limiter).await;
    store.set_fate(Fate::Takes(SECOND));
    assert!(timeout(MS, limiter.refund(&one())).await.is_err());
    store.set_fate(Fate::Works);
    assert!(spend(&limiter, one()).await.allowed(), "it was made");
}

/// A store that decides the members of a batch one after the other, and gives the first charge back if the second is not made,
/// as a cluster does.
#[derive(Debug)]
struct Apart {
    store: Store,
    fails: bool,
}

#[async_trait]
impl Backend for Apart {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let [first, second] = batch.members else {
            return self.store.apply(batch).await;
        };
        let ask = async |member| {
            let alone = Batch::new(batch.operation, slice::from_ref(member));
            self.store.apply(&alone).await
        };
        let mut outcome = ask(first).await?;
        sleep(20 * MS).await;
        outcome.answers.extend(ask(second).await?.answers);
        assert!(!outcome.answers[1].passed, "it is given back for a reason");
        refund(&other(&self.store), client_of_other().cost(10)).await;
        if self.fails {
            Err(BackendError::not_done("lost"))
        } else {
            Ok(outcome)
        }
    }
}

fn client_of_other() -> Transaction<'static> {
    Transaction::new("other", "client")
}

/// Another request is denied by units that a batch has taken and gives back, and knows it before or after the batch has ended.
#[tokio::test(start_paused = true)]
async fn denial_by_a_batch_that_is_denied_does_not_outlive_it() {
    for fails in [false, true] {
        for answered in [5, 100] {
            let store = Store::default();
            let cache = DenyCache::new(Apart {
                store: store.clone(),
                fails,
            });
            let limiter = Limiter::new(limits(Limit::per_day(10)), cache);
            assert!(spend(&limiter, one().cost(10)).await.allowed());
            let both = [client_of_other().cost(10), one()];
            let batch = async {
                let decided = limiter.spend_batch(&both).await;
                assert!(decided.map_or(fails, |decided| !decided.allowed()));
            };
            let denied = async {
                store.set_fate(Fate::Takes(answered * MS));
                let call = spend(&limiter, client_of_other());
                let (denied, ()) = join(call, async { store.set_fate(Fate::Works) }).await;
                assert!(!denied.allowed());
            };
            join(batch, denied).await;
            let again = spend(&limiter, client_of_other()).await;
            assert!(again.allowed(), "{fails}, {answered}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn batch_is_denied_if_one_of_its_voting_members_has_a_cached_denial() {
    let store = Store::default();
    let limiter = cached(&store, None);
    use_up(&limiter).await;
    store.calls();
    let both = [Transaction::new("other", "client"), one()];
    let denied = limiter.spend_batch(&both).await.unwrap();
    assert_eq!(
        (denied.allowed(), denied.strictest(), store.calls()),
        (false, Some(1), 0)
    );
    assert!(
        !denied.members()[0].limited(),
        "nobody has looked at its bucket"
    );
    for mode in [Mode::SpendOnly, Mode::Debit] {
        let both = [Transaction::new("other", "client"), one().mode(mode)];
        assert!(
            limiter.spend_batch(&both).await.unwrap().allowed(),
            "no vote"
        );
    }
    assert_eq!(store.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_denied_member_of_a_batch_is_remembered() {
    let store = Store::default();
    let limiter = cached(&store, None);
    use_up(&limiter).await;
    advance(SECOND).await;
    let other = Transaction::new("other", "client");
    assert!(spend(&limiter, other.cost(10)).await.allowed());
    store.calls();
    assert!(
        !limiter
            .spend_batch(&[one(), other])
            .await
            .unwrap()
            .allowed()
    );
    assert!(!spend(&limiter, other).await.allowed());
    assert_eq!(store.calls(), 1);
    assert!(
        spend(&limiter, one()).await.allowed(),
        "it was not denied itself"
    );
}

#[tokio::test(start_paused = true)]
async fn peeks_ask_the_store() {
    let store = Store::default();
    let limiter = cached(&store, None);
    use_up(&limiter).await;
    store.calls();
    let peeked = limiter.peek(&one()).await.unwrap();
    assert_eq!((peeked.source(), store.calls()), (Source::Store, 1));
}

#[tokio::test(start_paused = true)]
async fn denial_by_another_limit_is_not_one_by_the_limit_in_force() {
    let store = Store::default();
    let limiter = cached(&store, None);
    use_up(&limiter).await;
    limiter
        .reload(limits(Limit::per_minute(60).burst(20)))
        .unwrap();
    assert!(spend(&limiter, one().cost(10)).await.allowed());
}

#[tokio::test(start_paused = true)]
async fn request_that_may_wait_is_not_denied_because_another_one_may_not() {
    let store = Store::default();
    let line = Limit::per_minute(60).burst(10).max_wait(2 * SECOND);
    let limiter = cached(&store, line);
    assert!(spend(&limiter, one().cost(10)).await.allowed());
    assert!(!spend(&limiter, one().no_wait()).await.allowed());
    let waits = spend(&limiter, one()).await;
    assert_eq!((waits.allowed(), waits.delay()), (true, SECOND));
    assert!(spend(&limiter, one()).await.allowed());
    assert!(!spend(&limiter, one()).await.allowed(), "the line is full");
    store.calls();
    assert!(!spend(&limiter, one()).await.allowed());
    assert_eq!(store.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn permits_are_never_cached() {
    let store = Store::default();
    let limiter = cached(&store, Limit::concurrent(1));
    assert!(spend(&limiter, one()).await.allowed());
    store.calls();
    for _ in 0..3 {
        assert!(!spend(&limiter, one()).await.allowed());
    }
    assert_eq!(store.calls(), 3);
}

/// Five per second. More enter a tier of fifty units for five seconds.
fn tiers() -> Limit {
    let first = Tier::new(5, SECOND).active(SECOND);
    let second = Tier::new(50, 5 * SECOND)
        .active(5 * SECOND)
        .cooldown(60 * SECOND);
    Limit::tiers([first, second]).unwrap()
}

/// A grant to a smaller request enters the next tier, where the larger one passes.
#[tokio::test(start_paused = true)]
async fn denial_of_a_group_on_tiers_is_not_cached() {
    let store = Store::default();
    let limiter = cached(&store, tiers());
    assert!(spend(&limiter, one().cost(3)).await.allowed());
    let group = one().cost(53).min_cost(53);
    assert!(!spend(&limiter, group).await.allowed());
    assert!(spend(&other_tiers(&store), one().cost(3)).await.allowed());
    store.calls();
    assert!(!spend(&limiter, group).await.allowed());
    assert_eq!(store.calls(), 1);
}

fn other_tiers(store: &Store) -> Limiter {
    Limiter::new(limits(tiers()), store.clone())
}

#[tokio::test(start_paused = true)]
async fn custom_clock_disables_cached_denials() {
    let store = Store::default();
    let limiter = cached(&store, None).with_clock(TokioClock::default());
    assert!(spend(&limiter, one().cost(10)).await.allowed());
    store.calls();
    for _ in 0..3 {
        let denied = spend(&limiter, one()).await;
        assert!(!denied.allowed() && denied.source() == Source::Store);
    }
    assert_eq!(store.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn number_of_remembered_denials_is_bounded() {
    const CLIENTS: usize = 80_000;
    let store = Store::default();
    let limiter = cached(&store, Limit::per_day(1));
    let clients: Vec<_> = (0..CLIENTS).map(|client| client.to_string()).collect();
    for client in &clients {
        let one = Transaction::new("requests", client);
        assert!(
            limiter
                .spend(&one)
                .now_or_never()
                .unwrap()
                .unwrap()
                .allowed()
        );
        assert!(
            !limiter
                .spend(&one)
                .now_or_never()
                .unwrap()
                .unwrap()
                .allowed()
        );
    }
    let known = || {
        let known = |client: &&String| {
            limiter
                .try_spend(&Transaction::new("requests", client))
                .is_some()
        };
        clients.iter().filter(known).count()
    };
    assert!((60_000..=65_536).contains(&known()), "{}", known());
    advance(5 * SECOND).await;
    assert_eq!(known(), 0);
    let asked = clients.iter().take(9).map(|client| {
        let limiter = limiter.clone();
        async move { spend(&limiter, Transaction::new("requests", client)).await }
    });
    join_all(asked).await;
    assert_eq!(known(), 9, "the old ones have made room");
}
