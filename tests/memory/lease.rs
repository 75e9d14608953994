//! Units that are charged ahead: they never exceed the limit.

use std::time::Duration;

use futures_util::{FutureExt, future::join};
use tokio::{
    runtime::Builder,
    time::{sleep, timeout},
};
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    backend::{
        Backend, BackendError, FailurePolicy, Lease, async_trait,
        custom::{Batch, Outcome},
    },
    clock::TokioClock,
    decision::Source,
    limit::LimitName,
    limiter::LimiterError,
    quota::Per,
    transaction::Mode,
};

use crate::{
    refund, spend,
    support::store::{Fate, Store},
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The answer of a store that has to be waited for.
const SOON: Fate = Fate::Takes(MS);

/// A hundred at once, and one per second more. Each process may hold a tenth.
fn limits() -> Limits {
    limits_of(Limit::per_minute(60).burst(100))
}

fn limits_of(limit: Limit) -> Limits {
    let limits = Limits::builder()
        .limit(LimitName::from("leased").lease(1, 10), limit.clone())
        .limit(LimitName::from("second").lease(1, 10), limit.clone())
        .limit("other", limit);
    limits.build().unwrap()
}

/// One of four processes.
fn process(store: &Store) -> Limiter {
    Limiter::new(limits(), Lease::new(store.clone(), 4))
}

/// What the store has left of the whole limit.
async fn left(store: &Store, limit: &'static str) -> u32 {
    let limits = Limits::builder()
        .limit(limit, Limit::per_minute(60).burst(100))
        .build()
        .unwrap();
    let limiter = Limiter::new(limits, store.clone());
    limiter
        .peek(&Transaction::new(limit, "client"))
        .await
        .unwrap()
        .remaining()
        .unwrap()
}

fn one() -> Transaction<'static> {
    Transaction::new("leased", "client")
}

/// Makes a process hold ten units, after two that the store decides.
async fn leased(store: &Store) -> Limiter {
    let limiter = process(store);
    store.set_fate(SOON);
    for _ in 0..2 {
        assert_eq!(spend(&limiter, one()).await.source(), Source::Store);
    }
    sleep(2 * MS).await;
    store.calls();
    limiter
}

#[tokio::test(start_paused = true)]
async fn second_request_charges_ahead_and_the_next_ones_are_decided_from_memory() {
    let store = Store::new(SOON);
    let limiter = process(&store);
    assert!(spend(&limiter, one()).await.allowed());
    sleep(2 * MS).await;
    assert_eq!((store.calls(), left(&store, "leased").await), (1, 99));
    assert!(spend(&limiter, one()).await.allowed());
    sleep(2 * MS).await;
    assert_eq!((store.calls(), left(&store, "leased").await), (2 + 1, 88));
    store.calls();
    for left in (0..10).rev() {
        let decision = limiter.try_spend(&one()).unwrap().unwrap();
        assert_eq!(
            (decision.source(), decision.remaining()),
            (Source::Lease, Some(left))
        );
        assert_eq!(
            (decision.next_after(), decision.reset_after()),
            (Some(Duration::ZERO), None)
        );
        assert_eq!(decision.more_after(), None);
    }
    assert_eq!(store.calls(), 0);
    assert!(limiter.try_spend(&one()).is_none());
    assert_eq!(spend(&limiter, one()).await.source(), Source::Store);
}

#[tokio::test(start_paused = true)]
async fn request_comes_before_charges_ahead() {
    let store = Store::new(SOON);
    let limiter = process(&store);
    assert!(spend(&limiter, one().cost(59)).await.allowed());
    let last = spend(&limiter, one()).await;
    assert_eq!(
        (last.allowed(), last.remaining()),
        (true, Some(0)),
        "the store's part is 60"
    );
    assert!(!spend(&limiter, one()).await.allowed());
}

#[tokio::test(start_paused = true)]
async fn process_never_holds_more_than_its_part() {
    let store = Store::new(SOON);
    let limiter = process(&store);
    spend(&limiter, one()).await;
    store.calls();
    let both = join(spend(&limiter, one()), spend(&limiter, one())).await;
    assert!(both.0.allowed() && both.1.allowed());
    sleep(2 * MS).await;
    assert_eq!((store.calls(), left(&store, "leased").await), (3, 87));
    // Two are left of ten, and eight are charged to fill them up.
    assert_eq!(spend(&limiter, one().cost(8)).await.source(), Source::Lease);
    assert_eq!(spend(&limiter, one().cost(5)).await.source(), Source::Store);
    sleep(2 * MS).await;
    assert_eq!(left(&store, "leased").await, 74);
}

#[tokio::test(start_paused = true)]
async fn units_on_their_way_back_are_not_charged_again() {
    let store = Store::default();
    let limiter = leased(&store).await;
    store.set_fate(Fate::Takes(SECOND));
    sleep(3 * SECOND + 10 * MS).await;
    store.set_fate(SOON);
    for _ in 0..4 {
        assert_eq!(spend(&limiter, one()).await.source(), Source::Store);
        sleep(2 * MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn units_that_the_store_denies_are_not_held() {
    let store = Store::new(SOON);
    let limiter = process(&store);
    for cost in [55, 1, 1] {
        let decided = spend(&limiter, one().cost(cost)).await;
        assert_eq!((decided.allowed(), decided.source()), (true, Source::Store));
        sleep(2 * MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_charged_ahead_for_costs_above_the_part_of_a_process() {
    let store = Store::new(SOON);
    let limiter = process(&store);
    for (cost, left_over) in [(11, 89), (11, 78), (0, 78)] {
        spend(&limiter, one().cost(cost)).await;
        sleep(2 * MS).await;
        assert_eq!(left(&store, "leased").await, left_over);
    }
    // There are no units to return.
    store.calls();
    sleep(4 * SECOND).await;
    assert_eq!(store.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn limit_is_split_by_the_share_and_the_number_of_processes() {
    for (burst, (part, of), processes, held) in [
        (1000, (1, 20), 4, 50),
        (1000, (1, 1), 4, 124),
        (3, (1, 1), 1, 1),
    ] {
        let name = LimitName::from("leased").lease(part, of);
        let limits = Limits::builder().limit(name, Limit::per_day(burst));
        let lease = Lease::new(Store::default(), processes);
        let limiter = Limiter::new(limits.build().unwrap(), lease);
        let most = burst - processes * held;
        let error = limiter.spend(&one().cost(most + 1)).await.unwrap_err();
        assert!(
            matches!(error, LimiterError::CostAboveBurst { burst, .. } if burst == most),
            "{error:?}"
        );
        let skipped = one().mode(Mode::SpendOnly).cost(most + 1);
        assert_eq!(spend(&limiter, skipped).await.granted(), 0);
        assert!(spend(&limiter, one().cost(most)).await.allowed());
    }
}

#[tokio::test(start_paused = true)]
async fn each_process_beyond_the_number_may_admit_its_share_too_much() {
    for (processes, most) in [(4, 100), (5, 110), (7, 130)] {
        let store = Store::new(SOON);
        let limit = Limit::per_second(1000).burst(100);
        let process = |_| Limiter::new(limits_of(limit.clone()), Lease::new(store.clone(), 4));
        let fleet: Vec<_> = (0..processes).map(process).collect();
        for limiter in &fleet {
            spend(limiter, one()).await;
            spend(limiter, one()).await;
            // The store's bucket is full again after that.
            sleep(100 * MS).await;
        }
        // Nothing is charged ahead where the store answers at once.
        store.set_fate(Fate::Works);
        let mut admitted = 0;
        for limiter in &fleet {
            while spend(limiter, one()).await.allowed() {
                admitted += 1;
            }
        }
        assert_eq!(admitted, most);
    }
}

/// Returns why a tenth of a client's limit cannot be leased; empty if it can be.
fn mistake(limit: Limit, processes: u32) -> String {
    let name = LimitName::from("leased");
    let limits = Limits::builder()
        .limit(name.clone(), Limit::per_day(1000))
        .name(name.lease(1, 10))
        .override_for("leased", "client", limit)
        .build()
        .unwrap();
    let limiter = Limiter::try_new(limits, Lease::new(Store::default(), processes));
    limiter
        .err()
        .map_or_else(String::new, |error| error.to_string())
}

#[tokio::test]
async fn limits_that_cannot_be_leased_are_mistakes() {
    let (window, quota) = (Limit::window(100, SECOND), Limit::quota(100, Per::Day));
    for limit in [window, quota, Limit::concurrent(100)] {
        assert!(mistake(limit, 2).contains("only limits with burst, count and period"));
    }
    let line = Limit::per_day(100).max_wait(SECOND);
    assert!(mistake(line, 2).contains("without `max_wait`"));
    let too_small = "less than one unit for each of 2 processes: raise the burst or the lease";
    assert!(mistake(Limit::per_day(9), 2).contains(too_small));
    assert!(mistake(Limit::per_day(100), 50).contains("less than one unit"));
    assert_eq!(mistake(Limit::per_day(100), 49), "");
}

#[tokio::test(start_paused = true)]
async fn idle_units_are_returned_after_two_seconds() {
    let store = Store::default();
    let limiter = leased(&store).await;
    assert!(spend(&limiter, one()).await.allowed());
    sleep(1990 * MS).await;
    assert_eq!((store.calls(), left(&store, "leased").await), (0, 89));
    sleep(1020 * MS).await;
    assert_eq!(
        left(&store, "leased").await,
        100,
        "nine units have come back, and the rest with time"
    );
    assert!(limiter.try_spend(&one()).is_none());
    spend(&limiter, one()).await;
    sleep(2 * MS).await;
    assert!(
        limiter.try_spend(&one()).is_none(),
        "the bucket was forgotten"
    );
}

#[tokio::test(start_paused = true)]
async fn close_returns_everything_and_ends_the_leases() {
    let store = Store::default();
    let limiter = leased(&store).await;
    assert!(spend(&limiter, one()).await.allowed());
    limiter.close().await.unwrap();
    assert_eq!(left(&store, "leased").await, 97);
    for _ in 0..20 {
        assert_eq!(spend(&limiter, one()).await.source(), Source::Store);
        sleep(2 * MS).await;
    }
    limiter.close().await.unwrap();
    assert_eq!(left(&store, "leased").await, 77);
}

#[tokio::test(start_paused = true)]
async fn close_waits_for_charges_in_flight() {
    let store = Store::new(SOON);
    let limiter = process(&store);
    spend(&limiter, one()).await;
    store.set_fate(Fate::Takes(500 * MS));
    let second = limiter.clone();
    assert!(
        timeout(MS, spend(&second, one())).await.is_err(),
        "the caller leaves"
    );
    store.set_fate(SOON);
    limiter.close().await.unwrap();
    assert_eq!(left(&store, "leased").await, 98);
}

#[tokio::test(start_paused = true)]
async fn close_is_an_error_if_the_store_does_not_answer() {
    let store = Store::default();
    let limiter = leased(&store).await;
    store.set_fate(Fate::Fails);
    assert!(limiter.close().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn batch_is_decided_from_memory_if_all_its_members_can_be() {
    let store = Store::new(SOON);
    let limiter = process(&store);
    let second = || Transaction::new("second", "client");
    let both = [one(), second().cost(2)];
    for _ in 0..2 {
        limiter.spend_batch(&both).await.unwrap();
    }
    sleep(2 * MS).await;
    store.calls();
    for left in [(9, 8), (8, 6)] {
        let decided = limiter.spend_batch(&both).await.unwrap();
        let remaining = |place: usize| decided.members()[place].remaining().unwrap();
        assert_eq!((remaining(0), remaining(1)), left);
        assert_eq!(decided.decision().source(), Source::Lease);
    }
    let checked = limiter.check_batch(&both).await.unwrap();
    assert_eq!(
        (checked.decision().remaining(), store.calls()),
        (Some(4), 0)
    );
    let too_much = [one(), second().cost(7)];
    let decided = limiter.spend_batch(&too_much).await.unwrap();
    assert_eq!(decided.decision().source(), Source::Store);
    assert_eq!(
        spend(&limiter, one()).await.remaining(),
        Some(7),
        "nothing was taken of the other"
    );
}

#[tokio::test(start_paused = true)]
async fn store_decides_a_batch_with_another_limit_as_a_whole() {
    let store = Store::default();
    let limiter = leased(&store).await;
    let both = [one(), Transaction::new("other", "client")];
    for _ in 0..3 {
        let decided = limiter.spend_batch(&both).await.unwrap();
        assert!(
            decided
                .members()
                .iter()
                .all(|one| one.source() == Source::Store)
        );
    }
    assert_eq!(store.calls(), 3, "and nothing is charged ahead");
}

#[tokio::test(start_paused = true)]
async fn refunds_debits_and_peeks_go_to_the_store() {
    let store = Store::default();
    let limiter = leased(&store).await;
    let receipt = spend(&limiter, one().cost(4)).await.receipt().unwrap();
    assert_eq!(receipt.cost(), 4);
    let refunded = refund(&limiter, one().of_receipt(&receipt)).await;
    assert_eq!(
        (refunded.refunded(), left(&store, "leased").await),
        (true, 92)
    );
    spend(&limiter, one().mode(Mode::Debit).cost(2)).await;
    assert_eq!(left(&store, "leased").await, 90);
    let peeked = limiter.peek(&one()).await.unwrap();
    assert_eq!(
        (peeked.source(), peeked.remaining()),
        (Source::Store, Some(50))
    );
    assert_eq!(spend(&limiter, one()).await.source(), Source::Lease);
}

#[tokio::test(start_paused = true)]
async fn charge_of_unknown_outcome_is_neither_handed_out_nor_refunded() {
    let store = Store::new(SOON);
    let limiter = process(&store);
    spend(&limiter, one()).await;
    store.set_fate(Fate::AppliesThenErrors);
    assert!(limiter.spend(&one()).await.is_err());
    sleep(MS).await;
    store.set_fate(SOON);
    assert_eq!(left(&store, "leased").await, 88, "all is charged");
    assert_eq!(spend(&limiter, one()).await.source(), Source::Store);
    sleep(2 * MS).await;
    assert_eq!(
        spend(&limiter, one()).await.remaining(),
        Some(9),
        "it makes room again"
    );
}

#[tokio::test(start_paused = true)]
async fn units_of_another_limit_are_not_handed_out() {
    let store = Store::default();
    let limiter = leased(&store).await;
    let larger = Limit::per_minute(60).burst(200);
    limiter.reload(limits_of(larger)).unwrap();
    for _ in 0..2 {
        assert_eq!(spend(&limiter, one()).await.source(), Source::Store);
        sleep(2 * MS).await;
    }
    let decision = spend(&limiter, one()).await;
    assert_eq!(
        (decision.source(), decision.remaining()),
        (Source::Lease, Some(19))
    );
}

#[tokio::test(start_paused = true)]
async fn late_charge_for_a_changed_limit_is_not_handed_out() {
    let store = Store::new(SOON);
    let limiter = process(&store);
    spend(&limiter, one()).await;
    store.set_fate(Fate::Takes(100 * MS));
    spend(&limiter, one()).await;
    store.set_fate(SOON);
    let smaller = Limit::per_minute(60).burst(50);
    limiter.reload(limits_of(smaller)).unwrap();
    spend(&limiter, one()).await;
    sleep(SECOND).await;
    assert!(limiter.try_spend(&one()).is_none());
}

#[tokio::test(start_paused = true)]
async fn custom_clock_disables_leases() {
    let store = Store::new(SOON);
    let limiter = process(&store).with_clock(TokioClock::default());
    for _ in 0..5 {
        assert_eq!(spend(&limiter, one()).await.source(), Source::Store);
        sleep(2 * MS).await;
    }
    assert_eq!(store.calls(), 5);
}

#[tokio::test(start_paused = true)]
async fn held_units_are_spent_while_the_store_does_not_answer() {
    let store = Store::new(SOON);
    let limiter = Limiter::new(
        limits(),
        FailurePolicy::new(Lease::new(store.clone(), 4)).fleet(4),
    );
    for _ in 0..2 {
        spend(&limiter, one()).await;
    }
    sleep(2 * MS).await;
    store.set_fate(Fate::NoReply);
    for _ in 0..9 {
        spend(&limiter, Transaction::new("other", "client")).await;
    }
    for _ in 0..10 {
        assert_eq!(spend(&limiter, one()).await.source(), Source::Lease);
    }
    let local = spend(&limiter, one()).await;
    assert_eq!(
        (local.source(), local.remaining()),
        (Source::Local, Some(24))
    );
}

/// A test, or a call of a blocking client, may have a runtime of its own.
#[test]
fn units_are_leased_and_returned_in_the_next_runtime() {
    let runtime = || {
        Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let first = runtime();
    let store = first.block_on(async { Store::new(SOON) });
    let limiter = process(&store);
    first.block_on(async {
        spend(&limiter, one()).await;
        let transaction = one();
        drop(limiter.spend(&transaction).now_or_never());
    });
    drop(first);
    runtime().block_on(async {
        spend(&limiter, one()).await;
        sleep(2 * MS).await;
        assert_eq!(
            spend(&limiter, one()).await.source(),
            Source::Lease,
            "the lost charge has ended"
        );
        sleep(4 * SECOND).await;
        assert!(
            limiter.try_spend(&one()).is_none(),
            "idle units were returned"
        );
    });
}

/// A wrapper that changes nothing, as one outside of this crate.
#[derive(Debug)]
struct Outsider<B>(B);

#[async_trait]
impl<B: Backend> Backend for Outsider<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.0.apply(batch).await
    }

    fn wrapped(&self) -> Option<&dyn Backend> {
        Some(&self.0)
    }
}

#[tokio::test]
async fn wrapper_of_others_does_not_hide_the_leases_inside_it() {
    let leases = Lease::new(Store::default(), 4);
    let limiter = Limiter::new(limits(), Outsider(leases));
    let error = limiter.spend(&one().cost(100)).await.unwrap_err();
    assert!(error.to_string().contains("at once, 60:"), "{error}");
}
