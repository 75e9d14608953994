//! Answers of a store that arrive in another order than that of its decisions.

#![cfg(feature = "failure-policy")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::sleep;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, BackendError, FailurePolicy, async_trait},
    clock::{Clock, ManualClock, Timestamp},
    decision::{Outcome, Source},
    quota::Per,
    testing::cases::history::Random,
    transaction::{Batch, Mode, Receipt},
};

use crate::support::scale::scaled;

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// What a store does with calls of a kind: it decides them at once, and answers after a time.
#[derive(Clone, Copy, Debug, Default)]
struct Fate {
    answers_after: Duration,
    /// It does nothing, and says so.
    refuses: bool,
}

/// A store whose answers take as long as a test says.
#[derive(Clone, Debug, Default)]
struct Store(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    memory: Arc<MemoryBackend>,
    /// It answers nothing.
    is_down: Mutex<bool>,
    /// The fate of the next calls, in their order.
    next: Mutex<Vec<Fate>>,
    debits: Mutex<Fate>,
    /// The tokens that it has been debited for.
    debited: Mutex<u64>,
}

impl Store {
    fn is_down(&self, is_down: bool) {
        *self.0.is_down.lock().unwrap() = is_down;
    }

    /// Sets after how many milliseconds the next calls are answered.
    fn answers_after(&self, times: impl IntoIterator<Item = u32>) {
        let fate = |ms| Fate {
            answers_after: MS * ms,
            refuses: false,
        };
        *self.0.next.lock().unwrap() = times.into_iter().map(fate).collect();
    }
}

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let debits = batch.members.iter();
        let mut debits = debits.filter(|member| member.mode == Mode::Debit);
        let (is_debit, next) = (debits.clone().next().is_some(), &self.0.next);
        let fate = match is_debit {
            true => *self.0.debits.lock().unwrap(),
            false if next.lock().unwrap().is_empty() => Fate::default(),
            false => next.lock().unwrap().remove(0),
        };
        if *self.0.is_down.lock().unwrap() {
            return Err(BackendError::not_done("down"));
        }
        let decided = match fate.refuses {
            true => Err(BackendError::not_done("refused")),
            false => {
                let cost = debits.by_ref().map(|member| u64::from(member.cost));
                *self.0.debited.lock().unwrap() += cost.sum::<u64>();
                self.0.memory.apply(batch).await
            }
        };
        if !fate.answers_after.is_zero() {
            sleep(fate.answers_after).await;
        }
        decided
    }
}

const BURST: u32 = 1000;

fn by_state() -> [Limit; 2] {
    [
        Limit::new(BURST, 1, HOUR).unwrap(),
        Limit::quota(BURST, Per::Month),
    ]
}

/// A process, the store behind it, and a look at the store itself.
struct World {
    limit: Limit,
    store: Store,
    process: Limiter,
    direct: Limiter,
    clock: ManualClock,
}

impl World {
    fn new(limit: &Limit) -> Self {
        let world = Self::by_own_clocks(limit);
        Self {
            process: world.process.with_clock(world.clock.clone()),
            direct: world.direct.with_clock(world.clock.clone()),
            ..world
        }
    }

    fn by_own_clocks(limit: &Limit) -> Self {
        Self::with_in_flight(limit, FailurePolicy::<Store>::DEFAULT_MAX_IN_FLIGHT)
    }

    /// A process that asks the store for so many decisions at the same time.
    fn with_in_flight(limit: &Limit, most: usize) -> Self {
        let limits = || Limits::builder().limit("l", limit.clone()).build().unwrap();
        let store = Store::default();
        let policy = FailurePolicy::new(store.clone()).failures_in_a_row(u32::MAX);
        Self {
            process: Limiter::new(limits(), policy.max_in_flight(most)),
            direct: Limiter::new(limits(), Arc::clone(&store.0.memory)),
            store,
            clock: ManualClock::default(),
            limit: limit.clone(),
        }
    }

    /// Spends a token, at an instant of its own. Returns the receipt.
    async fn spend(&self) -> Option<Receipt> {
        self.clock.advance(Duration::from_micros(1));
        let spent = self.process.spend(&Transaction::new("l", "alice")).await;
        spent.unwrap().receipt()
    }

    /// Returns whether anything was refunded.
    async fn refund(&self, receipt: Option<Receipt>) -> bool {
        self.clock.advance(Duration::from_micros(1));
        let limit = self.process.limit("l").unwrap();
        let refunded = limit.refund_receipt("alice", receipt.unwrap()).await;
        refunded.unwrap().refunded()
    }

    async fn reset(&self) {
        self.clock.advance(Duration::from_micros(1));
        let reset = [Transaction::new("l", "alice")];
        self.process.reset(&reset).await.unwrap();
    }

    /// Returns the tokens that are taken at the store, and in the memory of the process.
    async fn taken(&self) -> [u32; 2] {
        let probe = Transaction::new("l", "alice").cost(0);
        let direct = self.direct.check(&probe).await.unwrap();
        self.store.is_down(true);
        let local = self.process.check(&probe).await.unwrap();
        assert_eq!(local.source(), Source::Local);
        self.store.is_down(false);
        [direct, local].map(|probed| BURST - probed.remaining().unwrap())
    }
}

#[tokio::test(start_paused = true)]
async fn refund_that_is_overtaken_by_a_charge_does_not_hide_the_charge() {
    for limit in by_state() {
        let world = World::new(&limit);
        let mut receipts = Vec::new();
        for _ in 0..10 {
            receipts.push(world.spend().await);
        }
        let refunds = receipts.into_iter().map(|receipt| world.refund(receipt));
        let spends = (0..10).map(|_| world.spend());
        world.store.answers_after([30; 10]);
        tokio::join!(join_all(refunds), async {
            join_all(spends).await;
            assert_eq!(
                world.taken().await,
                [10, 10],
                "before the refunds are answered"
            );
        });
        assert_eq!(world.taken().await, [10, 10], "{limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn refund_that_has_waited_for_its_turn_does_not_hide_a_charge_either() {
    for limit in by_state() {
        let world = World::with_in_flight(&limit, 2);
        let receipt = world.spend().await;
        // The refund begins when the first charge is answered, and the last charge once the second one is.
        world.store.answers_after([10, 20, 30, 0]);
        let last = async {
            sleep(25 * MS).await;
            world.spend().await
        };
        let (_, _, refunded, _) =
            tokio::join!(world.spend(), world.spend(), world.refund(receipt), last);
        assert!(refunded);
        assert_eq!(world.taken().await, [3, 3], "{limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn charge_that_is_overtaken_by_its_refund_stays_refunded() {
    for limit in by_state() {
        let world = World::new(&limit);
        let receipt = world.spend().await;
        world.store.answers_after([30, 0]);
        tokio::join!(world.spend(), world.refund(receipt));
        assert_eq!(world.taken().await, [1, 1], "{limit:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn charges_on_both_sides_of_a_reset_stay_there() {
    for limit in by_state() {
        for (before, reset, after) in [(30, 0, 0), (0, 30, 0), (0, 0, 30), (40, 30, 20)] {
            let world = World::new(&limit);
            for _ in 0..5 {
                world.spend().await;
            }
            world.store.answers_after([before, reset, after]);
            tokio::join!(world.spend(), world.reset(), world.spend());
            assert_eq!(
                world.taken().await,
                [1, 1],
                "{limit:?}: {before}, {reset}, {after}"
            );
        }
    }
}

/// The debt counts as charged while the store is asked, and hides the second charge, whose answer arrives meanwhile.
#[tokio::test(start_paused = true)]
async fn charge_that_a_debt_has_hidden_is_not_taken_from_the_debt_by_its_refund() {
    for limit in by_state() {
        let world = World::new(&limit);
        world.store.is_down(true);
        for _ in 0..4 {
            world.spend().await;
        }
        world.store.is_down(false);
        *world.store.0.debits.lock().unwrap() = Fate {
            answers_after: 39 * MS,
            refuses: true,
        };
        world.store.answers_after([30, 31]);
        let (first, second) = tokio::join!(world.spend(), world.spend());
        assert_eq!(*world.store.0.debited.lock().unwrap(), 0);
        world.store.answers_after([15, 16]);
        let refunded = tokio::join!(world.refund(first), world.refund(second));
        assert_eq!(refunded, (true, true));
        sleep(40 * MS).await;
        *world.store.0.debits.lock().unwrap() = Fate::default();
        world
            .process
            .check(&Transaction::new("l", "alice"))
            .await
            .unwrap();
        sleep(Duration::from_secs(5)).await;
        assert_eq!(world.taken().await, [4, 4], "{limit:?}");
    }
}

/// As after a failover to a server whose clock is behind.
#[tokio::test(start_paused = true)]
async fn clock_that_steps_back_stops_nothing_for_longer_than_a_deadline() {
    for limit in by_state() {
        let world = World::new(&limit);
        let receipt = world.spend().await;
        assert!(world.refund(receipt).await);
        let behind = world.clock.now().as_micros() - 10_000_000;
        world.clock.set(Timestamp::from_micros(behind));
        sleep(51 * MS).await;
        world.spend().await;
        let [store, process] = world.taken().await;
        assert!(store > 0 && process == store, "{process} of {store}");
    }
}

/// A process that lives through many short outages, while all answers of its store arrive in any order.
struct Life {
    world: World,
    seed: u64,
    random: Random,
    receipts: Vec<Option<Receipt>>,
    admitted: u32,
    outages: u32,
}

impl Life {
    fn new(world: World, seed: u64) -> Self {
        Self {
            world,
            seed,
            random: Random(seed),
            receipts: Vec::new(),
            admitted: 0,
            outages: 0,
        }
    }

    fn below(&mut self, n: u32) -> u32 {
        u32::try_from(self.random.below(n.into())).unwrap()
    }

    fn debits(&self, fate: Fate) {
        *self.world.store.0.debits.lock().unwrap() = fate;
    }

    async fn outage(&mut self) {
        let refuses = self.below(4) == 0;
        let fate = Fate {
            // Some answers come too late, but then the debits are charged.
            answers_after: MS * self.below(if refuses { 45 } else { 70 }),
            refuses,
        };
        self.debits(fate);
        self.world.store.is_down(true);
        self.outages += 1;
        for _ in 0..self.below(6) {
            self.receipts.push(self.world.spend().await);
            self.admitted += 1;
        }
        self.world.store.is_down(false);
    }

    /// Lets the store decide several calls at the same time.
    async fn burst(&mut self) {
        let times: Vec<_> = (0..20).map(|_| self.below(45)).collect();
        self.world.store.answers_after(times);
        let most = u32::try_from(self.receipts.len()).unwrap() / 2;
        let refunds = usize::try_from(self.below(most + 1)).unwrap();
        let refunds = self.receipts.split_off(self.receipts.len() - refunds);
        let (spends, world) = (self.below(6), &self.world);
        let (spent, refunded) = tokio::join!(
            join_all((0..spends).map(|_| world.spend())),
            // Nothing is refunded for a local charge that was paid back.
            join_all(refunds.into_iter().map(|receipt| world.refund(receipt))),
        );
        self.receipts.extend(spent);
        let refunded = refunded.iter().filter(|refunded| **refunded).count();
        self.admitted = self.admitted + spends - u32::try_from(refunded).unwrap();
        sleep(MS * self.below(30)).await;
    }

    /// Lets all debts be paid, and compares.
    async fn check(&self) {
        self.debits(Fate::default());
        let look = Transaction::new("l", "alice");
        self.world.process.check(&look).await.unwrap();
        sleep(Duration::from_secs(5)).await;
        // After a debit of unknown outcome, the next answer has what was charged beside it.
        self.world.process.check(&look).await.unwrap();
        let [store, process] = self.world.taken().await;
        let expected = self.admitted..=self.admitted + self.outages;
        assert!(expected.contains(&store), "{store} of {expected:?}");
        let seed = self.seed;
        assert!(
            process.abs_diff(store) <= 1,
            "{process} of {store}, {:?}, seed {seed}",
            self.world.limit
        );
    }
}

#[tokio::test(start_paused = true)]
async fn store_is_charged_for_what_was_admitted_in_whatever_order_it_answers() {
    for limit in [
        Limit::new(BURST, 1, HOUR).unwrap(),
        Limit::quota(BURST, Per::Month),
        Limit::window(BURST, HOUR),
    ] {
        let mut debited = 0;
        for seed in 0..scaled(40) {
            let world = match seed % 2 {
                0 => World::new(&limit),
                _ => World::by_own_clocks(&limit),
            };
            let mut life = Life::new(world, seed);
            for _ in 0..12 {
                life.outage().await;
                for _ in 0..=life.below(3) {
                    life.burst().await;
                }
                if life.below(3) > 0 {
                    life.check().await;
                }
            }
            debited += *life.world.store.0.debited.lock().unwrap();
        }
        assert!(debited > 200, "{debited}");
    }
}
