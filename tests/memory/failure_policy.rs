//! What is decided while a store does not answer: the conformance suite through the policy, and a store
//! that fails on order.

#![cfg(feature = "failure-policy")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, BackendError, DenyCache, FailurePolicy, ServerId, Servers, async_trait},
    clock::ManualClock,
    decision::{Outcome, Source},
    limit::LimitName,
    limiter::LimiterError,
    quota::Per,
    testing::{MapBackend, conformance},
    tiers::Tier,
    transaction::{Batch, Member, Mode, OnFailure},
};

use crate::support::{
    Log, OnEvent,
    store::{Fate, Store},
};

conformance!(working, FailurePolicy::new(MapBackend::default()));
conformance!(
    around_a_deny_cache,
    FailurePolicy::new(DenyCache::new(MapBackend::default())),
    without: [figures],
);
conformance!(lost, FailurePolicy::new(Store::new(Fate::Fails)), without: [refunds]);

const BURST: u32 = 10;

/// Limits `local`, `allow` and `refuse`, each with a burst of 10 that hardly comes back.
fn limits() -> Limits {
    let policies = [
        ("local", OnFailure::Local),
        ("allow", OnFailure::Allow),
        ("refuse", OnFailure::Refuse),
    ];
    let builder = policies
        .iter()
        .fold(Limits::builder(), |limits, (name, policy)| {
            let name = LimitName::from(*name).on_failure(*policy);
            limits.limit(name, Limit::per_hour(BURST).burst(BURST))
        });
    builder.build().unwrap()
}

/// What is charged to the store afterwards is tested in `payback`.
fn limiter(policy: FailurePolicy<Store>) -> Limiter {
    Limiter::new(limits(), policy.pay_back(0)).with_clock(ManualClock::default())
}

fn one(limit: &'static str) -> Transaction<'static> {
    Transaction::new(limit, "client")
}

/// How many of so many requests pass.
async fn passed(limiter: &Limiter, requests: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..requests {
        passed += u32::from(limiter.spend(&one("local")).await.unwrap().allowed());
    }
    passed
}

#[tokio::test(start_paused = true)]
async fn each_limit_says_what_is_decided_meanwhile() {
    let limiter = limiter(FailurePolicy::new(Store::new(Fate::Fails)));
    assert_eq!(passed(&limiter, 30).await, BURST);
    let allowed = limiter.spend(&one("allow")).await.unwrap();
    assert!(allowed.allowed() && !allowed.limited());
    let refused = limiter.spend(&one("refuse")).await;
    assert!(
        matches!(refused, Err(LimiterError::Backend(_))),
        "{refused:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn limit_that_refuses_says_whether_the_store_may_have_charged_it() {
    for (fate, is_certain) in [
        (Fate::Fails, true),
        (Fate::Moves, true),
        (Fate::Forgets, false),
        (Fate::Hangs, false),
    ] {
        let limiter = limiter(FailurePolicy::new(Store::new(fate)));
        let refused = limiter.spend(&one("refuse")).await.unwrap_err();
        let is_not_done = matches!(refused, LimiterError::Backend(BackendError::NotDone(_)));
        assert_eq!(is_not_done, is_certain, "{fate:?}: {refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_that_say_nothing_do_as_the_policy_does() {
    let limits = Limits::builder()
        .limit("plain", Limit::per_hour(1))
        .build()
        .unwrap();
    let policy = FailurePolicy::new(Store::new(Fate::Fails)).on_failure(OnFailure::Allow);
    let plain = Limiter::new(limits, policy);
    for _ in 0..3 {
        assert!(!plain.spend(&one("plain")).await.unwrap().limited());
    }
}

#[tokio::test(start_paused = true)]
async fn batch_is_refused_by_one_and_decided_by_those_that_can() {
    let limiter = limiter(FailurePolicy::new(Store::new(Fate::Fails)));
    let refused = limiter.spend_batch(&[one("local"), one("refuse")]).await;
    assert!(matches!(refused, Err(LimiterError::Backend(_))));
    let batch = [one("allow"), one("local").cost(4)];
    for allowed in [true, true, false] {
        let decided = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!(decided.allowed(), allowed);
        assert_eq!(decided.strictest(), Some(1));
        assert!(!decided.members()[0].limited() && decided.members()[1].limited());
    }
    let debit = [one("allow"), one("local").mode(Mode::Debit)];
    assert!(limiter.spend_batch(&debit).await.unwrap().allowed());
    let checked = limiter.check(&one("local").cost(2)).await.unwrap();
    assert!(!checked.allowed());
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_a_new_burst_because_the_store_has_failed() {
    let store = Store::new(Fate::Works);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    assert_eq!(passed(&limiter, 7).await, 7);
    store.becomes(Fate::Fails);
    assert_eq!(passed(&limiter, 10).await, 3);
    store.becomes(Fate::Works);
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(
        passed(&limiter, 10).await,
        3,
        "the store has not heard of them"
    );
    limiter.reset(&[one("local")]).await.unwrap();
    store.becomes(Fate::Fails);
    assert_eq!(passed(&limiter, 20).await, BURST, "a reset is seen too");
}

/// Ends an outage: the store is asked again.
async fn is_back(store: &Store) {
    store.becomes(Fate::Works);
    tokio::time::advance(Duration::from_secs(1)).await;
}

/// What the process admits in five outages, between which something happens at the store. `BURST` less `seen` is the
/// most that it may admit by itself.
async fn admitted_in_five_outages(
    policy: impl Fn(Store) -> FailurePolicy<Store>,
    seen: u32,
    between: impl AsyncFn(&Limiter),
) -> u32 {
    let store = Store::new(Fate::Works);
    let limiter = limiter(policy(store.clone()));
    assert_eq!(passed(&limiter, seen).await, seen);
    let mut admitted = 0;
    for _ in 0..5 {
        store.becomes(Fate::Fails);
        admitted += passed(&limiter, 2 * BURST).await;
        is_back(&store).await;
        between(&limiter).await;
    }
    admitted
}

#[tokio::test(start_paused = true)]
async fn refund_of_more_than_the_store_has_charged_gives_back_no_more_here() {
    for seen in [0, 3] {
        let admitted = admitted_in_five_outages(FailurePolicy::new, seen, async |limiter| {
            assert_eq!(passed(limiter, 1).await, 1);
            let too_much = one("local").cost(BURST);
            assert!(limiter.refund(&too_much).await.unwrap().refunded());
            assert_eq!(passed(limiter, seen).await, seen);
        });
        assert_eq!(admitted.await, BURST - seen);
    }
}

#[tokio::test(start_paused = true)]
async fn refund_at_the_store_is_a_refund_here_too() {
    let store = Store::new(Fate::Works);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    assert_eq!(passed(&limiter, 7).await, 7);
    let none = limiter.refund(&one("local").cost(0)).await.unwrap();
    assert!(!none.refunded());
    assert!(
        limiter
            .refund(&one("local").cost(4))
            .await
            .unwrap()
            .refunded()
    );
    store.becomes(Fate::Fails);
    assert_eq!(passed(&limiter, 20).await, BURST - 3);
}

#[tokio::test(start_paused = true)]
async fn reset_or_refund_that_does_not_reach_the_store_is_an_error_and_changes_nothing() {
    for fate in [Fate::Fails, Fate::Hangs, Fate::Moves] {
        let store = Store::new(Fate::Works);
        let limiter = limiter(FailurePolicy::new(store.clone()).failures_in_a_row(3));
        assert_eq!(passed(&limiter, 4).await, 4);
        store.becomes(fate);
        assert_eq!(passed(&limiter, 2).await, 2);
        // The last of them find the circuit open.
        for _ in 0..4 {
            for name in ["local", "allow", "refuse"] {
                let refunded = limiter.refund(&one(name)).await;
                assert!(
                    matches!(refunded, Err(LimiterError::Backend(_))),
                    "{fate:?}"
                );
                let reset = limiter.reset(&[one(name)]).await;
                assert!(matches!(reset, Err(LimiterError::Backend(_))), "{fate:?}");
            }
        }
        assert_eq!(passed(&limiter, 20).await, BURST - 6, "{fate:?}");
        is_back(&store).await;
        limiter.reset(&[one("local")]).await.unwrap();
        store.becomes(fate);
        assert_eq!(passed(&limiter, 20).await, BURST, "a reset that was done");
    }
}

#[tokio::test(start_paused = true)]
async fn refund_above_what_may_be_in_flight_is_an_error() {
    let policy = FailurePolicy::new(Store::new(Fate::Works)).max_in_flight(0);
    let limiter = limiter(policy);
    assert!(limiter.spend(&one("local")).await.unwrap().allowed());
    let error = limiter.refund(&one("local")).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap();
    assert!(
        source.to_string().contains("raise `max_in_flight`"),
        "{source}"
    );
}

#[tokio::test(start_paused = true)]
async fn subscriber_may_call_the_limiter_whenever_it_is_called() {
    let store = Store::new(Fate::Fails);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    let lines = Arc::<Mutex<usize>>::default();
    let calls = Arc::<AtomicBool>::default();
    let (caller, count, may_call) = (limiter.clone(), Arc::clone(&lines), Arc::clone(&calls));
    let _guard = tracing::subscriber::set_default(OnEvent(move || {
        *count.lock().unwrap() += 1;
        if may_call.load(Ordering::Relaxed) {
            let _ = caller.try_spend(&one("local"));
            let _ = caller.spend(&one("local")).now_or_never();
        }
    }));
    until_logged(|| *lines.lock().unwrap()).await;
    let before = *lines.lock().unwrap();
    calls.store(true, Ordering::Relaxed);
    passed(&limiter, 20).await;
    is_back(&store).await;
    passed(&limiter, 20).await;
    assert_eq!(
        *lines.lock().unwrap(),
        before + 2,
        "its beginning and its end"
    );
}

#[tokio::test(start_paused = true)]
async fn share_is_what_one_process_may_use_up() {
    let limiter = limiter(FailurePolicy::new(Store::new(Fate::Fails)).share(1, 4));
    assert_eq!(
        passed(&limiter, 10).await,
        3,
        "a quarter of ten, rounded up"
    );
    let denied = limiter.spend(&one("local")).await.unwrap();
    assert_eq!(denied.remaining(), Some(0));
    assert_eq!(
        denied.retry_after(),
        Duration::from_secs(4 * 360),
        "at a quarter of the rate"
    );
    let above = Transaction::new("local", "other").cost(4);
    assert!(
        !limiter.spend(&above).await.unwrap().allowed(),
        "a cost above the share"
    );
}

#[tokio::test(start_paused = true)]
async fn share_is_less_what_was_seen_spent() {
    for (spent, more) in [(0, 7), (10, 3), (12, 3), (13, 2), (20, 0)] {
        let store = Store::new(Fate::Works);
        let policy = FailurePolicy::new(store.clone()).share(1, 3);
        let limits = Limits::builder().limit("local", Limit::per_hour(20));
        let limiter = Limiter::new(limits.build().unwrap(), policy);
        let limiter = limiter.with_clock(ManualClock::default());
        assert_eq!(passed(&limiter, spent).await, spent);
        store.becomes(Fate::Fails);
        assert_eq!(passed(&limiter, 20).await, more, "7 − {spent}/3");
    }
}

#[tokio::test(start_paused = true)]
async fn deadline_holds_for_a_store_that_hangs() {
    let limiter = limiter(FailurePolicy::new(Store::new(Fate::Hangs)));
    let begun = tokio::time::Instant::now();
    assert!(limiter.spend(&one("local")).await.unwrap().allowed());
    assert_eq!(begun.elapsed(), FailurePolicy::<Store>::DEFAULT_DEADLINE);
}

/// Lets outages come and go until one of them is logged in two lines. A line that another test, without a subscriber, is
/// about to write for the first time may be off for all of them, unless that is looked at again.
async fn until_logged(lines: impl Fn() -> usize) {
    let mut before = usize::MAX;
    while lines().checked_sub(before) != Some(2) {
        before = lines();
        tracing::callsite::rebuild_interest_cache();
        let store = Store::new(Fate::Fails);
        let limiter = limiter(FailurePolicy::new(store.clone()));
        passed(&limiter, BURST).await;
        is_back(&store).await;
        passed(&limiter, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn store_that_does_not_answer_is_asked_now_and_then() {
    let (log, _guard) = Log::capture();
    let lines =
        || ["does not answer: deciding without it", "answers again"].map(|line| log.count(line));
    until_logged(|| lines().iter().sum()).await;
    let before = lines();
    let store = Store::new(Fate::Fails);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    passed(&limiter, 1000).await;
    assert_eq!(store.calls(), 5, "as many failures in a row");
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(1)).await;
        passed(&limiter, 100).await;
        assert_eq!(store.calls(), 1);
    }
    store.becomes(Fate::Works);
    tokio::time::advance(Duration::from_secs(1)).await;
    passed(&limiter, 100).await;
    assert_eq!(store.calls(), 100);
    assert_eq!(lines(), before.map(|count| count + 1));
}

/// Returns the figure that gauges show.
fn is_open(limiter: &Limiter) -> bool {
    limiter.stats().is_open.unwrap()
}

#[tokio::test(start_paused = true)]
async fn decisions_without_the_store_are_announced_whatever_the_reason() {
    let (log, _guard) = Log::capture();
    let lines =
        || ["does not answer: deciding without it", "answers again"].map(|line| log.count(line));
    until_logged(|| lines().iter().sum()).await;
    for (fate, reason) in [
        (Fate::Moves, "READONLY"),
        (Fate::Stumbles, "late"),
        (Fate::Forgets, "forgotten"),
        (Fate::Hangs, "no answer within"),
    ] {
        let store = Store::new(Fate::Works);
        let limiter = limiter(FailurePolicy::new(store.clone()));
        passed(&limiter, 4).await;
        store.calls();
        assert!(!is_open(&limiter));
        let (before, reasons) = (lines(), log.count(reason));
        store.becomes(fate);
        if fate == Fate::Moves {
            // A failover that takes no longer than a moment is not announced.
            passed(&limiter, 4).await;
            assert!(!is_open(&limiter) && lines() == before);
            tokio::time::advance(Duration::from_millis(500)).await;
        }
        for _ in 0..20 {
            passed(&limiter, 4).await;
            assert!(is_open(&limiter), "{fate:?}");
        }
        let begun = lines()[0] - before[0];
        assert_eq!((begun, log.count(reason) - reasons), (1, 1), "{fate:?}");
        store.becomes(Fate::Works);
        tokio::time::advance(Duration::from_secs(1)).await;
        passed(&limiter, 1).await;
        assert_eq!(lines(), before.map(|count| count + 1), "{fate:?}");
        assert!(!is_open(&limiter), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn store_that_has_moved_is_asked_again() {
    let store = Store::new(Fate::Moves);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    assert_eq!(passed(&limiter, 30).await, BURST);
    assert_eq!(store.calls(), 30);
}

#[tokio::test(start_paused = true)]
async fn answer_that_is_lost_counts_here_too() {
    let store = Store::new(Fate::Forgets);
    let limiter = limiter(FailurePolicy::new(store.clone()));
    assert_eq!(passed(&limiter, 4).await, 4);
    store.becomes(Fate::Works);
    assert_eq!(passed(&limiter, 20).await, BURST - 4);
}

#[tokio::test(start_paused = true)]
async fn no_more_wait_than_may() {
    let store = Store::new(Fate::Hangs);
    let limiter = limiter(FailurePolicy::new(store.clone()).max_in_flight(3));
    let spends = (0..20).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.spend(&one("local")).await.unwrap().allowed() })
    });
    let mut passed = 0;
    for spend in spends.collect::<Vec<_>>() {
        passed += u32::from(spend.await.unwrap());
    }
    assert_eq!((passed, store.calls()), (BURST, 3));
}

/// Returns how many of so many simultaneous requests of one client pass, and whether all those of others do.
async fn flood(limit: Limit, policy: FailurePolicy<Store>, requests: usize) -> (usize, bool) {
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    let limiter = Limiter::new(limits, policy.pay_back(0));
    let spend = |id: String| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            let spent = limiter.spend(&Transaction::new("l", &id)).await;
            spent.unwrap().allowed()
        })
    };
    let flood: Vec<_> = (0..requests).map(|_| spend("flood".to_owned())).collect();
    let others: Vec<_> = (0..100).map(|n| spend(format!("other{n}"))).collect();
    let flood = futures_util::future::join_all(flood).await.into_iter();
    let passed = flood.filter(|passed| *passed.as_ref().unwrap()).count();
    let others = futures_util::future::join_all(others).await;
    (passed, others.into_iter().all(Result::unwrap))
}

fn of_each_algorithm(limit: u32) -> [Limit; 4] {
    let hour = Duration::from_secs(3600);
    let tier = |limit| Tier::new(limit, hour).active(hour).cooldown(hour);
    [
        Limit::per_hour(limit).burst(limit),
        Limit::quota(limit, Per::Day),
        Limit::tiers([tier(limit - 1), tier(1)]).unwrap(),
        Limit::window(limit, hour),
    ]
}

/// A store that answers in time, in time if it is asked at once, or too late.
fn slow_stores() -> impl Iterator<Item = (u64, FailurePolicy<Store>)> {
    [1, 30, 60].into_iter().map(|ms| {
        let store = Store::new(Fate::Takes(Duration::from_millis(ms)));
        (ms, FailurePolicy::new(store))
    })
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_simultaneous_requests_of_one_client_get_one_burst() {
    for limit in [5, 1000] {
        for (ms, policy) in slow_stores() {
            let each = Limit::per_hour(limit).burst(limit);
            let (passed, others) = flood(each, policy, 10_000).await;
            assert_eq!(passed, limit as usize, "{limit}, {ms} ms");
            assert!(others, "{limit}, {ms} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn client_with_more_requests_than_may_be_in_flight_gets_no_more_than_any_limit() {
    for limit in [5, 300, 600] {
        for (algorithm, each) in of_each_algorithm(limit).into_iter().enumerate() {
            for (ms, policy) in slow_stores() {
                let policy = policy.max_in_flight(400);
                let (passed, others) = flood(each.clone(), policy, 1000).await;
                let case = format!("{limit}, {algorithm}, {ms} ms");
                assert_eq!(passed, limit as usize, "{case}");
                assert!(others, "{case}");
            }
        }
    }
}

/// Sends so many batches at once, each of a charge that always fits and of a spend-only member. Returns the number of
/// batches that pass, and of spend-only members that are charged.
async fn flood_of_batches(
    limit: Limit,
    policy: FailurePolicy<Store>,
    batches: usize,
) -> [usize; 2] {
    let limits = Limits::builder()
        .limit("ample", Limit::per_hour(1_000_000).burst(1_000_000))
        .limit("l", limit);
    let limiter = Limiter::new(limits.build().unwrap(), policy.pay_back(0));
    let spends = (0..batches).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move {
            let ample = Transaction::new("ample", "client");
            let spend_only = Transaction::new("l", "client").mode(Mode::SpendOnly);
            let spent = limiter.spend_batch(&[ample, spend_only]).await.unwrap();
            [spent.allowed(), spent.members()[1].allowed()]
        })
    });
    let spends: Vec<_> = spends.collect();
    let mut counts = [0, 0];
    for spent in spends {
        let spent = spent.await.unwrap();
        for (count, passed) in counts.iter_mut().zip(spent) {
            *count += usize::from(passed);
        }
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn spend_only_members_of_simultaneous_batches_get_no_more_than_any_limit() {
    for limit in [5, 75, 150] {
        for (algorithm, each) in of_each_algorithm(limit).into_iter().enumerate() {
            for (ms, policy) in slow_stores() {
                // Half of the batches neither ask the store nor wait.
                let policy = policy.max_in_flight(25);
                let counts = flood_of_batches(each.clone(), policy, 250).await;
                assert_eq!(counts, [250, limit as usize], "{algorithm}, {ms} ms");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_four_requests_wait_for_each_that_may_ask_the_store() {
    let store = Store::new(Fate::Hangs);
    let limits = Limits::builder().limit("l", Limit::per_hour(100).burst(100));
    let policy = FailurePolicy::new(store).max_in_flight(2);
    let limiter = Limiter::new(limits.build().unwrap(), policy);
    let [client, other] = ["client", "other"].map(|id| Transaction::new("l", id));
    let waiting = (0..10).map(|_| limiter.spend(&client).boxed());
    let mut waiting = futures_util::future::join_all(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    for _ in 0..100 {
        let decided = limiter.spend(&other).now_or_never().unwrap().unwrap();
        assert!(decided.allowed() && decided.source() == Source::Local);
    }
    let decided = limiter.spend(&other).now_or_never().unwrap().unwrap();
    assert!(!decided.allowed(), "a local decision counts");
    assert!(
        waiting
            .await
            .iter()
            .all(|spent| spent.as_ref().unwrap().allowed())
    );
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_and_the_store_decides_them() {
    let store = Store::new(Fate::Takes(Duration::from_millis(10)));
    let limiter = limiter(FailurePolicy::new(store.clone()).max_in_flight(2));
    let spends = (0..8).map(|_| {
        let limiter = limiter.clone();
        tokio::spawn(async move { limiter.spend(&one("local")).await.unwrap().source() })
    });
    for source in futures_util::future::join_all(spends).await {
        assert_eq!(source.unwrap(), Source::Store);
    }
    assert_eq!(store.calls(), 8);
    assert!(!is_open(&limiter));
}

#[tokio::test(start_paused = true)]
async fn denial_of_requests_that_nobody_waits_for_has_the_figures_of_a_used_up_bucket() {
    let store = Store::new(Fate::Hangs);
    let limiter = limiter(FailurePolicy::new(store).max_in_flight(BURST as usize));
    let spend = one("local");
    let waiting = (0..BURST).map(|_| limiter.spend(&spend).boxed());
    let mut waiting = futures_util::future::join_all(waiting);
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let denied = limiter
        .spend(&one("local"))
        .now_or_never()
        .unwrap()
        .unwrap();
    assert!(!denied.allowed());
    assert_eq!(denied.source(), Source::Local);
    assert_eq!(denied.remaining(), Some(0));
    assert_eq!(denied.retry_after(), Duration::from_secs(360));
    assert!(is_open(&limiter), "it was decided without the store");
    let passed = waiting
        .await
        .into_iter()
        .filter(|spent| spent.as_ref().unwrap().allowed());
    assert_eq!(passed.count(), BURST as usize);
}

#[tokio::test(start_paused = true)]
async fn request_that_is_dropped_leaves_nothing_behind() {
    let store = Store::new(Fate::Hangs);
    let limiter = limiter(FailurePolicy::new(store.clone()).max_in_flight(2));
    for _ in 0..100 {
        let spend = one("local");
        let spend = limiter.spend(&spend);
        let dropped = tokio::time::timeout(Duration::from_millis(10), spend).await;
        assert!(dropped.is_err());
    }
    assert_eq!(
        store.calls(),
        100,
        "each found a place, and none was a failure"
    );
    store.becomes(Fate::Works);
    assert_eq!(passed(&limiter, 20).await, BURST);
}

/// Five a minute, then `burst` more, and then nothing for an hour.
fn tiers(policy: FailurePolicy<Store>, burst: u32) -> (Limiter, ManualClock) {
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    let lowest = Tier::new(5, minute).active(minute);
    let burst = Tier::new(burst, hour).active(hour).cooldown(minute);
    let limit = Limit::tiers([lowest, burst]).unwrap();
    let limits = Limits::builder().limit("local", limit).build().unwrap();
    let clock = ManualClock::default();
    (
        Limiter::new(limits, policy.pay_back(0)).with_clock(clock.clone()),
        clock,
    )
}

#[tokio::test(start_paused = true)]
async fn prisoner_stays_one_while_the_store_is_lost() {
    let store = Store::new(Fate::Works);
    let (limiter, clock) = tiers(FailurePolicy::new(store.clone()), 1);
    assert_eq!(passed(&limiter, 4).await, 4);
    store.becomes(Fate::Fails);
    assert_eq!(
        passed(&limiter, 9).await,
        2,
        "one more, and that which enters"
    );
    clock.advance(Duration::from_secs(3600));
    let denied = limiter.spend(&one("local")).await.unwrap();
    assert_eq!(denied.retry_after(), Duration::from_micros(1));
    clock.advance(Duration::from_micros(1));
    assert_eq!(passed(&limiter, 9).await, 5);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_has_denied_or_shown_is_not_counted() {
    let store = Store::new(Fate::Works);
    let (limiter, _) = tiers(FailurePolicy::new(store.clone()), 10);
    assert!(
        !limiter
            .spend(&one("local").cost(16))
            .await
            .unwrap()
            .allowed()
    );
    assert_eq!(
        limiter
            .check(&one("local").cost(7))
            .await
            .unwrap()
            .granted(),
        7
    );
    let group = one("local").cost(7).min_cost(6);
    assert_eq!(limiter.spend(&group).await.unwrap().granted(), 7);
    store.becomes(Fate::Fails);
    let rest = limiter
        .spend(&one("local").cost(20).min_cost(1))
        .await
        .unwrap();
    assert_eq!(rest.split().collect::<Vec<_>>(), [(1, 8)]);
}

#[tokio::test(start_paused = true)]
async fn share_of_tiers_is_a_part_of_each_limit() {
    let store = Store::new(Fate::Works);
    let (limiter, clock) = tiers(FailurePolicy::new(store.clone()).share(1, 4), 10);
    assert_eq!(passed(&limiter, 1).await, 1);
    store.becomes(Fate::Fails);
    // A quarter of five is two, and one of them is taken; and of ten, three.
    assert_eq!(passed(&limiter, 9).await, 4);
    let denied = limiter.spend(&one("local")).await.unwrap();
    assert_eq!(denied.remaining(), Some(0));
    assert_eq!(denied.retry_after(), Duration::from_micros(3_600_000_001));
    store.becomes(Fate::Works);
    tokio::time::advance(Duration::from_secs(1)).await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        passed(&limiter, 20).await,
        14,
        "the store has not heard of them"
    );
    store.becomes(Fate::Fails);
    assert_eq!(
        passed(&limiter, 20).await,
        0,
        "more is taken than the share"
    );
}

/// The limit `local` by the hour or, for as much, by tiers.
fn of_kind(has_tiers: bool) -> Limits {
    let hour = Duration::from_secs(3600);
    let limit = match has_tiers {
        false => Limit::per_hour(BURST),
        true => Limit::tiers([Tier::new(BURST, hour).active(hour)]).unwrap(),
    };
    Limits::builder().limit("local", limit).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn algorithms_of_a_limit_have_their_own_buckets_here_too() {
    for has_tiers in [false, true] {
        let store = Store::new(Fate::Works);
        let limiter = Limiter::new(of_kind(has_tiers), FailurePolicy::new(store.clone()));
        let limiter = limiter.with_clock(ManualClock::default());
        assert_eq!(passed(&limiter, 4).await, 4);
        store.becomes(Fate::Fails);
        assert_eq!(passed(&limiter, 20).await, BURST - 4);
        is_back(&store).await;
        limiter.reload(of_kind(!has_tiers)).unwrap();
        limiter.reset(&[one("local")]).await.unwrap();
        store.becomes(Fate::Fails);
        assert_eq!(passed(&limiter, 20).await, BURST, "tiers: {has_tiers}");
        limiter.reload(of_kind(has_tiers)).unwrap();
        assert_eq!(passed(&limiter, 20).await, 0, "tiers: {has_tiers}");
    }
}

/// Two stores, each with the buckets of the ids that begin with its letter.
#[derive(Clone, Debug)]
struct TwoStores(Arc<[Half; 2]>);

#[derive(Debug)]
struct Half {
    store: Store,
    has_decided: Mutex<bool>,
    /// How often it was replaced by another server.
    replaced: Mutex<u32>,
}

impl TwoStores {
    fn new() -> Self {
        let half = || Half {
            store: Store::new(Fate::Works),
            has_decided: Mutex::new(false),
            replaced: Mutex::new(0),
        };
        Self(Arc::new([half(), half()]))
    }

    fn replace(&self, half: usize) {
        *self.0[half].replaced.lock().unwrap() += 1;
    }

    /// Odd numbers belong to the first half.
    fn server(&self, half: usize) -> ServerId {
        let number = 1 + half + 2 * *self.0[half].replaced.lock().unwrap() as usize;
        ServerId::new(number.try_into().unwrap())
    }

    fn half_with(server: ServerId) -> usize {
        (server.number() as usize - 1) % 2
    }

    fn stores(&self) -> [&Store; 2] {
        [&self.0[0].store, &self.0[1].store]
    }

    fn half_of(member: &Member<'_>) -> usize {
        usize::from(member.key.id.starts_with('b'))
    }
}

#[async_trait]
impl Backend for TwoStores {
    /// A batch is decided member by member, and fails if one of them does.
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut last = None;
        for member in batch.members.iter().rev() {
            let half = &self.0[Self::half_of(member)];
            let part = Batch::new(batch.operation, std::slice::from_ref(member)).at(batch.now);
            let decided = half.store.apply(&part).await;
            *half.has_decided.lock().unwrap() = decided.is_ok();
            last = Some(decided?);
        }
        match (batch.members, last) {
            ([_], Some(outcome)) => Ok(outcome),
            _ => MemoryBackend::new().apply(batch).await,
        }
    }

    fn servers(&self) -> Option<&dyn Servers> {
        Some(self)
    }
}

impl Servers for TwoStores {
    fn server_of(&self, member: &Member<'_>) -> ServerId {
        match member.key.id {
            "nowhere" => ServerId::UNKNOWN,
            _ => self.server(Self::half_of(member)),
        }
    }

    fn has_decided(&self, server: ServerId, _: std::time::Instant) -> bool {
        let half = &self.0[Self::half_with(server)];
        *half.has_decided.lock().unwrap()
    }

    /// The server of some buckets is unknown until the second half is replaced.
    fn is_current(&self, server: ServerId) -> bool {
        match server {
            ServerId::UNKNOWN => *self.0[1].replaced.lock().unwrap() == 0,
            server => self.server(Self::half_with(server)) == server,
        }
    }

    fn address(&self, server: ServerId) -> Option<String> {
        Some(format!("server-{}", server.number()))
    }
}

#[tokio::test(start_paused = true)]
async fn server_that_was_replaced_has_no_breaker() {
    let (log, _guard) = Log::capture();
    let stores = TwoStores::new();
    let [a, _] = stores.stores();
    let limiter = Limiter::new(limits(), FailurePolicy::new(stores.clone()));
    let spend = async |id| {
        let spent = limiter.spend(&Transaction::new("local", id)).await.unwrap();
        spent.source()
    };
    for (id, half) in [("a", 0), ("nowhere", 1)] {
        for round in 0..100 {
            a.becomes(Fate::Fails);
            for _ in 0..10 {
                assert_eq!(spend(id).await, Source::Local, "{round}");
            }
            assert!(is_open(&limiter), "{round}");
            a.becomes(Fate::Works);
            stores.replace(half);
            assert!(!is_open(&limiter), "{round}");
            if half == 1 {
                // From here on, all servers are known.
                break;
            }
            assert_eq!(spend(id).await, Source::Store, "{round}");
            tokio::time::advance(Duration::from_secs(11)).await;
        }
    }
    let [begun, ended] = ["deciding without it", "answers again"].map(|line| log.count(line));
    assert!(begun > 0 && begun == ended, "{log:?}");
    let text = format!("{limiter:?}");
    assert!(text.matches("Breaker {").count() <= 2, "{text}");
}

#[tokio::test(start_paused = true)]
async fn failure_of_one_server_affects_only_its_buckets() {
    let (log, _guard) = Log::capture();
    let stores = TwoStores::new();
    let [a, b] = stores.stores();
    let limiter = Limiter::new(limits(), FailurePolicy::new(stores.clone()));
    let spend = async |id| {
        let spent = limiter.spend(&Transaction::new("local", id)).await.unwrap();
        spent.source()
    };
    a.becomes(Fate::Fails);
    for _ in 0..100 {
        assert_eq!(spend("a").await, Source::Local);
        assert_eq!(spend("b").await, Source::Store);
    }
    assert_eq!((a.calls(), b.calls()), (5, 100));
    assert_eq!(log.count("deciding without it"), 1, "{log:?}");
    assert_eq!(log.count("server-1"), 1, "{log:?}");
    is_back(a).await;
    assert_eq!(spend("a").await, Source::Store);
    assert_eq!(log.count("answers again"), 1, "{log:?}");
}

#[tokio::test(start_paused = true)]
async fn batch_over_servers_blames_those_that_have_not_decided() {
    let stores = TwoStores::new();
    let [a, b] = stores.stores();
    let limiter = Limiter::new(limits(), FailurePolicy::new(stores.clone()));
    let both = ["a", "b"].map(|id| Transaction::new("local", id).mode(Mode::CheckOnly));
    a.becomes(Fate::Fails);
    for _ in 0..100 {
        let decided = limiter.check_batch(&both).await.unwrap();
        assert_eq!(decided.members()[1].source(), Source::Local);
    }
    assert_eq!((a.calls(), b.calls()), (5, 5), "its breaker is open");
    for (id, source) in [("a", Source::Local), ("b", Source::Store)] {
        let spent = limiter.spend(&Transaction::new("local", id)).await.unwrap();
        assert_eq!(spent.source(), source, "{id}");
    }
}

/// A limit that is decided here while the store is away, by a share of it.
fn shared(store: &Store, limit: Limit, part: u32, of: u32) -> (Limiter, ManualClock) {
    let name = LimitName::from("local").on_failure(OnFailure::Local);
    let limits = Limits::builder().limit(name, limit).build().unwrap();
    let clock = ManualClock::default();
    let policy = FailurePolicy::new(store.clone()).share(part, of);
    (
        Limiter::new(limits, policy).with_clock(clock.clone()),
        clock,
    )
}

#[tokio::test]
async fn share_of_a_window_or_a_quota_is_a_part_of_its_limit_for_the_same_time() {
    let minute = Duration::from_secs(60);
    for limit in [
        Limit::window(10, minute),
        Limit::quota(10, Per::first_use(minute)),
    ] {
        for (part, of, expected) in [(1, 1, 10), (1, 4, 3), (2, 3, 7), (1, 100, 1)] {
            let store = Store::new(Fate::Fails);
            let (limiter, clock) = shared(&store, limit.clone(), part, of);
            assert_eq!(passed(&limiter, 20).await, expected, "{part}/{of}");
            let denied = limiter.spend(&one("local")).await.unwrap();
            assert_eq!(
                (denied.source(), denied.retry_after()),
                (Source::Local, minute)
            );
            clock.advance(minute);
            assert_eq!(passed(&limiter, 20).await, expected);
        }
    }
}

#[tokio::test]
async fn local_quota_is_used_as_far_as_the_store_has_used_the_whole() {
    let limit = Limit::quota(10, Per::Day);
    for (spent, expected) in [(0, 5), (1, 4), (4, 3), (9, 0), (10, 0)] {
        let store = Store::new(Fate::Works);
        let (limiter, _) = shared(&store, limit.clone(), 1, 2);
        limiter.spend(&one("local").cost(spent)).await.unwrap();
        store.becomes(Fate::Fails);
        assert_eq!(passed(&limiter, 20).await, expected, "{spent}");
    }
}

#[tokio::test]
async fn local_window_knows_what_the_store_has_charged_and_given_back() {
    let limit = Limit::window(10, Duration::from_secs(60));
    let store = Store::new(Fate::Works);
    let (limiter, clock) = shared(&store, limit, 1, 1);
    let spent = limiter.spend(&one("local").cost(7)).await.unwrap();
    let receipt = spent.receipt().unwrap();
    clock.advance(Duration::from_secs(1));
    limiter.spend(&one("local").cost(2)).await.unwrap();
    limiter.refund(&one("local").cost(3)).await.unwrap();
    store.becomes(Fate::Fails);
    assert_eq!(passed(&limiter, 20).await, 4);
    let handle = limiter.limit("local").unwrap();
    let refund = handle.refund_receipt("client", receipt).await;
    assert!(refund.is_err(), "the store has charged it, and is away");
    clock.advance(Duration::from_secs(59));
    assert_eq!(
        passed(&limiter, 20).await,
        6,
        "what the store took first has left"
    );
}

#[tokio::test]
async fn receipts_of_local_windows_and_quotas_are_refunded_here() {
    let minute = Duration::from_secs(60);
    for limit in [Limit::window(4, minute), Limit::quota(4, Per::Day)] {
        let store = Store::new(Fate::Fails);
        let (limiter, _) = shared(&store, limit, 1, 2);
        let handle = limiter.limit("local").unwrap();
        let spent = handle.cost(2).spend("client").await.unwrap();
        let mut receipt = spent.receipt().unwrap();
        assert!(receipt.is_local());
        store.becomes(Fate::Works);
        let part = receipt.split(1);
        let refunded = handle.refund_receipt("client", part).await.unwrap();
        assert_eq!(
            (refunded.refunded(), refunded.source()),
            (true, Source::Local)
        );
        assert_eq!(refunded.remaining(), Some(1));
        let whole = handle.check("client").await.unwrap();
        assert_eq!(whole.remaining(), Some(3), "the store has charged nothing");
    }
}
