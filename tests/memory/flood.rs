//! Many clients and many threads: nobody is forgotten too early, nothing is done by half, and memory is bounded.

use std::{thread, time::Duration};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction, clock::ManualClock, quota::Per,
    tiers::Tier, transaction::Mode,
};

const DAY: Duration = Duration::from_secs(86_400);

/// One limit of each kind. Each admits four in a day.
fn kinds() -> [(&'static str, Limit); 4] {
    [
        ("gcra", Limit::per(4, 4 * DAY)),
        ("quota", Limit::quota(4, Per::first_use(DAY))),
        ("window", Limit::window(4, DAY)),
        ("tiers", Limit::tiers([Tier::new(4, DAY)]).unwrap()),
    ]
}

fn limiter(backend: MemoryBackend) -> (Limiter, ManualClock) {
    let add = |builder: tollgate::limit::LimitsBuilder, (name, limit)| builder.limit(name, limit);
    let limits = kinds()
        .into_iter()
        .fold(Limits::builder(), add)
        .build()
        .unwrap();
    let clock = ManualClock::default();
    (
        Limiter::new(limits, backend).with_clock(clock.clone()),
        clock,
    )
}

fn spend(limiter: &Limiter, name: &str, id: &str, cost: u32) -> bool {
    let spent = limiter.try_spend(&Transaction::new(name, id).cost(cost));
    spent.unwrap().unwrap().allowed()
}

/// How many of 100 clients that have used so many of four units are still denied, after a flood of clients of another kind, or
/// of the same.
fn survivors(
    limiter: &Limiter,
    (throttled, used): (&str, u32),
    (flood, cost): (&str, u32),
) -> usize {
    for client in 0..100 {
        assert!(spend(limiter, throttled, &client.to_string(), used));
    }
    for client in 0..5000 {
        let id = format!("flood-{client}");
        assert!(
            spend(limiter, flood, &id, cost),
            "a newcomer always gets in"
        );
    }
    let more = 5 - used;
    let denied = (0..100).filter(|client| !spend(limiter, throttled, &client.to_string(), more));
    denied.count()
}

/// Somebody who guesses passwords sprays other names, to renew the attempts for the accounts that are used up.
#[test]
fn throttled_clients_outlive_a_flood_of_any_kind_at_the_cap() {
    for ((throttled, _), (flood, _)) in kinds()
        .into_iter()
        .flat_map(|one| kinds().map(|other| (one.clone(), other)))
    {
        let small = MemoryBackend::with_max_buckets(1000).max_history_bytes(256 * 1024);
        let (limiter, _) = limiter(small);
        assert_eq!(
            survivors(&limiter, (throttled, 4), (flood, 1)),
            100,
            "{throttled} beside {flood}"
        );
        let stats = limiter.stats();
        assert!(stats.evictions > Some(1000), "{throttled} beside {flood}");
        assert!(stats.buckets <= stats.max_buckets);
    }
}

/// A limit that is used up counts as more than any part of another.
#[test]
fn clients_outlive_a_flood_that_uses_a_smaller_part_of_another_limit() {
    for (used, cost) in [(4, 6), (3, 1)] {
        let quota = |quota| Limit::quota(quota, Per::first_use(DAY));
        let limits = Limits::builder().limit("four", quota(4));
        let limits = limits.limit("seven", quota(7)).build().unwrap();
        let limiter = Limiter::new(limits, MemoryBackend::with_max_buckets(1000));
        let limiter = limiter.with_clock(ManualClock::default());
        assert_eq!(survivors(&limiter, ("four", used), ("seven", cost)), 100);
    }
}

#[test]
fn no_client_is_forgotten_while_there_is_room() {
    for ((throttled, _), (flood, _)) in kinds().into_iter().zip(kinds().into_iter().rev()) {
        let (limiter, _) = limiter(MemoryBackend::new());
        assert_eq!(survivors(&limiter, (throttled, 4), (flood, 4)), 100);
        assert_eq!(limiter.stats().evictions, Some(0));
    }
}

#[test]
fn buckets_that_are_full_again_make_room() {
    let backend = MemoryBackend::with_max_buckets(500).max_history_bytes(128 * 1024);
    let (limiter, clock) = limiter(backend);
    for round in 0..20 {
        for client in 0..200 {
            let id = format!("{round}-{client}");
            for name in ["quota", "window"] {
                assert!(spend(&limiter, name, &id, 4) && !spend(&limiter, name, &id, 1));
            }
        }
        // A period from first use is kept for up to half of it longer.
        clock.advance(2 * DAY);
    }
    assert_eq!(limiter.stats().evictions, Some(0));
}

#[test]
fn one_bucket_is_enough_to_work_with() {
    let limits = Limits::builder().limit("l", Limit::per_hour(20));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::with_max_buckets(1));
    for client in 0..100 {
        assert!(spend(&limiter, "l", &client.to_string(), 20));
    }
    assert_eq!(limiter.stats().buckets, Some(1));
}

#[test]
fn newcomer_does_not_replace_another_of_its_batch() {
    for nth in 0..20 {
        let (limiter, _) = limiter(MemoryBackend::with_max_buckets(3));
        for id in ["x", "y", "z"] {
            assert!(spend(&limiter, "gcra", id, 4));
        }
        let ids = [nth, nth + 1].map(|id: u32| id.to_string());
        let batch = ids.each_ref().map(|id| Transaction::new("gcra", id));
        assert!(limiter.try_spend_batch(&batch).unwrap().unwrap().allowed());
        assert!(ids.iter().all(|id| !spend(&limiter, "gcra", id, 4)));
    }
}

#[test]
fn units_that_count_again_in_a_longer_window_survive_a_new_history_of_the_same_batch() {
    let limits = |window: Duration| {
        let limits = Limits::builder().limit("new", Limit::window(4, DAY));
        limits
            .limit("old", Limit::window(4, window))
            .build()
            .unwrap()
    };
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits(DAY / 2), MemoryBackend::new()).with_clock(clock.clone());
    assert!(spend(&limiter, "old", "a", 3));
    clock.advance(DAY * 3 / 4);
    limiter.reload(limits(DAY)).unwrap();
    let batch = ["new", "old"].map(|name| Transaction::new(name, "a"));
    let spent = limiter.try_spend_batch(&batch).unwrap().unwrap();
    let remaining = spent.members().iter().map(|spent| spent.remaining());
    assert_eq!(remaining.collect::<Vec<_>>(), [Some(3), Some(0)]);
}

#[test]
fn readers_never_see_half_a_batch() {
    const CALLS: u32 = 10_000;
    let limits = Limits::builder().limit("l", Limit::per_hour(1).burst(2 * CALLS));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let pair = ["left", "right"].map(|id| Transaction::new("l", id));
    let look = pair.map(|one| one.cost(0).mode(Mode::CheckOnly));
    let seen = || {
        let seen = limiter.try_spend_batch(&look).unwrap().unwrap();
        [0, 1].map(|place| seen.members()[place].remaining().unwrap())
    };
    thread::scope(|scope| {
        for order in [pair, [pair[1], pair[0]]] {
            let limiter = &limiter;
            scope.spawn(move || {
                for _ in 0..CALLS {
                    assert!(limiter.try_spend_batch(&order).unwrap().unwrap().allowed());
                }
            });
        }
        for _ in 0..CALLS {
            let [left, right] = seen();
            assert_eq!(left, right);
        }
    });
    assert_eq!(seen(), [0, 0]);
}
