//! Units that are charged ahead: never more than the limit, whatever processes do.

#![cfg(feature = "failure-policy")]
#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use futures_util::{FutureExt, future::join_all};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::{
        Backend, BackendError, DenyCache, FailurePolicy, Lease, ServerId, Servers, async_trait,
    },
    clock::ManualClock,
    decision::{Outcome, Source},
    limit::{Language, LimitName},
    quota::Per,
    testing::{MapBackend, conformance},
    tiers::Tier,
    transaction::{Batch, Member, Mode, Operation},
};

use crate::support::store::{Fate, Store};

conformance!(without_leases, Lease::new(MapBackend::default(), 4));

const BURST: u32 = 100;
/// The emission interval.
const T: Duration = Duration::from_millis(100);

/// A hundred at once, ten per second, and each process may hold a tenth; the same of a quota; and three others per
/// hour.
fn limits() -> Limits {
    let name = |name: &str| LimitName::from(name).lease(1, 10);
    let limits = Limits::builder()
        .limit(name("hot"), leased("hot"))
        .limit(name("plan"), leased("plan"))
        .limit("other", Limit::per_hour(3));
    limits.build().unwrap()
}

/// A limit of the fleet, as it was before it was split.
fn leased(name: &str) -> Limit {
    match name {
        "plan" => Limit::quota(BURST, Per::Hour),
        _ => Limit::per_second(10).burst(BURST),
    }
}

fn process(store: &Store, processes: u32, clock: &ManualClock) -> Limiter {
    let lease = Lease::new(store.clone(), processes);
    Limiter::new(limits(), lease).with_clock(clock.clone())
}

/// What the store has left of the whole limit.
async fn left(store: &Store, clock: &ManualClock) -> u32 {
    left_of(store, clock, &one("hot")).await
}

async fn left_of(store: &Store, clock: &ManualClock, of: &Transaction<'_>) -> u32 {
    let name = of.limit.as_str();
    let direct = Limits::builder().limit(name, leased(name));
    let direct = Limiter::new(direct.build().unwrap(), store.memory());
    let probe = of.cost(0);
    let probed = direct.with_clock(clock.clone()).check(&probe).await;
    probed.unwrap().remaining().unwrap()
}

fn one(limit: &'static str) -> Transaction<'static> {
    Transaction::new(limit, "id")
}

async fn passed(limiter: &Limiter, requests: u32) -> u32 {
    passed_of(limiter, "hot", requests).await
}

async fn passed_of(limiter: &Limiter, limit: &'static str, requests: u32) -> u32 {
    let mut passed = 0;
    for _ in 0..requests {
        passed += u32::from(limiter.spend(&one(limit)).await.unwrap().allowed());
    }
    passed
}

#[tokio::test(start_paused = true)]
async fn most_decisions_come_from_memory_once_a_bucket_is_used_heavily() {
    let store = Store::default();
    let name = LimitName::from("hot").lease(1, 20);
    let limits = Limits::builder().limit(name, Limit::per_second(10_000).burst(20_000));
    let limiter = Limiter::new(limits.build().unwrap(), Lease::new(store.clone(), 2));
    let limiter = limiter.with_clock(ManualClock::default());
    assert_eq!(passed(&limiter, 10_000).await, 10_000);
    let calls = store.calls();
    assert!(calls < 50, "{calls}");
    let decision = limiter.spend(&one("hot")).await.unwrap();
    assert_eq!(decision.source(), Source::Lease);
    let before = decision.remaining().unwrap();
    assert!(before <= 1000, "what the process holds: {before}");
    let next = limiter.spend(&one("hot")).await.unwrap();
    assert_eq!(next.remaining(), Some(before - 1));
}

#[tokio::test(start_paused = true)]
async fn bucket_that_is_hardly_used_is_not_leased() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    for _ in 0..20 {
        assert_eq!(passed(&limiter, 1).await, 1);
        clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(store.calls(), 20);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_refused_while_the_store_has_some() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 1, &clock);
    // Ten are reserved for what the process has held before.
    assert_eq!(passed(&limiter, 200).await, 90);
    assert_eq!(left(&store, &clock).await, 10);
    clock.advance(T * 5);
    assert_eq!(passed(&limiter, 20).await, 5);
}

/// Requests of one client to several processes in turn: so many at a time, with a pause after them.
#[derive(Debug)]
struct Traffic {
    processes: u32,
    requests: u32,
    pause: Duration,
    /// The costs, in turn.
    costs: &'static [u32],
}

impl Traffic {
    /// Returns the number of calls to the store.
    async fn calls(&self, limit: &'static str, is_leased: bool) -> usize {
        let (store, clock) = (Store::default(), ManualClock::default());
        let limiters: Vec<_> = (0..self.processes)
            .map(|_| match is_leased {
                true => process(&store, self.processes, &clock),
                false => Limiter::new(limits(), store.clone()).with_clock(clock.clone()),
            })
            .collect();
        let mut requests = limiters.iter().cycle().zip(self.costs.iter().cycle());
        for _ in 0..1500 / self.requests {
            for (limiter, cost) in requests.by_ref().take(self.requests as usize) {
                limiter.spend(&one(limit).cost(*cost)).await.unwrap();
            }
            clock.advance(self.pause);
            tokio::time::sleep(self.pause).await;
        }
        store.calls()
    }
}

#[tokio::test(start_paused = true)]
async fn bucket_that_is_used_up_makes_no_more_calls_than_without_leases() {
    let mut more = Vec::new();
    for limit in ["hot", "plan"] {
        for processes in [1, 2, 4] {
            for (requests, pause) in [(1, T / 10), (1, T / 2), (1, T * 9 / 10), (20, T * 10)] {
                for costs in [&[1][..], &[2], &[1, 3, 2, 1, 5]] {
                    let traffic = Traffic {
                        processes,
                        requests,
                        pause,
                        costs,
                    };
                    let leased = traffic.calls(limit, true).await;
                    let plain = traffic.calls(limit, false).await;
                    let is_less = leased * 4 < plain * 3;
                    let saves = limit == "hot" && processes == 1 && requests > 1 && costs == [1];
                    if leased > plain || saves && !is_less {
                        more.push(format!("{limit} {traffic:?}: {leased} and {plain}"));
                    }
                }
            }
        }
    }
    assert!(more.is_empty(), "{more:#?}");
}

#[tokio::test(start_paused = true)]
async fn batches_of_a_bucket_that_is_used_up_make_no_more_calls_than_without_leases() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 1, &clock);
    let batch = [one("hot"), one("other").mode(Mode::CheckOnly)];
    while limiter.spend_batch(&batch).await.unwrap().allowed() {
        tokio::task::yield_now().await;
    }
    store.calls();
    for _ in 0..200 {
        limiter.spend_batch(&batch).await.unwrap();
        clock.advance(T / 2);
        tokio::time::sleep(T / 2).await;
    }
    assert!((1..=200).contains(&store.calls()));
}

#[tokio::test(start_paused = true)]
async fn bucket_that_was_used_up_is_leased_again_once_the_store_has_units() {
    for way in ["pause", "refund", "reset", "reload"] {
        let (store, clock) = (Store::default(), ManualClock::default());
        let limiter = process(&store, 1, &clock);
        assert_eq!(passed(&limiter, 200).await, 90);
        match way {
            "pause" => clock.advance(T * 60),
            "refund" => drop(limiter.refund(&one("hot").cost(60)).await.unwrap()),
            "reset" => limiter.reset(&[one("hot")]).await.unwrap(),
            _ => {
                let name = LimitName::from("hot").lease(1, 10);
                let larger = Limits::builder().limit(name, Limit::per_second(10).burst(200));
                let larger = larger.limit("other", Limit::per_hour(3)).build();
                limiter.reload(larger.unwrap()).unwrap();
            }
        }
        store.calls();
        assert_eq!(passed(&limiter, 60).await, 60, "{way}");
        let calls = store.calls();
        assert!(calls < 25, "{way}: {calls}");
    }
}

#[tokio::test(start_paused = true)]
async fn used_up_bucket_makes_no_more_calls_after_the_clock_has_stepped_back() {
    let (store, clock) = (Store::default(), ManualClock::default());
    clock.advance(Duration::from_secs(1_000_000));
    let limiter = process(&store, 1, &clock);
    passed(&limiter, 200).await;
    let limiter = limiter.with_clock(ManualClock::default());
    store.calls();
    passed(&limiter, 60).await;
    assert!((1..=60).contains(&store.calls()));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_used_is_given_back_by_and_by_and_at_the_end() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    let held = async |limiter: &Limiter| {
        let spent = limiter.spend(&one("hot")).await.unwrap();
        let held = spent
            .remaining()
            .filter(|_| spent.source() == Source::Lease);
        (held, left(&store, &clock).await)
    };
    assert_eq!(passed(&limiter, 20).await, 20);
    let (Some(before), charged) = held(&limiter).await else {
        panic!("it is used heavily")
    };
    assert_eq!(BURST - charged, 21 + before);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(left(&store, &clock).await, BURST - 21, "it is idle");
    assert_eq!(passed(&limiter, 20).await, 20);
    limiter.close().await.unwrap();
    assert_eq!(left(&store, &clock).await, BURST - 41);
    assert_eq!(passed(&limiter, 200).await, 19);
    assert_eq!(
        left(&store, &clock).await,
        40,
        "four times ten are reserved"
    );
}

/// Two servers, each with half of the buckets.
#[derive(Clone, Debug, Default)]
struct Cluster([Store; 2]);

impl Cluster {
    fn half_of(id: &str) -> usize {
        id.parse::<usize>().unwrap() % 2
    }
}

#[async_trait]
impl Backend for Cluster {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let half = Self::half_of(batch.members[0].key.id);
        self.0[half].apply(batch).await
    }

    fn servers(&self) -> Option<&dyn Servers> {
        Some(self)
    }
}

impl Servers for Cluster {
    fn server_of(&self, member: &Member<'_>) -> ServerId {
        ServerId::new(1 + u32::try_from(Self::half_of(member.key.id)).unwrap())
    }

    fn has_decided(&self, _: ServerId, _: std::time::Instant) -> bool {
        true
    }

    fn address(&self, _: ServerId) -> Option<String> {
        None
    }
}

/// Two servers, and a process that holds units of forty buckets.
struct Halves {
    cluster: Cluster,
    clock: ManualClock,
    process: Limiter,
}

const SPENT: u32 = 20;

impl Halves {
    async fn new() -> Self {
        let cluster = Cluster::default();
        let halves = Self::behind(cluster.clone(), cluster).await;
        assert_eq!(halves.held().await, [20, 20]);
        halves
    }

    /// The process has this backend in front of the cluster.
    async fn behind(backend: impl Backend, cluster: Cluster) -> Self {
        let clock = ManualClock::default();
        let process = Limiter::new(limits(), Lease::new(backend, 4));
        let process = process.with_clock(clock.clone());
        for id in 0..40 {
            let id = id.to_string();
            for _ in 0..SPENT {
                let spent = process.spend(&Transaction::new("hot", &id)).await;
                assert!(spent.unwrap().allowed());
            }
        }
        Self {
            cluster,
            clock,
            process,
        }
    }

    /// The number of buckets of each server that are charged for what was not spent.
    async fn held(&self) -> [u32; 2] {
        let mut held = [0; 2];
        for id in 0..40 {
            let (half, id) = (id % 2, id.to_string());
            let left = left_of(
                &self.cluster.0[half],
                &self.clock,
                &Transaction::new("hot", &id),
            )
            .await;
            held[half] += u32::from(left < BURST - SPENT);
        }
        held
    }

    fn second(&self) -> &Store {
        &self.cluster.0[1]
    }
}

#[tokio::test(start_paused = true)]
async fn units_of_one_server_are_returned_while_another_one_is_down() {
    for hangs in [true, false] {
        let halves = Halves::new().await;
        let down = |is_down: bool| match (is_down, hangs) {
            (false, _) => halves.second().becomes(Fate::Works),
            (true, true) => halves.second().becomes(Fate::Hangs),
            (true, false) => halves.second().becomes(Fate::Fails),
        };
        down(true);
        halves.cluster.0.iter().for_each(|store| {
            store.calls();
        });
        tokio::time::sleep(Duration::from_millis(2100)).await;
        assert_eq!(halves.held().await, [0, 20], "hangs: {hangs}");
        tokio::time::sleep(Duration::from_secs(3)).await;
        let calls = halves.second().calls();
        assert!((1..=10).contains(&calls), "it is not flooded: {calls}");
        down(false);
        tokio::time::sleep(Duration::from_secs(5)).await;
        // What it may have refunded is not refunded again.
        let lost = if hangs {
            u32::try_from(calls).unwrap()
        } else {
            0
        };
        let [first, second] = halves.held().await;
        assert!(first == 0 && second <= lost + 1, "{second} of {calls}");
        assert!(halves.process.close().await.is_ok());
        assert_eq!(halves.held().await, [0, second]);
    }
}

#[tokio::test(start_paused = true)]
async fn close_returns_the_units_of_one_server_while_another_one_is_down() {
    let halves = Halves::new().await;
    halves.second().becomes(Fate::Hangs);
    assert!(halves.process.close().await.is_err());
    assert_eq!(halves.held().await, [0, 20]);
}

/// A value that another program has put where the bucket should be.
#[tokio::test(start_paused = true)]
async fn bucket_that_always_fails_does_not_keep_the_others_from_being_returned() {
    #[derive(Debug)]
    struct Broken(Cluster);

    #[async_trait]
    impl Backend for Broken {
        async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
            let id: u32 = batch.members[0].key.id.parse().unwrap();
            match batch.operation {
                Operation::Refund if id < 4 => Err(BackendError::not_done("broken")),
                _ => self.0.apply(batch).await,
            }
        }
    }

    let cluster = Cluster::default();
    let halves = Halves::behind(Broken(cluster.clone()), cluster).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(halves.held().await, [2, 2]);
}

/// Closes a process while something is under way.
async fn close_beside<T>(limiter: &Limiter, store: &Store, other: impl Future<Output = T>) -> T {
    store.becomes(Fate::Takes(Duration::from_millis(20)));
    let close = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        limiter.close().await.unwrap();
    };
    tokio::join!(other, close).0
}

#[tokio::test(start_paused = true)]
async fn close_returns_what_is_charged_meanwhile() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    let mut spent = passed(&limiter, 20).await;
    while limiter.check(&one("hot")).await.unwrap().source() == Source::Lease {
        spent += passed(&limiter, 1).await;
    }
    spent += close_beside(&limiter, &store, passed(&limiter, 1)).await;
    assert_eq!(left(&store, &clock).await, BURST - spent);
}

#[tokio::test(start_paused = true)]
async fn close_returns_what_a_denied_batch_returns_meanwhile() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    let all = one("other").cost(3);
    assert!(limiter.spend(&all).await.unwrap().allowed());
    assert_eq!(passed(&limiter, 20).await, 20);
    let held = limiter.check(&one("hot")).await.unwrap();
    assert_eq!(held.source(), Source::Lease);
    let batch = [one("hot"), one("other")];
    let denied = close_beside(&limiter, &store, limiter.spend_batch(&batch)).await;
    assert!(!denied.unwrap().allowed());
    assert_eq!(left(&store, &clock).await, BURST - 20);
}

#[tokio::test(start_paused = true)]
async fn leased_members_of_a_batch_are_returned_if_the_store_denies_the_rest() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    assert_eq!(passed(&limiter, 20).await, 20);
    let batch = [one("hot"), one("other")];
    let mut held = None;
    for round in 0..6 {
        let decided = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!(decided.allowed(), round < 3);
        let hot = &decided.members()[0];
        assert!(hot.allowed());
        if hot.source() == Source::Lease {
            let before = held.replace(hot.remaining().unwrap());
            if round > 3 {
                assert_eq!(before, held, "nothing is taken");
            }
        }
    }
    assert!(held.is_some());
    limiter.close().await.unwrap();
    assert_eq!(left(&store, &clock).await, BURST - 23);
}

#[tokio::test(start_paused = true)]
async fn bucket_that_only_batches_use_is_leased() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    let batch = [one("hot"), one("other").mode(Mode::CheckOnly)];
    let mut leased = 0;
    for _ in 0..40 {
        let decided = limiter.spend_batch(&batch).await.unwrap();
        assert!(decided.allowed());
        leased += u32::from(decided.members()[0].source() == Source::Lease);
        tokio::task::yield_now().await;
    }
    assert!(leased > 20, "{leased}");
    limiter.close().await.unwrap();
    assert_eq!(left(&store, &clock).await, BURST - 40);
}

/// Runs a future in a runtime of its own, which then ends.
fn alone<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.unwrap().block_on(future)
}

/// As with a runtime for each test, or for each call of a blocking client.
#[test]
fn bucket_is_leased_again_if_a_runtime_ended_before_it_polled_the_charge() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    let batch = [one("hot"), one("other").mode(Mode::CheckOnly)];
    // The third use begins a charge, which is spawned and never polled.
    for _ in 0..3 {
        let decided = alone(limiter.spend_batch(&batch));
        assert_eq!(decided.unwrap().members()[0].source(), Source::Store);
    }
    alone(async {
        let mut leased = 0;
        for _ in 0..20 {
            let decided = limiter.spend_batch(&batch).await.unwrap();
            leased += u32::from(decided.members()[0].source() == Source::Lease);
            tokio::task::yield_now().await;
        }
        assert!(leased > 10, "{leased}");
        limiter.close().await.unwrap();
        assert_eq!(left(&store, &clock).await, BURST - 23);
    });
}

/// Units that were held when a runtime ended are returned from the next one.
#[test]
fn units_are_returned_if_the_runtime_of_the_returns_has_ended() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    assert_eq!(alone(passed(&limiter, 20)), 20);
    alone(async {
        assert!(left(&store, &clock).await < BURST - 20, "it holds some");
        // Another bucket is used.
        let other = Transaction::new("hot", "other");
        assert!(limiter.spend(&other).await.unwrap().allowed());
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(left(&store, &clock).await, BURST - 20);
    });
}

#[tokio::test(start_paused = true)]
async fn batch_that_is_dropped_returns_what_it_has_taken() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    assert_eq!(passed(&limiter, 20).await, 20);
    store.becomes(Fate::Hangs);
    for _ in 0..50 {
        let batch = [one("hot"), one("other").mode(Mode::CheckOnly)];
        assert!(limiter.spend_batch(&batch).now_or_never().is_none());
    }
    store.becomes(Fate::Works);
    limiter.close().await.unwrap();
    assert_eq!(left(&store, &clock).await, BURST - 20);
}

#[tokio::test(start_paused = true)]
async fn simultaneous_requests_wait_for_one_charge() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    assert_eq!(passed(&limiter, 20).await, 20);
    while limiter.check(&one("hot")).await.unwrap().source() == Source::Lease {
        passed(&limiter, 1).await;
    }
    store.calls();
    store.becomes(Fate::Takes(Duration::from_millis(10)));
    let spends = (0..8).map(|_| passed(&limiter, 1));
    assert_eq!(join_all(spends).await, [1; 8]);
    assert_eq!(store.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn charge_of_unknown_outcome_is_not_handed_out_and_keeps_nobody_waiting() {
    for dropped in [false, true] {
        let (store, clock) = (Store::default(), ManualClock::default());
        let limiter = process(&store, 4, &clock);
        assert_eq!(passed(&limiter, 20).await, 20);
        while limiter.check(&one("hot")).await.unwrap().source() == Source::Lease {
            passed(&limiter, 1).await;
        }
        let before = left(&store, &clock).await;
        store.becomes(match dropped {
            true => Fate::Takes(Duration::from_millis(10)),
            false => Fate::Forgets,
        });
        let spend = one("hot");
        let first = limiter.spend(&spend);
        if dropped {
            let late = tokio::time::timeout(Duration::from_millis(5), first).await;
            assert!(late.is_err());
        } else {
            assert!(first.await.is_err());
        }
        store.becomes(Fate::Works);
        let charged = before - left(&store, &clock).await;
        let next = limiter.spend(&one("hot")).await.unwrap();
        assert_eq!(next.source(), Source::Store);
        limiter.close().await.unwrap();
        assert_eq!(left(&store, &clock).await, before - charged - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn refund_goes_to_what_is_held_while_there_is_room() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    assert_eq!(passed(&limiter, 40).await, 40);
    store.calls();
    for _ in 0..30 {
        assert!(limiter.refund(&one("hot")).await.unwrap().refunded());
    }
    let refunds = store.calls();
    assert!((20..30).contains(&refunds), "{refunds}");
    limiter.close().await.unwrap();
    assert_eq!(left(&store, &clock).await, BURST - 10);
}

#[tokio::test(start_paused = true)]
async fn reload_gives_back_what_was_charged_by_other_limits() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    assert_eq!(passed(&limiter, 40).await, 40);
    let held = limiter.check(&one("hot")).await.unwrap();
    assert!(held.source() == Source::Lease && held.remaining() > Some(1));
    let smaller = LimitName::from("hot").lease(1, 100);
    let smaller = Limits::builder()
        .limit(smaller, Limit::per_second(10).burst(BURST))
        .limit("other", Limit::per_hour(3));
    limiter.reload(smaller.build().unwrap()).unwrap();
    for _ in 0..20 {
        let spent = limiter.spend(&one("hot")).await.unwrap();
        let held = spent
            .remaining()
            .filter(|_| spent.source() == Source::Lease);
        assert!(
            spent.allowed() && held.is_none_or(|held| held <= 1),
            "{held:?}"
        );
    }
    limiter.close().await.unwrap();
    assert_eq!(left(&store, &clock).await, BURST - 60);
}

#[test]
fn limits_that_cannot_be_leased_are_rejected() {
    let lease = || Lease::new(MemoryBackend::new(), 10);
    let name = || LimitName::from("hot").lease(1, 10);
    let tiers = Limit::tiers([Tier::new(5, Duration::from_secs(1))]).unwrap();
    let limiter = Limiter::new(limits(), lease());
    for (limit, reason) in [
        (tiers, "tiers cannot be leased"),
        (Limit::window(50, T), "a window cannot be leased"),
        (Limit::quota(10, Per::Day), "leaves less than one unit each"),
        (Limit::per_second(10), "leaves less than one unit each"),
    ] {
        let default = Limits::builder().limit(name(), limit.clone());
        let error = limiter.reload(default.build().unwrap()).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        let own = Limits::builder().limit(name(), Limit::per_second(100));
        let own = own.override_for("hot", "bob", limit).build().unwrap();
        let error = limiter.reload(own).unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains("bob"), "{error}");
    }
    // Five processes hold nine each.
    let limiter = Limiter::new(limits(), Lease::new(MemoryBackend::new(), 5));
    let layer = RateLimitLayer::with_limiter(limiter.clone());
    let rule = |cost| Rule::new("hot", ClientIp::peer()).cost(cost);
    assert!(layer.clone().try_rule(rule(55)).is_ok());
    let error = layer.try_rule(rule(56)).unwrap_err().to_string();
    assert!(error.contains("56") && error.contains("55"), "{error}");
    for (name, measure) in [("hot", "burst"), ("plan", "quota")] {
        let spend = limiter.spend(&one(name).cost(56)).now_or_never();
        let error = spend.unwrap().unwrap_err().to_string();
        let expected = format!(
            "cost 56 is above the {measure} of limit `{name}`, 55 (it is 100, and leases reserve 45 of it): lower the \
             cost or the lease, raise the {measure}, or make it a debit"
        );
        assert_eq!(error, expected);
    }
}

/// Whoever decides, and whoever asks.
#[tokio::test(start_paused = true)]
async fn limit_with_leases_is_shown_as_it_was_configured() {
    let limiter = process(&Store::default(), 4, &ManualClock::default());
    for name in ["hot", "plan"] {
        let configured = leased(name);
        let mut sources = Vec::new();
        for _ in 0..20 {
            let spent = limiter.spend(&one(name)).await.unwrap();
            assert_eq!(spent.algorithm().as_ref(), configured.algorithm());
            sources.push(spent.source());
        }
        assert!(sources.contains(&Source::Store) && sources.contains(&Source::Lease));
        let limits = limiter.limits();
        let in_force = limits.get(name).unwrap().limit.as_ref().unwrap();
        assert_eq!(in_force.max_cost(), Some(BURST));
        assert_eq!(in_force.to_string(), configured.to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn local_decisions_use_the_configured_limit_and_are_paid_back() {
    for name in ["hot", "plan"] {
        let (store, clock) = (Store::default(), ManualClock::default());
        let policy = FailurePolicy::new(Lease::new(store.clone(), 4));
        let limiter = Limiter::new(limits(), policy).with_clock(clock.clone());
        let spent = passed_of(&limiter, name, 20).await;
        store.becomes(Fate::Fails);
        // The units that the process holds are charged already, and are spent before the circuit opens.
        let local = passed_of(&limiter, name, 200).await;
        assert_eq!(spent + local, BURST, "{name}");
        store.becomes(Fate::Works);
        tokio::time::sleep(Duration::from_secs(2)).await;
        // The circuit closes again.
        let other = limiter.spend(&one("other")).await.unwrap();
        assert_eq!(other.source(), Source::Store);
        limiter.close().await.unwrap();
        assert_eq!(left_of(&store, &clock, &one(name)).await, 0, "{name}");
    }
}

#[test]
fn lease_is_read_from_files_and_written() {
    let text = r#"{"hot":{"burst":100,"count":10,"period":"1s","lease":"2.5%"}}"#;
    let read = |text: &str| {
        Limits::builder()
            .defaults_text(Language::Json, text)
            .build()
    };
    let limits = read(text).unwrap();
    let written = serde_json::to_string(&limits.as_defaults()).unwrap();
    assert!(written.contains(r#""lease":"2.5%""#), "{written}");
    let limiter = Limiter::new(limits, Lease::new(MemoryBackend::new(), 4));
    let in_force = serde_json::to_string(&limiter.limits().as_defaults()).unwrap();
    assert_eq!(in_force, written, "as it was configured");
    for wrong in ["5", "0%", "101%", "five"] {
        let text = text.replace("2.5%", wrong);
        let error = read(&text).unwrap_err().to_string();
        assert!(
            error.contains("hot") && error.contains("percentage"),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn whole_stack_decides_from_memory_and_learns_the_rest() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let policy = FailurePolicy::new(Lease::new(DenyCache::new(store.clone()), 4));
    let limiter = Limiter::new(limits(), policy).with_clock(clock.clone());
    let batch = [one("hot"), one("other")];
    for round in 0..20 {
        let decided = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!(decided.allowed(), round < 3);
    }
    store.becomes(Fate::Forgets);
    // What is held is handed out while the store is away; what is not leased was learnt.
    assert!(!limiter.spend(&one("other")).await.unwrap().allowed());
    store.becomes(Fate::Works);
    limiter.close().await.unwrap();
    assert_eq!(left(&store, &clock).await, BURST - 3);
}

#[tokio::test(start_paused = true)]
async fn units_of_a_period_that_is_over_are_neither_spent_nor_returned() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    let plan = limiter.limit("plan").unwrap();
    let hour = Duration::from_secs(3600);
    // It holds several units when the hour ends.
    let old = loop {
        let spent = plan.spend("id").await.unwrap();
        assert!(spent.allowed());
        if spent.source() == Source::Lease && spent.remaining() > Some(3) {
            break spent;
        }
    };
    clock.advance(hour);
    // The store is asked: what is held is of the hour before.
    let new = plan.check("id").await.unwrap();
    assert_eq!((new.source(), new.remaining()), (Source::Store, Some(59)));
    for _ in 0..20 {
        assert!(plan.spend("id").await.unwrap().allowed());
    }
    let receipt = old.receipt().unwrap();
    assert!(!plan.refund_receipt("id", receipt).await.unwrap().refunded());
    let last = plan.spend("id").await.unwrap();
    assert_eq!(last.source(), Source::Lease);
    let receipt = last.receipt().unwrap();
    let calls = store.calls();
    assert!(plan.refund_receipt("id", receipt).await.unwrap().refunded());
    assert!(calls > 0 && store.calls() == 0, "it went to what is held");
    limiter.close().await.unwrap();
    assert_eq!(plan.check("id").await.unwrap().remaining(), Some(39));
}

#[tokio::test(start_paused = true)]
async fn charge_of_a_period_that_is_over_is_not_refunded() {
    let (store, clock) = (Store::default(), ManualClock::default());
    let limiter = process(&store, 4, &clock);
    let plan = limiter.limit("plan").unwrap();
    let mut receipts = Vec::new();
    for _ in 0..20 {
        receipts.extend(plan.spend("id").await.unwrap().receipt());
    }
    clock.advance(Duration::from_secs(3600));
    for receipt in receipts {
        assert!(!plan.refund_receipt("id", receipt).await.unwrap().refunded());
    }
    assert_eq!(plan.check("id").await.unwrap().remaining(), Some(59));
}
