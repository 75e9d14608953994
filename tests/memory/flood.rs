//! With many clients and many threads, no client is forgotten too early, no batch is decided by half, and memory is bounded.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction, clock::ManualClock, quota::Per,
    tiers::Tier, transaction::Mode,
};

const DAY: Duration = Duration::from_secs(86_400);

/// One limit of each kind. Each admits four in a day.
fn kinds() -> [(&'static str, Limit); 4] {
    kinds_of(4, DAY)
}

/// One limit of each kind. Spent units come back after this time.
fn kinds_of(limit: u32, span: Duration) -> [(&'static str, Limit); 4] {
    [
        ("gcra", Limit::per(limit, span)),
        ("quota", Limit::quota(limit, Per::first_use(span))),
        ("window", Limit::window(limit, span)),
        ("tiers", Limit::tiers([Tier::new(limit, span)]).unwrap()),
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

/// How many of 100 clients that have used a part of their limit are still remembered, after a flood of clients of another
/// limit, or of the same.
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
    let remembered = (0..100).filter(|client| has_spent(limiter, throttled, &client.to_string()));
    remembered.count()
}

/// Asks for the whole limit.
fn has_spent(limiter: &Limiter, name: &str, id: &str) -> bool {
    let limits = limiter.limits();
    let limit = limits.get(name).unwrap().limit().unwrap();
    !spend(limiter, name, id, limit.max_cost().unwrap())
}

/// An attacker who guesses passwords sends other names, so that the used-up accounts are evicted and get new attempts.
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

/// Shares are compared to a thousandth.
#[test]
fn clients_outlive_a_flood_that_uses_a_smaller_part_of_another_limit() {
    for ((limit, used), (other, cost)) in [
        ((4, 4), (7, 6)),
        ((4, 3), (7, 1)),
        ((32, 31), (31, 17)),
        ((100, 51), (400, 200)),
        ((3, 2), (400, 266)),
    ] {
        let one = kinds_of(limit, DAY);
        let another = kinds_of(other, DAY);
        for ((kind, limit), (_, other)) in one.into_iter().zip(another) {
            let limits = Limits::builder().limit("one", limit);
            let limits = limits.limit("another", other).build().unwrap();
            let small = MemoryBackend::with_max_buckets(1000).max_history_bytes(1 << 23);
            let limiter = Limiter::new(limits, small).with_clock(ManualClock::default());
            let survivors = survivors(&limiter, ("one", used), ("another", cost));
            assert_eq!(survivors, 100, "{kind}: {used} beside {cost}");
        }
    }
}

/// New clients need room at the very instant at which some buckets are full again.
#[test]
fn clients_that_are_full_again_go_first_at_each_cap() {
    const SECOND: Duration = Duration::from_secs(1);
    let pairs = kinds_of(4, DAY).into_iter().zip(kinds_of(4, SECOND));
    for ((kind, late), (_, soon)) in pairs {
        let limits = Limits::builder().limit("late", late).limit("soon", soon);
        let limits = limits.build().unwrap();
        let new = || {
            let small = MemoryBackend::with_max_buckets(1000).max_history_bytes(64 * 1024);
            let clock = ManualClock::default();
            let limiter = Limiter::new(limits.clone(), small).with_clock(clock.clone());
            (limiter, clock)
        };
        let (filled, _) = new();
        let is_filled = |client: &u32| {
            assert!(spend(&filled, "late", &client.to_string(), 4));
            filled.stats().evictions > Some(0)
        };
        let room = (0..).find(is_filled).unwrap();
        let (limiter, clock) = new();
        let name = |client: u32| {
            if client.is_multiple_of(16) {
                "soon"
            } else {
                "late"
            }
        };
        for client in 0..room {
            assert!(spend(&limiter, name(client), &client.to_string(), 4));
        }
        // A tier is active for a microsecond longer.
        clock.advance(match kind {
            "tiers" => SECOND + Duration::from_micros(1),
            _ => SECOND,
        });
        for newcomer in room..room + room.div_ceil(16) {
            assert!(spend(&limiter, "late", &newcomer.to_string(), 4));
        }
        assert_eq!(limiter.stats().evictions, Some(0), "{kind}");
        let mut late = (0..room).filter(|client| name(*client) == "late");
        let forgotten = late.find(|client| !has_spent(&limiter, "late", &client.to_string()));
        assert_eq!(forgotten, None, "{kind}");
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

/// The batch has a new bucket, for which the table may have to grow.
#[test]
fn units_that_count_again_in_a_longer_window_survive_a_new_history_of_the_same_batch() {
    let limits = |window: Duration| {
        let limits = Limits::builder().limit("new", Limit::window(4, DAY));
        limits
            .limit("old", Limit::window(4, window))
            .build()
            .unwrap()
    };
    for others in 0..300 {
        let clock = ManualClock::default();
        let one_shard = MemoryBackend::with_max_buckets(2000);
        let limiter = Limiter::new(limits(DAY / 2), one_shard).with_clock(clock.clone());
        assert!(spend(&limiter, "old", "a", 3));
        for other in 0..others {
            assert!(spend(&limiter, "new", &other.to_string(), 1));
        }
        clock.advance(DAY * 3 / 4);
        limiter.reload(limits(DAY)).unwrap();
        let batch = ["old", "new"].map(|name| Transaction::new(name, "a"));
        let spent = limiter.try_spend_batch(&batch).unwrap().unwrap();
        let remaining = spent.members().iter().map(|spent| spent.remaining());
        let remaining: Vec<_> = remaining.collect();
        assert_eq!(remaining, [Some(0), Some(3)], "beside {others}");
    }
}

#[test]
fn readers_never_see_half_a_batch() {
    let limits = Limits::builder().limit("l", Limit::quota(u32::MAX, Per::Month));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let limiter = limiter.with_clock(ManualClock::default());
    let pair = ["left", "right"].map(|id| Transaction::new("l", id));
    let look = pair.map(|one| one.cost(0).mode(Mode::CheckOnly));
    let seen = || {
        let seen = limiter.try_spend_batch(&look).unwrap().unwrap();
        [0, 1].map(|member| seen.members()[member].remaining().unwrap())
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for order in [pair, [pair[1], pair[0]]] {
            let (limiter, is_over) = (&limiter, &is_over);
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    assert!(limiter.try_spend_batch(&order).unwrap().unwrap().allowed());
                }
            });
        }
        // Some values are seen while the writers go on, however slow the machine is.
        let mut values = HashSet::new();
        while values.len() < 100 {
            let [left, right] = seen();
            assert_eq!(left, right);
            values.insert(left);
        }
        is_over.store(true, Relaxed);
    });
}
