//! Fleets that grow and shrink while they run: what their processes admit during an outage, what they charge to the store
//! afterwards, and what they lease.

#![cfg(feature = "failure-policy")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{panic::catch_unwind, time::Duration};

use futures_util::FutureExt;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{DenyCache, FailurePolicy, Fleet, Lease},
    clock::ManualClock,
    decision::Source,
    limit::LimitName,
    quota::Per,
    testing::{MapBackend, cases::history::Random, conformance},
    transaction::{Mode, Receipt},
};

use crate::support::{
    scale::scaled,
    store::{Fate, Store},
};

conformance!(
    of_one,
    FailurePolicy::new(Lease::new(MapBackend::default(), 1)).fleet(1)
);
conformance!(of_one_without_its_store, FailurePolicy::new(Store::new(Fate::Fails)).fleet(1), without: [refunds]);

const BURST: u32 = 100;
const SECOND: Duration = Duration::from_secs(1);

/// A hundred at once, and ten per second.
fn gcra() -> Limit {
    Limit::per_second(10).burst(BURST)
}

fn kinds() -> [Limit; 3] {
    let quota = Limit::quota(BURST, Per::Hour);
    [gcra(), quota, Limit::window(BURST, 60 * SECOND)]
}

fn limits(limit: Limit) -> Limits {
    let name = LimitName::from("l");
    Limits::builder().limit(name, limit).build().unwrap()
}

/// Each process may hold a tenth of the limit.
fn leased(limit: Limit) -> Limits {
    let name = LimitName::from("l").lease(1, 10);
    Limits::builder().limit(name, limit).build().unwrap()
}

/// A process, and the number that it was told.
struct Process {
    fleet: Fleet,
    limiter: Limiter,
}

impl Process {
    fn new(store: &Store, size: u32, limits: Limits, clock: &ManualClock) -> Self {
        let fleet = Fleet::of(size);
        let policy = FailurePolicy::new(Lease::new(store.clone(), &fleet)).fleet(&fleet);
        let limiter = Limiter::new(limits, policy).with_clock(clock.clone());
        Self { fleet, limiter }
    }

    fn told(&self, size: u32) {
        self.fleet.resize(size).unwrap();
    }

    async fn passed(&self, requests: u32) -> u32 {
        let mut passed = 0;
        for _ in 0..requests {
            let spent = self.limiter.spend(&Transaction::new("l", "id")).await;
            passed += u32::from(spent.unwrap().allowed());
        }
        passed
    }

    /// Ends an outage. Returns the units that the store has been debited.
    async fn pays(&self, store: &Store) -> u32 {
        store.becomes(Fate::Works);
        tokio::time::sleep(SECOND).await;
        let probe = Transaction::new("l", "nobody").mode(Mode::CheckOnly);
        let found = self.limiter.check(&probe).await.unwrap();
        assert_eq!(found.source(), Source::Store);
        tokio::time::sleep(30 * SECOND).await;
        store.debits().iter().map(|(_, cost)| cost).sum()
    }
}

async fn all_passed(processes: &[Process]) -> u32 {
    let mut all = 0;
    for process in processes {
        all += process.passed(2 * BURST).await;
    }
    all
}

#[test]
fn fleet_has_at_least_one_process() {
    let fleet = Fleet::of(3);
    let error = fleet.resize(0).unwrap_err();
    assert!(error.to_string().contains("at least 1"), "{error}");
    assert_eq!(fleet.size(), 3);
    fleet.clone().resize(5).unwrap();
    assert_eq!(fleet.size(), 5);
    let panicked = catch_unwind(|| Lease::new(MemoryBackend::new(), 0)).unwrap_err();
    let text = panicked.downcast_ref::<String>().unwrap();
    assert!(text.contains("at least 1"), "{text}");
}

/// The figures of `docs/failures.md`.
#[tokio::test(start_paused = true)]
async fn fleet_that_changes_during_an_outage_admits_what_the_guide_says() {
    for (limit, is_gcra) in kinds().into_iter().zip([true, false, false]) {
        let (store, clock) = (Store::new(Fate::Fails), ManualClock::default());
        let processes = |told: [u32; 4]| {
            told.map(|size| Process::new(&store, size, limits(limit.clone()), &clock))
        };

        let told_first = processes([2, 2, 4, 4]);
        told_first[..2].iter().for_each(|process| process.told(4));
        assert_eq!(all_passed(&told_first).await, 100);

        let grown = processes([2, 2, 4, 4]);
        assert_eq!(all_passed(&grown[..2]).await, 100);
        grown[..2].iter().for_each(|process| process.told(4));
        assert_eq!(all_passed(&grown).await, 50);

        let not_told = processes([2; 4]);
        assert_eq!(all_passed(&not_told).await, 200);

        let ended = processes([4; 4]);
        assert_eq!(all_passed(&ended[..2]).await, 50);
        ended[2..].iter().for_each(|process| process.told(2));
        assert_eq!(all_passed(&ended[2..]).await, 100);

        let shrunk = processes([4; 4]);
        assert_eq!(all_passed(&shrunk).await, 100);
        shrunk[2..].iter().for_each(|process| process.told(2));
        // With GCRA, a part that is used up stays so; of the others, units are counted.
        let more = if is_gcra { 0 } else { 50 };
        assert_eq!(all_passed(&shrunk[2..]).await, more);
        if is_gcra {
            clock.advance(SECOND);
            assert_eq!(all_passed(&shrunk[2..]).await, 10);
        }
    }
}

/// A process that gets a random fleet size now and then, and a client that spends and gets refunds.
struct Changing {
    process: Process,
    sizes: Vec<u32>,
    receipts: Vec<Receipt>,
}

impl Changing {
    fn new(store: &Store, limit: Limit, random: &mut Random) -> Self {
        let size = 1 + random.cost(9);
        Self {
            process: Process::new(store, size, limits(limit), &ManualClock::default()),
            sizes: vec![size],
            receipts: Vec::new(),
        }
    }

    async fn step(&mut self, random: &mut Random) {
        let handle = self.process.limiter.limit("l").unwrap();
        match random.below(8) {
            0 => {
                let size = 1 + random.cost(9);
                self.process.told(size);
                self.sizes.push(size);
            }
            1 => {
                if let Some(receipt) = self.receipts.pop() {
                    let refunded = handle.refund_receipt("id", receipt).await.unwrap();
                    assert!(refunded.refunded());
                }
            }
            _ => {
                let spend = Transaction::new("l", "id").cost(1 + random.cost(9));
                let spent = self.process.limiter.spend(&spend).await.unwrap();
                self.receipts
                    .extend(spent.allowed().then(|| spent.receipt().unwrap()));
            }
        }
    }

    fn admitted(&self) -> u32 {
        self.receipts.iter().map(Receipt::cost).sum()
    }

    /// The least that can be paid back, of a bucket that was charged with several shares.
    fn least_debt(&self) -> u32 {
        let [smallest, largest] = [self.sizes.iter().min(), self.sizes.iter().max()];
        (self.admitted() * smallest.unwrap()).div_ceil(*largest.unwrap())
    }
}

/// However often the number changes.
#[tokio::test(start_paused = true)]
async fn process_admits_its_largest_share_and_pays_back_no_more_than_it_admitted() {
    for seed in 0..scaled(60) {
        let random = &mut Random(seed);
        for (kind, limit) in kinds().into_iter().enumerate() {
            let store = Store::new(Fate::Fails);
            let mut changing = Changing::new(&store, limit, random);
            for _ in 0..60 {
                changing.step(random).await;
                let smallest = *changing.sizes.iter().min().unwrap();
                let admitted = changing.admitted();
                assert!(admitted <= BURST.div_ceil(smallest), "seed {seed}, {kind}");
            }
            let debited = changing.process.pays(&store).await;
            let most = changing.admitted();
            let least = if kind == 0 {
                changing.least_debt()
            } else {
                most
            };
            assert!(
                (least..=most).contains(&debited),
                "seed {seed}, {kind}: {debited} of {most}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn debt_is_what_was_admitted_before_the_change() {
    for (before, after) in [(4, 2), (4, 1), (2, 4), (1, 8)] {
        let (store, clock) = (Store::new(Fate::Fails), ManualClock::default());
        let process = Process::new(&store, before, limits(gcra()), &clock);
        assert_eq!(process.passed(12).await, 12);
        process.told(after);
        assert_eq!(process.pays(&store).await, 12);
    }
}

/// Processes that hold nine units each.
async fn held(store: &Store, told: &[u32], clock: &ManualClock) -> Vec<Process> {
    let new = |size: &u32| Process::new(store, *size, leased(gcra()), clock);
    let processes: Vec<_> = told.iter().map(new).collect();
    hold(&processes, clock).await;
    processes
}

/// Lets each process hold nine units, and the store fill again.
async fn hold(processes: &[Process], clock: &ManualClock) {
    for process in processes {
        let mut held = None;
        while held != Some(9) {
            let spent = process.limiter.spend(&Transaction::new("l", "id")).await;
            let spent = spent.unwrap();
            assert!(spent.allowed());
            held = spent
                .remaining()
                .filter(|_| spent.source() == Source::Lease);
        }
        clock.advance(60 * SECOND);
    }
}

/// Tells processes the number, and lets them give back what they held by the old one. The others keep what they hold.
async fn tell(processes: &[Process], size: u32) {
    for process in processes {
        process.told(size);
        assert_eq!(process.passed(1).await, 1);
    }
    tokio::time::sleep(SECOND + SECOND / 5).await;
}

/// As in `docs/leases.md`.
#[tokio::test(start_paused = true)]
async fn fleet_whose_processes_are_told_in_time_never_admits_more_than_the_limit() {
    // They learn it first, and then two more start. What was held before is given back.
    let (store, clock) = (Store::default(), ManualClock::default());
    let processes = held(&store, &[2, 2], &clock).await;
    processes.iter().for_each(|process| process.told(4));
    let new = held(&store, &[4, 4], &clock).await;
    assert_eq!(
        all_passed(&processes).await + all_passed(&new).await,
        60 + 18
    );

    // Two have ended, and then the others learn it.
    let (store, clock) = (Store::default(), ManualClock::default());
    let processes = held(&store, &[4; 4], &clock).await;
    for ended in &processes[..2] {
        ended.limiter.close().await.unwrap();
    }
    tell(&processes[2..3], 2).await;
    hold(&processes[2..3], &clock).await;
    assert_eq!(all_passed(&processes[2..]).await, 80 + 18);
}

#[tokio::test(start_paused = true)]
async fn fleet_whose_processes_are_told_late_admits_what_the_others_hold() {
    // Two more start, and nobody learns it.
    let (store, clock) = (Store::default(), ManualClock::default());
    let processes = held(&store, &[2; 4], &clock).await;
    assert_eq!(all_passed(&processes).await, 80 + 36);

    // Two learn that the fleet is smaller, while all of them run.
    let (store, clock) = (Store::default(), ManualClock::default());
    let processes = held(&store, &[4; 4], &clock).await;
    tell(&processes[2..], 2).await;
    hold(&processes[2..], &clock).await;
    let told = all_passed(&processes[2..]).await;
    assert_eq!(told + all_passed(&processes[..2]).await, 80 + 36);
}

#[tokio::test(start_paused = true)]
async fn held_units_are_given_back_after_a_change() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let process = Process::new(&store, 2, leased(gcra()), &clock);
    assert_eq!(process.passed(18).await, 18);
    process.told(4);
    let next = process.limiter.spend(&Transaction::new("l", "id")).await;
    assert_eq!(next.unwrap().source(), Source::Store, "nothing is held");
    tokio::time::sleep(4 * SECOND).await;
    let direct = Limiter::new(limits(gcra()), store.clone()).with_clock(clock);
    let left = direct.limit("l").unwrap().peek("id").await.unwrap();
    assert_eq!(left.remaining(), Some(BURST - 19));
}

#[tokio::test(start_paused = true)]
async fn largest_cost_follows_the_fleet() {
    let process = Process::new(
        &Store::default(),
        4,
        leased(gcra()),
        &ManualClock::default(),
    );
    let spend = Transaction::new("l", "id").cost(56);
    assert!(process.limiter.spend(&spend).await.unwrap().allowed());
    process.told(5);
    let error = process.limiter.spend(&spend).await.unwrap_err().to_string();
    assert!(
        error.contains("55 (it is 100, and leases reserve 45"),
        "{error}"
    );
    // Half of the burst always fits.
    process.told(49);
    let other = Transaction::new("l", "other").cost(50);
    assert!(process.limiter.spend(&other).await.unwrap().allowed());
}

#[tokio::test(start_paused = true)]
async fn limit_works_without_leases_while_the_fleet_is_too_large_for_it() {
    let process = Process::new(
        &Store::default(),
        4,
        leased(gcra()),
        &ManualClock::default(),
    );
    let sources = async || {
        let mut sources = Vec::new();
        for _ in 0..20 {
            let spent = process.limiter.spend(&Transaction::new("l", "id")).await;
            sources.push(spent.unwrap().source());
        }
        sources
    };
    assert!(sources().await.contains(&Source::Lease));
    process.told(50);
    process.limiter.reload(leased(gcra())).unwrap();
    assert_eq!(sources().await, [Source::Store; 20]);
    let whole = Transaction::new("l", "other").cost(BURST);
    assert!(process.limiter.spend(&whole).await.unwrap().allowed());
    process.told(2);
    assert!(sources().await.contains(&Source::Lease));

    let too_large = Lease::new(MemoryBackend::new(), 50);
    let error = Limiter::try_new(leased(gcra()), too_large).unwrap_err();
    assert!(
        error.to_string().contains("less than one unit each"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn one_value_serves_the_whole_stack() {
    let fleet = Fleet::of(4);
    let (store, clock) = (Store::default(), ManualClock::default());
    let lease = Lease::new(DenyCache::new(store.clone()), &fleet);
    let policy = FailurePolicy::new(lease).fleet(&fleet);
    let limiter = Limiter::new(leased(gcra()), policy).with_clock(clock);
    let passed = async |id: &'static str| {
        let mut passed = 0;
        for _ in 0..2 * BURST {
            let spent = limiter.spend(&Transaction::new("l", id)).await.unwrap();
            passed += u32::from(spent.allowed());
        }
        passed
    };
    assert_eq!(passed("a").await, 60, "four times ten are reserved");
    fleet.resize(2).unwrap();
    assert_eq!(passed("b").await, 80);
    store.becomes(Fate::Fails);
    assert_eq!(passed("c").await, 50, "half of the limit");
    fleet.resize(5).unwrap();
    assert_eq!(passed("d").await, 20);
    let layer_cost = Transaction::new("l", "e").cost(21);
    let denied = limiter.spend(&layer_cost).now_or_never().unwrap();
    assert!(!denied.unwrap().allowed(), "a cost above the share");
}
