//! How much memory histories and rows take, and which of them are evicted at the cap.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{sync::Arc, time::Duration};

use allocation_counter::measure;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, DenyCache},
    clock::ManualClock,
    testing::cases::history::Random,
    tiers::Tier,
};

#[cfg(target_os = "linux")]
use crate::alone::alone;

/// As many as one shard holds.
const CAP: usize = 4096;

/// What a GCRA bucket takes at most, and the bytes of histories for each of them.
const BUCKET: u64 = 32;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Limits of all kinds: without tiers, with one that slides, with a prison, and with as much as there can be.
fn limits() -> Limits {
    let day = Limit::per_day(1);
    let window = Tier::new(5, secs(60));
    let short = Tier::new(1, secs(1)).active(secs(1));
    let prison = Tier::new(1, secs(3600)).active(secs(3600));
    let high = Tier::new(4096, secs(60));
    let sixteen = (0..16).map(|_| Tier::new(9, secs(1)).active(secs(60)));
    Limits::builder()
        .limit("gcra", day)
        .limit("burst", Limit::per_hour(1).burst(100))
        .limit("window", Limit::tiers([window]).unwrap())
        .limit("short", Limit::tiers([short]).unwrap())
        .limit("prison", Limit::tiers([short, prison]).unwrap())
        .limit("high", Limit::tiers([high]).unwrap())
        .limit("sixteen", Limit::tiers(sixteen).unwrap())
        .build()
        .unwrap()
}

fn limiter() -> (Limiter, ManualClock) {
    limiter_on(limits(), MemoryBackend::with_max_buckets(CAP))
}

fn limiter_on(limits: Limits, backend: MemoryBackend) -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, backend);
    (limiter.with_clock(clock.clone()), clock)
}

fn spend(limiter: &Limiter, limit: &str, id: &str, cost: u32) -> bool {
    let spend = Transaction::new(limit, id).cost(cost);
    limiter.try_spend(&spend).unwrap().unwrap().allowed()
}

/// Spends from so many new buckets.
fn flood(limiter: &Limiter, limit: &str, cost: u32, buckets: usize) {
    for number in 0..buckets {
        let id = number.to_string();
        let spend = Transaction::new(limit, &id).cost(cost);
        limiter.try_spend(&spend).unwrap().unwrap();
    }
}

/// How many of so many buckets have nothing left.
async fn denied(limiter: &Limiter, limit: &str, buckets: usize) -> usize {
    let mut denied = 0;
    for number in 0..buckets {
        let id = number.to_string();
        let check = Transaction::new(limit, &id);
        denied += usize::from(!limiter.check(&check).await.unwrap().allowed());
    }
    denied
}

/// What is taken while some floods come one after the other: at most, and at last.
fn taken(floods: &[(&str, u32, usize)]) -> [u64; 2] {
    let mut kept = None;
    let taken = measure(|| {
        let (limiter, _) = limiter();
        for (limit, cost, buckets) in floods {
            flood(&limiter, limit, *cost, *buckets);
        }
        kept = Some(limiter);
    });
    [taken.bytes_max, taken.bytes_current.unsigned_abs()]
}

#[test]
fn no_flood_takes_more_than_its_budget() {
    let most = BUCKET * CAP as u64;
    // (floods; what they may take at most, and at last, in parts of one budget). The map of a shard is copied as it
    // grows, and here there is only one. At the cap, evicted histories leave marks in its index, more or less by chance,
    // and when they fill it, the map grows by an eighth once more.
    let floods: [(&[_], [f64; 2]); 7] = [
        (&[("window", 1, 8000)], [1.45, 1.0]),
        (&[("window", 5, 8000)], [1.45, 1.0]),
        (&[("prison", 2, 8000)], [1.45, 1.0]),
        (&[("sixteen", 16, 5000)], [1.45, 1.0]),
        (&[("high", 4096, 200)], [1.45, 1.0]),
        // Rows are copied as they are spread over more of them.
        (&[("gcra", 1, 8000), ("window", 5, 8000)], [2.0, 1.95]),
        (
            &[
                ("sixteen", 144, 5000),
                ("gcra", 1, 8000),
                ("high", 400, 200),
            ],
            [2.75, 1.95],
        ),
    ];
    for (floods, bounds) in floods {
        // With what limits and counters take.
        let ones: Vec<_> = floods
            .iter()
            .map(|(limit, cost, _)| (*limit, *cost, 1))
            .collect();
        let [_, nothing] = taken(&ones);
        let taken = taken(floods).map(|bytes| bytes - nothing);
        for (taken, bound) in taken.into_iter().zip(bounds) {
            #[expect(clippy::cast_precision_loss, reason = "these are small")]
            let part = taken as f64 / most as f64;
            assert!(part <= bound, "{part} of the budget after {floods:?}");
        }
    }
}

/// The memory that the operating system has given to this process.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    const PAGE: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    PAGE * statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap()
}

/// Fills a budget in a process of its own, and floods it further. The memory of the process must grow by no more than the
/// budget, with all that the allocator takes for itself, and with the gaps that growth leaves.
#[cfg(target_os = "linux")]
#[track_caller]
fn takes_its_budget(test: &str, limit: Limit, cost: u32) {
    const BUDGET: u64 = 24 << 20;
    if !alone(&format!("tiers_memory::{test}")) {
        return;
    }
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    // All code and all counters are in memory then.
    let (small, _) = limiter_on(limits.clone(), MemoryBackend::with_max_buckets(1000));
    flood(&small, "l", cost, 2000);
    let backend = MemoryBackend::new().max_history_bytes(usize::try_from(BUDGET).unwrap());
    let (limiter, _) = limiter_on(limits, backend);
    let before = resident();
    let (mut buckets, mut most) = (0, 0);
    while limiter.stats().evictions < Some(10_000) {
        for _ in 0..10_000 {
            let id = format!("client {buckets}");
            assert!(spend(&limiter, "l", &id, cost));
            buckets += 1;
        }
        most = most.max(resident() - before);
    }
    let each = most / limiter.stats().buckets.unwrap() as u64;
    let text = format!("{most} bytes, {each} for each bucket");
    eprintln!("{text}");
    assert!(most <= BUDGET * 21 / 20, "{text}");
    assert!(most >= BUDGET * 3 / 4, "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn windows_of_one_unit_take_no_more_real_memory_than_their_budget() {
    let test = "windows_of_one_unit_take_no_more_real_memory_than_their_budget";
    takes_its_budget(test, Limit::window(1, secs(3600)), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn windows_with_room_take_no_more_real_memory_than_their_budget() {
    let test = "windows_with_room_take_no_more_real_memory_than_their_budget";
    takes_its_budget(test, Limit::window(50, secs(3600)), 13);
}

#[cfg(target_os = "linux")]
#[test]
fn tiers_that_count_take_no_more_real_memory_than_their_budget() {
    let test = "tiers_that_count_take_no_more_real_memory_than_their_budget";
    let counts = Tier::new(1, secs(3600))
        .active(secs(3600))
        .cooldown(secs(3600));
    takes_its_budget(test, Limit::tiers([counts]).unwrap(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn tiers_that_slide_take_no_more_real_memory_than_their_budget() {
    let test = "tiers_that_slide_take_no_more_real_memory_than_their_budget";
    let slides = Tier::new(9, secs(60)).active(secs(3600));
    takes_its_budget(test, Limit::tiers([slides, slides]).unwrap(), 10);
}

#[test]
fn large_histories_stay_within_the_documented_bytes() {
    let tiers = (0..16).map(|_| Tier::new(4096, secs(60)).active(secs(3600)));
    let limits = Limits::builder().limit("huge", Limit::tiers(tiers).unwrap());
    let limits = limits.build().unwrap();
    let taken = measure(|| {
        let (limiter, _) = limiter_on(limits.clone(), MemoryBackend::new());
        flood(&limiter, "huge", 16 * 4096, 244);
    });
    let most = BUCKET * MemoryBackend::DEFAULT_MAX_BUCKETS as u64;
    let one = 16 * 4096 * 8;
    assert!(taken.bytes_max <= most + 2 * one, "{}", taken.bytes_max);
    assert!(taken.bytes_max > most - 2 * one, "the budget is used");
}

#[test]
fn gcra_at_the_cap_neither_allocates_nor_counts_histories() {
    let (limiter, _) = limiter();
    flood(&limiter, "gcra", 1, 2 * CAP);
    flood(&limiter, "window", 5, 3000);
    let ids: Vec<_> = (0..20_000).map(|n| format!("new {n}")).collect();
    let taken = measure(|| {
        for id in &ids {
            assert!(spend(&limiter, "gcra", id, 1), "{id} is a newcomer");
        }
    });
    assert_eq!(taken.count_total, 0);
}

#[tokio::test]
async fn histories_and_gcra_buckets_do_not_evict_each_other() {
    let (limiter, clock) = limiter();
    flood(&limiter, "prison", 2, 100);
    flood(&limiter, "short", 1, 10_000);
    flood(&limiter, "gcra", 1, CAP - CAP / 16);
    flood(&limiter, "window", 5, 10_000);
    assert_eq!(
        denied(&limiter, "gcra", CAP - CAP / 16).await,
        CAP - CAP / 16
    );
    clock.advance(secs(120));
    flood(&limiter, "gcra", 1, 20_000);
    assert_eq!(denied(&limiter, "prison", 100).await, 100);
}

#[tokio::test]
async fn lapsed_histories_take_nothing_from_live_buckets() {
    let (limiter, clock) = limiter();
    flood(&limiter, "short", 1, 10_000);
    clock.advance(secs(10));
    flood(&limiter, "gcra", 1, 3900);
    assert_eq!(denied(&limiter, "gcra", 3900).await, 3900);
    // One that still counts is not evicted before those that have lapsed.
    flood(&limiter, "prison", 2, 200);
    assert_eq!(denied(&limiter, "prison", 200).await, 200);
}

#[tokio::test]
async fn large_history_in_a_nearly_empty_backend_is_kept_and_evicts_nothing() {
    let five = (0..5).map(|_| Tier::new(4096, secs(60)).active(secs(3600)));
    let limits = Limits::builder()
        .limit("gcra", Limit::per_day(1))
        .limit("five", Limit::tiers(five).unwrap());
    let (limiter, _) = limiter_on(limits.build().unwrap(), MemoryBackend::new());
    flood(&limiter, "gcra", 1, 2000);
    flood(&limiter, "five", 5 * 4096, 20);
    flood(&limiter, "gcra", 1, 3000);
    for id in 0..20 {
        assert!(
            !spend(&limiter, "five", &id.to_string(), 1),
            "{id} is used up"
        );
    }
    assert_eq!(denied(&limiter, "gcra", 3000).await, 3000);
    assert_eq!(limiter.stats().evictions, Some(0));
}

#[test]
fn no_history_passes_repeatedly_in_one_instant() {
    let high = Limit::tiers([Tier::new(4096, secs(3600))]).unwrap();
    let limits = Limits::builder().limit("high", high);
    let limits = limits.limit("gcra", Limit::per_day(1)).build().unwrap();
    let backend = MemoryBackend::with_max_buckets(1000).max_history_bytes(40_000);
    let (limiter, _) = limiter_on(limits, backend);
    let passed = (0..10).filter(|n| {
        assert!(spend(&limiter, "gcra", &n.to_string(), 1));
        spend(&limiter, "high", "client", 4096)
    });
    assert_eq!(passed.count(), 1);
}

/// What the backend says of a limit of 4096 in an hour.
fn refusal(backend: &impl Backend) -> String {
    let tiers = Limit::tiers([Tier::new(4096, secs(3600))]).unwrap();
    let error = backend.admits(tiers.algorithm().unwrap()).unwrap_err();
    assert!(
        backend
            .admits(Limit::per_hour(4096).algorithm().unwrap())
            .is_ok()
    );
    error.to_string()
}

#[test]
fn limit_whose_history_never_fits_is_refused_by_all_wrappers() {
    let small = || MemoryBackend::with_max_buckets(1000);
    let expected = "the history of one bucket takes up to 32960 bytes, and the memory backend keeps at most 32000 \
                    bytes of histories: raise `MemoryBackend::max_history_bytes`, or lower the limits of its tiers";
    assert_eq!(refusal(&small()), expected);
    assert_eq!(refusal(&Arc::new(small())), expected);
    assert_eq!(refusal(&DenyCache::new(small())), expected);
    #[cfg(feature = "failure-policy")]
    {
        use tollgate::backend::FailurePolicy;
        assert_eq!(refusal(&FailurePolicy::new(small())), expected);
        let local = FailurePolicy::new(MemoryBackend::new()).memory(small());
        assert_eq!(refusal(&local), expected);
    }
}

#[test]
#[should_panic = "limit `high` does not fit the backend: the history of one bucket takes up to 32960 bytes"]
fn limiter_is_not_built_on_a_backend_without_room() {
    let _ = Limiter::new(limits(), MemoryBackend::with_max_buckets(1000));
}

#[test]
fn reload_refuses_what_does_not_fit() {
    let of = |limit| Limits::builder().limit("window", limit);
    let tiers = |limit| Limit::tiers([Tier::new(limit, secs(60))]).unwrap();
    let backend = MemoryBackend::with_max_buckets(1000);
    let limiter = Limiter::new(of(tiers(5)).build().unwrap(), backend);
    let error = limiter
        .reload(of(tiers(4096)).build().unwrap())
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("limit `window` does not fit the backend: "),
        "{text}"
    );
    let own = of(tiers(5)).override_for("window", "alice", tiers(4096));
    let text = limiter
        .reload(own.build().unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("limit `window` of id `alice` does not fit"),
        "{text}"
    );
    let most = tiers(4096).max_cost();
    assert_ne!(
        limiter
            .limits()
            .get("window")
            .unwrap()
            .limit
            .as_ref()
            .unwrap()
            .max_cost(),
        most
    );
}

#[test]
fn mixed_traffic_at_the_cap_keeps_to_the_budgets_and_to_who_is_throttled() {
    let (kinds, mut random) = (
        [("gcra", 1), ("window", 5), ("short", 1), ("high", 300)],
        Random(7),
    );
    let taken = measure(|| {
        let backend = MemoryBackend::with_max_buckets(CAP);
        let (limiter, clock) = limiter_on(limits(), backend);
        flood(&limiter, "prison", 2, 100);
        for id in 0..100 {
            assert!(spend(&limiter, "burst", &id.to_string(), 100));
        }
        for n in 0..40_000_u32 {
            let (limit, most) = kinds[usize::try_from(random.below(4)).unwrap()];
            let cost = 1 + random.cost(most);
            assert!(
                spend(&limiter, limit, &format!("new {n}"), cost),
                "{n} is a newcomer"
            );
            assert!(spend(&limiter, "burst", &format!("new {n}"), 1));
            let throttled = random.below(100).to_string();
            assert!(
                !spend(&limiter, "prison", &throttled, 1),
                "{n}: {throttled}"
            );
            assert!(!spend(&limiter, "burst", &throttled, 1), "{n}: {throttled}");
            clock.advance(Duration::from_millis(random.below(10)));
        }
        assert!(limiter.stats().evictions > Some(10_000));
    });
    let most = 13 * BUCKET * CAP as u64 / 4;
    assert!(taken.bytes_max <= most, "{}", taken.bytes_max);
}

#[tokio::test]
async fn those_who_are_free_again_make_room() {
    let (limiter, clock) = limiter();
    for _ in 0..200 {
        flood(&limiter, "short", 1, 200);
        clock.advance(secs(2));
    }
    flood(&limiter, "prison", 2, 10);
    assert_eq!(denied(&limiter, "prison", 10).await, 10);
}

#[test]
fn decision_on_a_bucket_that_is_there_allocates_nothing() {
    let (limiter, clock) = limiter();
    let spend = |limit, cost| {
        let spend = Transaction::new(limit, "id").cost(cost).min_cost(1);
        limiter.try_spend(&spend).unwrap().unwrap().granted()
    };
    for (limit, cost, most) in [("window", 5, 5), ("prison", 2, 2), ("high", 4096, 4096)] {
        assert_eq!(spend(limit, cost), most);
        // The first denial of a limit asks for its counter.
        assert_eq!(spend(limit, cost), 0);
        let denied = measure(|| assert_eq!(spend(limit, cost), 0));
        assert_eq!(denied.count_total, 0, "{limit}");
        for _ in 0..10 {
            clock.advance(secs(7200));
            let granted = measure(|| assert_eq!(spend(limit, cost), most));
            assert_eq!(granted.count_total, 0, "{limit}");
        }
    }
}
