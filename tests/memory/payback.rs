//! What is charged to a store when it is back: what was decided without it, once.

#![cfg(feature = "failure-policy")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::FailurePolicy,
    clock::{Clock, ManualClock},
    decision::Source,
    quota::Per,
    testing::cases::history::Random,
    tiers::Tier,
    transaction::Mode,
};

use crate::support::store::{Fate, Store};

/// The answer to a debit comes after the debit.
const LATE: Fate = Fate::Takes(Duration::from_millis(20));

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

const BURST: u32 = 10;
/// The emission interval.
const T: Duration = Duration::from_secs(360);

/// A process, the store that it has, and a look at the store itself.
struct World {
    store: Store,
    process: Limiter,
    direct: Limiter,
    clock: ManualClock,
}

impl World {
    fn new(policy: impl Fn(Store) -> FailurePolicy<Store>) -> Self {
        Self::with_limit(&Limit::per_hour(BURST), policy)
    }

    fn with_limit(limit: &Limit, policy: impl Fn(Store) -> FailurePolicy<Store>) -> Self {
        let limits = || {
            let limits = Limits::builder().limit("l", limit.clone());
            limits.build().unwrap()
        };
        let (store, clock) = (Store::default(), ManualClock::default());
        let process = Limiter::new(limits(), policy(store.clone()));
        let direct = Limiter::new(limits(), store.memory());
        Self {
            process: process.with_clock(clock.clone()),
            direct: direct.with_clock(clock.clone()),
            store,
            clock,
        }
    }

    /// How many of so many requests pass.
    async fn passed(&self, id: &str, requests: u32) -> u32 {
        let mut passed = 0;
        for _ in 0..requests {
            let spent = self.process.spend(&Transaction::new("l", id)).await;
            passed += u32::from(spent.unwrap().allowed());
        }
        passed
    }

    /// Ends an outage: a request finds that the store is back, and then there is time to pay.
    async fn ends(&self) {
        self.store.becomes(Fate::Works);
        self.notices().await;
    }

    async fn notices(&self) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let probe = Transaction::new("l", "nobody").mode(Mode::CheckOnly);
        let found = self.process.check(&probe).await.unwrap();
        assert_eq!(found.source(), Source::Store);
        tokio::time::sleep(Duration::from_secs(30)).await;
    }

    /// How long the store takes to fill a bucket.
    async fn charged(&self, id: &str) -> Duration {
        let probe = Transaction::new("l", id).cost(0);
        self.direct.check(&probe).await.unwrap().reset_after()
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_charge_meanwhile_is_no_part_of_the_debt() {
    let world = World::new(FailurePolicy::new);
    world.store.becomes(Fate::Fails);
    assert_eq!(world.passed("alice", 5).await, 5);
    let others = Transaction::new("l", "alice").cost(3);
    assert!(world.direct.spend(&others).await.unwrap().allowed());
    // The process sees their charge before it pays.
    world.store.becomes_for_debits(Fate::Works, Fate::Fails);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.passed("alice", 1).await, 1);
    world.ends().await;
    assert_eq!(world.store.debits(), [("alice".to_owned(), 5)]);
}

#[tokio::test(start_paused = true)]
async fn debit_of_unknown_outcome_is_not_repeated() {
    for fate in [Fate::Away, Fate::Forgets] {
        let world = World::new(FailurePolicy::new);
        world.store.becomes(Fate::Fails);
        assert_eq!(world.passed("alice", 4).await, 4);
        world.store.becomes_for_debits(Fate::Works, fate);
        world.notices().await;
        assert_eq!(world.store.debits(), [("alice".to_owned(), 4)]);
        world.ends().await;
        assert_eq!(world.store.debits(), []);
        // What was decided here counts here as before, and only what is added is charged.
        world.store.becomes(Fate::Fails);
        assert_eq!(world.passed("alice", 20).await, BURST - 4, "{fate:?}");
        world.ends().await;
        assert_eq!(world.store.debits(), [("alice".to_owned(), BURST - 4)]);
    }
}

#[tokio::test(start_paused = true)]
async fn debit_that_was_not_done_is_sent_again() {
    let world = World::new(FailurePolicy::new);
    world.store.becomes(Fate::Fails);
    assert_eq!(world.passed("alice", 4).await, 4);
    world.store.becomes_for_debits(Fate::Works, Fate::Fails);
    world.notices().await;
    assert!(world.store.debits().len() > 1);
    world.ends().await;
    assert_eq!(world.store.debits(), [("alice".to_owned(), 4)]);
    assert_eq!(world.charged("alice").await, T * 4);
}

#[tokio::test(start_paused = true)]
async fn request_that_the_store_may_have_charged_is_not_charged_again() {
    for (fate, charged) in [(Fate::Away, 3), (Fate::Forgets, 6)] {
        let world = World::new(FailurePolicy::new);
        world.store.becomes(fate);
        assert_eq!(world.passed("alice", 3).await, 3);
        world.store.becomes(Fate::Fails);
        assert_eq!(world.passed("alice", 3).await, 3);
        world.ends().await;
        assert_eq!(world.store.debits(), [("alice".to_owned(), 3)], "{fate:?}");
        assert_eq!(world.charged("alice").await, T * charged, "{fate:?}");
        // It counts once here, too.
        world.store.becomes(Fate::Fails);
        assert_eq!(world.passed("alice", 20).await, BURST - 6, "{fate:?}");
    }
}

/// The store decides more of the same client before it has answered the debit.
#[tokio::test(start_paused = true)]
async fn debit_whose_answer_is_overtaken_is_charged_once() {
    let limits = [
        Limit::per_hour(200),
        Limit::window(200, 60 * MINUTE),
        Limit::quota(200, Per::Day),
    ];
    for limit in limits {
        let world = World::with_limit(&limit, FailurePolicy::new);
        let mut admitted = 0;
        for outage in 0..5 {
            world.store.becomes(Fate::Fails);
            admitted += world.passed("alice", 4).await;
            world.store.becomes_for_debits(Fate::Works, LATE);
            for _ in 0..3 {
                admitted += world.passed("alice", 1).await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(SECOND).await;
            let probe = Transaction::new("l", "alice").cost(0);
            let left = world.direct.check(&probe).await.unwrap().remaining();
            assert_eq!(left, Some(200 - admitted), "outage {outage} of {limit:?}");
        }
        let debits = world.store.debits();
        assert!(debits.len() >= 5, "{debits:?}");
        assert_eq!(debits.iter().map(|(_, cost)| cost).sum::<u32>(), 20);
    }
}

/// Runs a future in a runtime of its own, which then ends.
fn alone<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

#[test]
fn debts_that_were_not_sent_when_a_runtime_ended_are_paid_from_the_next_one() {
    let window = Limit::window(BURST, 60 * MINUTE);
    let world = World::with_limit(&window, FailurePolicy::new);
    alone(async {
        world.store.becomes(Fate::Fails);
        for _ in 0..4 {
            assert_eq!(world.passed("alice", 1).await, 1);
            world.clock.advance(SECOND);
        }
        world.store.becomes_for_debits(Fate::Works, LATE);
        assert_eq!(world.passed("nobody", 1).await, 1);
        tokio::time::sleep(Duration::from_millis(5)).await;
    });
    assert_eq!(world.store.debits().len(), 1, "its answer is on its way");
    alone(async {
        assert_eq!(world.passed("nobody", 1).await, 1);
        tokio::time::sleep(MINUTE).await;
    });
    let rest = vec![("alice".to_owned(), 1); 3];
    assert_eq!(world.store.debits(), rest, "each is sent once");
}

#[test]
fn debts_are_paid_if_a_runtime_ended_before_it_polled_the_task_that_pays() {
    let world = World::new(FailurePolicy::new);
    for _ in 0..3 {
        alone(async {
            world.store.becomes(Fate::Fails);
            assert_eq!(world.passed("alice", 1).await, 1);
            world.store.becomes(Fate::Works);
            // It spawns the task, and does not yield to it.
            assert_eq!(world.passed("nobody", 1).await, 1);
        });
    }
    assert_eq!(world.store.debits(), []);
    alone(world.ends());
    assert_eq!(world.store.debits(), [("alice".to_owned(), 3)]);
}

/// The debit is refused after the store has decided more of the same client.
#[tokio::test(start_paused = true)]
async fn debit_that_was_not_done_beside_other_decisions_is_sent_again() {
    for limit in [Limit::per_hour(100), Limit::quota(100, Per::Day)] {
        let world = World::with_limit(&limit, FailurePolicy::new);
        let mut admitted = 0;
        for _ in 0..3 {
            world.store.becomes(Fate::Fails);
            admitted += world.passed("alice", 4).await;
            world
                .store
                .becomes_for_debits(Fate::Works, Fate::Refuses(Duration::from_millis(20)));
            for _ in 0..5 {
                admitted += world.passed("alice", 1).await;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            world.ends().await;
            let probe = Transaction::new("l", "alice").cost(0);
            let left = world.direct.check(&probe).await.unwrap().remaining();
            assert_eq!(left, Some(100 - admitted), "{limit:?}");
            // The memory of the process has all of it, too.
            world.store.becomes(Fate::Fails);
            let probe = Transaction::new("l", "alice").cost(0);
            let left = world.process.check(&probe).await.unwrap().remaining();
            assert_eq!(left, Some(100 - admitted), "{limit:?}");
            world.ends().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn largest_debts_are_paid_if_there_are_too_many() {
    let world = World::new(|store| FailurePolicy::new(store).pay_back(2));
    world.store.becomes(Fate::Fails);
    for (id, spent) in [("a", 3), ("b", 7), ("c", 1), ("d", 6)] {
        assert_eq!(world.passed(id, spent).await, spent);
    }
    // It is one too many, again.
    assert_eq!(world.passed("e", 1).await, 1);
    world.ends().await;
    let largest = [("b".to_owned(), 7), ("d".to_owned(), 6)];
    assert_eq!(world.store.debits(), largest);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_charged_if_nothing_is_to_be_paid_back() {
    let world = World::new(|store| FailurePolicy::new(store).pay_back(0));
    world.store.becomes(Fate::Fails);
    assert_eq!(world.passed("alice", 4).await, 4);
    world.ends().await;
    assert_eq!(world.store.debits(), []);
    assert_eq!(world.passed("alice", 20).await, BURST);
}

#[tokio::test(start_paused = true)]
async fn receipt_of_a_charge_that_was_paid_back_gives_nothing_back() {
    for part in [1, 4] {
        let world = World::new(|store| FailurePolicy::new(store).share(part, 4));
        let limit = world.process.limit("l").unwrap();
        world.store.becomes(Fate::Fails);
        let paid = limit.spend("alice").await.unwrap().receipt().unwrap();
        world.ends().await;
        assert_eq!(world.charged("alice").await, T);
        world.store.becomes(Fate::Fails);
        assert_eq!(world.passed("alice", 1).await, 1);
        let refunded = limit.refund_receipt("alice", paid).await.unwrap();
        assert!(!refunded.refunded(), "share {part}/4");
        world.ends().await;
        assert_eq!(world.charged("alice").await, T * 2);
    }
}

#[tokio::test(start_paused = true)]
async fn quota_is_charged_for_local_admissions_of_the_period_in_force() {
    for part in [1, 2] {
        let quota = Limit::quota(BURST, Per::Day);
        let world = World::with_limit(&quota, |store| FailurePolicy::new(store).share(part, 2));
        let limit = world.process.limit("l").unwrap();
        assert_eq!(world.passed("alice", 2).await, 2);
        world.store.becomes(Fate::Fails);
        assert_eq!(world.passed("alice", 2).await, 2);
        let third = limit.spend("alice").await.unwrap();
        let receipts = [&third; 2].map(|spent| spent.receipt().unwrap());
        let [first, second] = receipts;
        assert!(
            limit
                .refund_receipt("alice", first)
                .await
                .unwrap()
                .refunded()
        );
        world.ends().await;
        assert_eq!(world.store.debits(), [("alice".to_owned(), 2)]);
        let refunded = limit.refund_receipt("alice", second).await.unwrap();
        assert!(!refunded.refunded(), "it is paid");
        let probe = Transaction::new("l", "alice").cost(0);
        let left = world.direct.check(&probe).await.unwrap();
        assert_eq!(left.remaining(), Some(BURST - 4));
        world.store.becomes(Fate::Fails);
        assert_eq!(world.passed("alice", 1).await, 1);
        // Yesterday's are not charged today.
        world.clock.advance(Duration::from_secs(24 * 3600));
        assert_eq!(world.passed("alice", 3).await, 3);
        world.ends().await;
        assert_eq!(world.store.debits(), [("alice".to_owned(), 3)]);
    }
}

#[tokio::test(start_paused = true)]
async fn tiers_are_not_charged() {
    let tiers = Limit::tiers([Tier::new(BURST, MINUTE)]).unwrap();
    let world = World::with_limit(&tiers, FailurePolicy::new);
    world.store.becomes(Fate::Fails);
    assert_eq!(world.passed("alice", 20).await, BURST);
    world.ends().await;
    assert_eq!(world.store.debits(), []);
}

#[tokio::test(start_paused = true)]
async fn window_is_charged_for_units_that_still_count_at_their_own_instants() {
    for part in [1, 2] {
        let window = Limit::window(BURST, MINUTE);
        let world = World::with_limit(&window, |store| FailurePolicy::new(store).share(part, 2));
        let limit = world.process.limit("l").unwrap();
        assert_eq!(world.passed("alice", 1).await, 1);
        world.store.becomes(Fate::Fails);
        world.clock.advance(10 * SECOND);
        assert_eq!(world.passed("alice", 1).await, 1);
        world.clock.advance(20 * SECOND);
        let [second, third] = [limit.spend("alice").await, limit.spend("alice").await];
        let [refunded, paid] = [second.unwrap(), third.unwrap()].map(|spent| spent.receipt());
        let refund = limit.refund_receipt("alice", refunded.unwrap()).await;
        assert!(refund.unwrap().refunded());
        world.clock.advance(30 * SECOND);
        world.ends().await;
        let alice = ("alice".to_owned(), 1);
        let debits = world.store.debits();
        assert_eq!(debits, [alice.clone(), alice]);
        let refund = limit.refund_receipt("alice", paid.unwrap()).await;
        assert!(!refund.unwrap().refunded(), "it is paid");
        // Those of the tenth and the thirtieth second, seen from the sixtieth.
        let probe = Transaction::new("l", "alice").cost(BURST);
        for (held, until_empty) in [(BURST - 2, 30), (BURST - 1, 20)] {
            let denied = world.direct.check(&probe).await.unwrap();
            assert_eq!(denied.remaining(), Some(held));
            assert_eq!(denied.reset_after(), until_empty * SECOND);
            world.clock.advance(10 * SECOND);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn window_that_was_paid_back_in_part_is_paid_back_to_the_end() {
    let world = World::with_limit(&Limit::window(BURST, MINUTE), FailurePolicy::new);
    world.store.becomes(Fate::Fails);
    for _ in 0..3 {
        assert_eq!(world.passed("alice", 1).await, 1);
        world.clock.advance(SECOND);
    }
    world.store.becomes_for_debits(Fate::Works, Fate::Fails);
    world.notices().await;
    assert!(!world.store.debits().is_empty(), "they were tried in vain");
    // More of the same bucket in another outage.
    world.store.becomes(Fate::Fails);
    assert_eq!(world.passed("alice", 2).await, 2);
    world.ends().await;
    let probe = Transaction::new("l", "alice").cost(0);
    let left = world.direct.check(&probe).await.unwrap();
    assert_eq!(left.remaining(), Some(BURST - 5));
    assert_eq!(left.reset_after(), MINUTE);
    assert!(world.passed("alice", 20).await == BURST - 5);
}

#[tokio::test(start_paused = true)]
async fn window_at_the_store_comes_to_what_it_would_be_without_outages() {
    let mut random = Random(11);
    for limit in [3, 10, 40] {
        let window = Limit::window(limit, MINUTE);
        for round in 0..20 {
            let world = World::with_limit(&window, FailurePolicy::new);
            // A store that has decided all of it.
            let limits = Limits::builder().limit("l", window.clone()).build();
            let uncut = Limiter::new(limits.unwrap(), MemoryBackend::new());
            let uncut = uncut.with_clock(world.clock.clone());
            for _ in 0..12 {
                let is_away = random.below(2) == 0;
                if is_away {
                    world.store.becomes(Fate::Fails);
                }
                for _ in 0..random.below(8) {
                    let step = Duration::from_micros(random.below(20_000_000));
                    world.clock.advance(step);
                    let cost = 1 + random.cost(u64::from(limit) / 3);
                    let spend = Transaction::new("l", "alice").cost(cost);
                    let spent = world.process.spend(&spend).await.unwrap();
                    let expected = uncut.spend(&spend).await.unwrap();
                    assert_eq!(spent.allowed(), expected.allowed(), "{limit}, {round}");
                }
                if is_away {
                    world.ends().await;
                    for cost in 0..=limit {
                        let probe = Transaction::new("l", "alice").cost(cost);
                        let [found, expected] = [&world.direct, &uncut];
                        let found = found.check(&probe).await.unwrap();
                        let expected = expected.check(&probe).await.unwrap();
                        assert_eq!(found, expected, "{limit}, {round}");
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn store_comes_to_what_it_would_have_charged_without_outages() {
    let mut random = Random(7);
    for _ in 0..50 {
        let world = World::new(FailurePolicy::new);
        // What a store that had decided all of it would have, in microseconds.
        let mut tat = 0_u64;
        for _ in 0..30 {
            let is_away = random.below(2) == 0;
            if is_away {
                world.store.becomes(Fate::Fails);
            }
            for _ in 0..random.below(8) {
                world
                    .clock
                    .advance(Duration::from_micros(random.below(800_000_000)));
                let cost = 1 + random.cost(4);
                let spend = Transaction::new("l", "alice").cost(cost);
                let spent = world.process.spend(&spend).await.unwrap();
                let now = world.clock.now().as_micros();
                if spent.allowed() {
                    let charge = u64::from(cost) * u64::try_from(T.as_micros()).unwrap();
                    tat = tat.max(now) + charge;
                }
            }
            if is_away {
                world.ends().await;
                let now = world.clock.now().as_micros();
                let due = Duration::from_micros(tat.saturating_sub(now));
                let charged = world.charged("alice").await;
                assert!(
                    charged >= due && charged < due + T,
                    "{charged:?} for {due:?}"
                );
                // A debit is of whole tokens.
                tat = now + u64::try_from(charged.as_micros()).unwrap();
            }
        }
    }
}
