//! Decisions while a store does not answer: a store that fails on command, behind a policy.

use std::time::Duration;

use futures_util::FutureExt;
use tokio::{
    runtime::Builder,
    time::{advance, sleep},
};
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, BackendError, FailurePolicy},
    clock::TokioClock,
    decision::Source,
    limit::LimitName,
    limiter::{LimiterError, Permit},
    quota::Per,
    tiers::Tier,
    transaction::{Mode, OnFailure, Receipt},
};

use crate::{
    refund, spend,
    support::store::{Fate, Store},
};

const BURST: u32 = 10;
pub(crate) const MS: Duration = Duration::from_millis(1);

/// Each with a burst of 10 and a slow rate.
fn limits() -> Limits {
    let policies = [
        ("local", OnFailure::Local),
        ("allow", OnFailure::Allow),
        ("refuse", OnFailure::Refuse),
    ];
    let limit = Limit::per_day(BURST);
    let limits = policies
        .iter()
        .fold(Limits::builder(), |limits, (name, policy)| {
            limits.limit(LimitName::from(*name).on_failure(*policy), limit.clone())
        });
    let shadow = LimitName::from("shadow").shadow(true);
    limits
        .limit(shadow.on_failure(OnFailure::Refuse), limit.clone())
        .limit("silent", limit)
        .limit("permits", Limit::concurrent(2))
        .build()
        .unwrap()
}

pub(crate) fn limiter<B: Backend>(policy: FailurePolicy<B>) -> Limiter {
    Limiter::new(limits(), policy)
}

pub(crate) fn one(limit: &'static str) -> Transaction<'static> {
    Transaction::new(limit, "client")
}

pub(crate) async fn passed(limiter: &Limiter, limit: &'static str, requests: usize) -> usize {
    let mut passed = 0;
    for _ in 0..requests {
        passed += usize::from(limiter.spend(&one(limit)).await.unwrap().allowed());
    }
    passed
}

fn receipts(decision: &Decision) -> [Receipt; 2] {
    [decision.receipt().unwrap(), decision.receipt().unwrap()]
}

/// Waits until the policy asks the store again.
pub(crate) async fn until_probed() {
    advance(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn each_limit_has_its_own_failure_mode() {
    let limiter = limiter(FailurePolicy::new(Store::new(Fate::Fails)));
    assert_eq!(passed(&limiter, "local", 15).await, 10);
    assert_eq!(passed(&limiter, "silent", 15).await, 10);
    assert_eq!(passed(&limiter, "allow", 15).await, 15);
    assert_eq!(passed(&limiter, "shadow", 15).await, 15);
    let decision = spend(&limiter, one("allow")).await;
    assert!(!decision.limited());
    let refused = limiter.spend(&one("refuse")).await.unwrap_err();
    assert!(
        matches!(refused, LimiterError::Backend(BackendError::NotDone(_))),
        "{refused:?}"
    );
}

/// A store that decides many requests in one call fails once with it.
#[tokio::test(start_paused = true)]
async fn decisions_that_fail_together_count_as_one_failure() {
    let store = Store::new(Fate::Hangs);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    for call in 1..=6 {
        let spends = (0..20).map(|_| passed(&limiter, "local", 1));
        futures_util::future::join_all(spends).await;
        // The fifth failure opens the breaker.
        let asked = if call <= 5 { 20 } else { 0 };
        assert_eq!(store.calls(), asked, "{call}");
    }
}

/// The policy neither asks the store nor decides locally.
#[test]
fn policy_without_a_timer_is_an_error() {
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let without_timer = Builder::new_current_thread().build().unwrap();
    let in_runtime = without_timer.block_on(limiter.spend(&one("local")));
    let outside = limiter.spend(&one("local")).now_or_never().unwrap();
    for (answer, remedy) in [(in_runtime, "enable_time"), (outside, "inside of one")] {
        let Err(LimiterError::Backend(BackendError::NotDone(source))) = answer else {
            panic!("{answer:?}")
        };
        assert!(source.to_string().contains(remedy), "{source}");
    }
    assert_eq!(store.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn local_share_of_a_limit_with_a_line_has_a_line_too() {
    let limit = Limit::per_second(1).burst(2).max_wait(4000 * MS);
    let limits = Limits::builder().limit("local", limit).build().unwrap();
    let policy = FailurePolicy::new(Store::new(Fate::Fails)).fleet(2);
    let limiter = Limiter::new(limits, policy).with_clock(TokioClock::default());
    for delay in [0, 2000, 4000] {
        let decision = spend(&limiter, one("local")).await;
        assert!(decision.allowed());
        assert_eq!(decision.delay(), delay * MS);
    }
    assert!(!spend(&limiter, one("local")).await.allowed());
}

#[tokio::test(start_paused = true)]
async fn limits_without_a_failure_mode_use_that_of_the_policy() {
    let policy = || FailurePolicy::new(Store::new(Fate::Fails));
    let allowing = limiter(policy().on_failure(OnFailure::Allow));
    assert_eq!(passed(&allowing, "silent", 15).await, 15);
    assert_eq!(passed(&allowing, "local", 15).await, 10);
    let refusing = limiter(policy().on_failure(OnFailure::Refuse));
    assert!(refusing.spend(&one("silent")).await.is_err());
    let transaction = one("silent").on_failure(OnFailure::Allow);
    assert!(refusing.spend(&transaction).await.unwrap().allowed());
}

#[tokio::test(start_paused = true)]
async fn batch_in_an_outage_is_refused_if_one_member_refuses_and_otherwise_decided_by_its_local_ones()
 {
    let limiter = limiter(FailurePolicy::new(Store::new(Fate::Fails)));
    let all = [one("allow"), one("local").cost(4), one("refuse")];
    assert!(limiter.spend_batch(&all).await.is_err());
    // The others would not fit into local buckets.
    let others = [
        one("allow").cost(9),
        one("local").cost(4),
        one("shadow").cost(9),
    ];
    for left in [Some(6), Some(2)] {
        let decided = limiter.spend_batch(&others).await.unwrap();
        let members = decided.members();
        assert!(decided.allowed() && !members[0].limited() && !members[2].limited());
        assert_eq!(
            (members[1].remaining(), decided.strictest()),
            (left, Some(1))
        );
    }
    let denied = limiter.spend_batch(&others).await.unwrap();
    assert!(!denied.allowed() && denied.members()[0].allowed());
    assert!(
        limiter
            .spend_batch(&[one("allow"), one("shadow")])
            .await
            .unwrap()
            .allowed()
    );
}

#[tokio::test(start_paused = true)]
async fn error_of_a_batch_names_its_member() {
    let limits = Limits::builder()
        .limit(
            LimitName::from("allow").on_failure(OnFailure::Allow),
            Limit::per_day(BURST),
        )
        .limit("window", Limit::window(10, Duration::from_secs(60)))
        .build()
        .unwrap();
    let limiter = Limiter::new(limits, FailurePolicy::new(Store::new(Fate::Fails)));
    let debit = one("window").mode(Mode::Debit).cost(5000);
    let error = limiter
        .spend_batch(&[one("allow"), debit])
        .await
        .unwrap_err();
    assert!(
        matches!(&error, LimiterError::InvalidCost { limit, .. } if limit == "window"),
        "{error:?}"
    );
}

/// Returns the admissions of a client that never stops, before, in and after outages of each kind.
async fn admitted(fates: &[Fate]) -> usize {
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let mut admitted = passed(&limiter, "local", 3).await;
    for fate in fates {
        store.set_fate(*fate);
        admitted += passed(&limiter, "local", 8).await;
        store.set_fate(Fate::Works);
        until_probed().await;
        admitted += passed(&limiter, "local", 1).await;
    }
    admitted + passed(&limiter, "local", 20).await
}

#[tokio::test(start_paused = true)]
async fn all_outages_together_admit_one_more_burst() {
    let lost = [Fate::Fails, Fate::NoReply, Fate::Hangs];
    assert_eq!(admitted(&lost).await, 20);
    assert_eq!(admitted(&[lost, lost].concat()).await, 20);
    // Before the breaker opens, the store charges five requests without saying so, which are charged here as well.
    assert_eq!(
        admitted(&[Fate::AppliesThenErrors, Fate::FailsEveryFourth]).await,
        15
    );
}

#[tokio::test(start_paused = true)]
async fn refund_goes_to_whoever_made_the_charge() {
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let [at_store, late] = receipts(&spend(&limiter, one("local").cost(5)).await);
    store.set_fate(Fate::Fails);
    let [local, again] = receipts(&spend(&limiter, one("local").cost(7)).await);
    assert!(local.is_local() && !at_store.is_local());

    let error = limiter.refund(&one("local").of_receipt(&at_store)).await;
    assert!(error.is_err(), "the store does not answer");
    let refunded = refund(&limiter, one("local").of_receipt(&local)).await;
    assert!(refunded.refunded() && refunded.source() == Source::Local);
    assert_eq!(refunded.remaining(), Some(10));

    store.set_fate(Fate::Works);
    until_probed().await;
    let refunded = refund(&limiter, one("local").of_receipt(&again)).await;
    assert!(
        !refunded.refunded(),
        "the local bucket is full, and the store's is another"
    );
    let refunded = refund(&limiter, one("local").of_receipt(&late)).await;
    assert_eq!(
        (refunded.source(), refunded.remaining()),
        (Source::Store, Some(10))
    );
}

#[tokio::test(start_paused = true)]
async fn refunds_of_both_kinds_in_one_batch() {
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let at_store = spend(&limiter, one("silent").cost(3))
        .await
        .receipt()
        .unwrap();
    store.set_fate(Fate::Fails);
    let local = spend(&limiter, one("local").cost(4))
        .await
        .receipt()
        .unwrap();
    let both = [
        one("silent").of_receipt(&at_store),
        one("local").of_receipt(&local),
    ];
    assert!(limiter.refund_batch(&both).await.is_err());
    assert_eq!(
        limiter.peek(&one("local")).await.unwrap().remaining(),
        Some(6),
        "not done by half"
    );

    store.set_fate(Fate::Works);
    until_probed().await;
    let refunded = limiter.refund_batch(&both).await.unwrap();
    let members = refunded.members().iter();
    let members: Vec<_> = members
        .map(|one| (one.refunded(), one.source(), one.remaining()))
        .collect();
    assert_eq!(
        members,
        [
            (true, Source::Store, Some(10)),
            (true, Source::Local, Some(10))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn refund_or_reset_that_does_not_reach_the_store_is_an_error() {
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    passed(&limiter, "local", 4).await;
    for fate in [Fate::Fails, Fate::NoReply, Fate::Hangs] {
        store.set_fate(fate);
        assert!(limiter.refund(&one("local")).await.is_err());
        assert!(limiter.reset(&[one("local")]).await.is_err());
    }
    store.set_fate(Fate::Works);
    until_probed().await;
    assert_eq!(
        limiter.peek(&one("local")).await.unwrap().remaining(),
        Some(6)
    );
}

#[tokio::test(start_paused = true)]
async fn permits_are_given_back_to_a_store_that_is_slower_than_the_deadline() {
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()).deadline(50 * MS));
    for (limit, refunded) in [("permits", true), ("local", false)] {
        store.set_fate(Fate::Works);
        let charged = limiter.spend(&one(limit)).await.unwrap();
        let receipt = charged.receipt().unwrap();
        let refund = one(limit).of_receipt(&receipt);
        store.set_fate(Fate::Decides(100 * MS));
        let answer = limiter.refund(&refund).await;
        assert_eq!(
            answer.is_ok_and(|answer| answer.refunded()),
            refunded,
            "{limit}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn local_permits_are_renewed_and_released_locally() {
    let store = Store::new(Fate::Fails);
    let limiter = Limiter::new(limits(), FailurePolicy::new(store.clone()));
    let permit = one("permits");
    let spend = async || limiter.spend(&permit).await.unwrap();
    let local = spend().await.receipt().unwrap();
    assert!(spend().await.allowed() && !spend().await.allowed());

    store.set_fate(Fate::Works);
    until_probed().await;
    let at_store = spend().await.receipt().unwrap();
    let both = [permit.of_receipt(&local), permit.of_receipt(&at_store)];
    let renewed = limiter.renew(&both).await.unwrap();
    let renewed: Vec<_> = renewed
        .members()
        .iter()
        .map(|one| one.receipt().unwrap())
        .collect();
    assert_eq!(
        [renewed[0].is_local(), renewed[1].is_local()],
        [true, false]
    );
    for (receipt, source) in renewed.iter().zip([Source::Local, Source::Store]) {
        let released = limiter.refund(&permit.of_receipt(receipt)).await.unwrap();
        assert!(released.refunded() && released.source() == source);
    }
    let peeked = limiter.peek(&permit).await.unwrap();
    assert_eq!(peeked.remaining(), Some(2));
}

/// Permits are renewed every ten seconds.
#[tokio::test(start_paused = true)]
async fn work_that_has_begun_locally_goes_on() {
    let store = Store::new(Fate::Fails);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let limiter = limiter.with_clock(TokioClock::default());
    let permits = limiter.limit("permits").unwrap();
    let permit = permits.enter("client").await.unwrap().unwrap();
    store.set_fate(Fate::Works);
    sleep(Duration::from_secs(100)).await;
    let at_store = permits.enter("client").await.unwrap().unwrap();
    assert!(permit.is_held());
    store.set_fate(Fate::Fails);
    sleep(Duration::from_secs(15)).await;
    assert!(
        permit.is_held() && at_store.is_held(),
        "shorter than the hold"
    );
    sleep(Duration::from_secs(30)).await;
    assert!(permit.is_held() && !at_store.is_held());
    assert!(permit.release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn limit_can_refuse_or_allow_work_without_the_store() {
    let with = |on_failure| {
        let policy = FailurePolicy::new(Store::new(Fate::Fails)).on_failure(on_failure);
        limiter(policy).limit("permits").unwrap()
    };
    assert!(with(OnFailure::Refuse).enter("client").await.is_err());
    let allowing = with(OnFailure::Allow);
    let mut permits = Vec::new();
    for _ in 0..9 {
        permits.push(allowing.enter("client").await.unwrap().unwrap());
    }
    // Nothing counts them, so none is lost.
    sleep(Duration::from_secs(100)).await;
    assert!(permits.iter().all(Permit::is_held));
    assert!(permits.pop().unwrap().release().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn peek_shows_the_local_bucket_in_an_outage() {
    let store = Store::default();
    let limiter = limiter(FailurePolicy::new(store.clone()));
    passed(&limiter, "local", 3).await;
    store.set_fate(Fate::Fails);
    passed(&limiter, "local", 1).await;
    let peeked = limiter.peek(&one("local")).await.unwrap();
    assert_eq!(
        (peeked.source(), peeked.remaining()),
        (Source::Local, Some(9))
    );
    assert!(!limiter.peek(&one("allow")).await.unwrap().limited());
    assert!(limiter.peek(&one("refuse")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn each_process_has_its_share_of_any_limit() {
    let tiers = [Tier::new(9, Duration::from_secs(60))];
    let shares = [
        (Limit::per_day(10), 3),
        (Limit::window(9, Duration::from_secs(60)), 3),
        (Limit::quota(1, Per::Day), 1),
        (Limit::concurrent(8), 2),
        (Limit::tiers(tiers).unwrap(), 3),
    ];
    for (limit, share) in shares {
        let limits = Limits::builder()
            .limit("local", limit.clone())
            .build()
            .unwrap();
        let policy = FailurePolicy::new(Store::new(Fate::Fails)).fleet(4);
        let limiter = Limiter::new(limits, policy);
        assert_eq!(passed(&limiter, "local", 15).await, share, "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn cost_above_the_share_is_denied_for_an_unknown_time() {
    let limiter = limiter(FailurePolicy::new(Store::new(Fate::Fails)).fleet(4));
    let denied = spend(&limiter, one("local").cost(4)).await;
    assert_eq!((denied.allowed(), denied.retry_after()), (false, None));
    let whole_share = one("local").cost(3);
    assert!(spend(&limiter, whole_share).await.allowed());
    let denied = spend(&limiter, whole_share).await;
    assert!(!denied.allowed() && denied.retry_after().is_some());
}

#[tokio::test(start_paused = true)]
async fn limit_must_fit_the_memory_for_local_decisions() {
    let memory = || MemoryBackend::new().max_history_bytes(64);
    let limits = || {
        Limits::builder()
            .limit("window", Limit::window(40, MS))
            .build()
            .unwrap()
    };
    let policy = FailurePolicy::new(Store::default()).memory(memory());
    let error = Limiter::try_new(limits(), policy).unwrap_err();
    assert!(error.to_string().contains("max_history_bytes"), "{error}");
    let policy = FailurePolicy::new(Store::default())
        .memory(memory())
        .fleet(8);
    assert!(Limiter::try_new(limits(), policy).is_ok(), "its share fits");
}
