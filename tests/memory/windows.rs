//! Windows and quotas in memory: at the caps beside other kinds, across reloads and restarts.

use std::time::Duration;

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::ManualClock,
    limiter::{LimiterError, ReloadError},
    quota::Per,
    tiers::Tier,
    transaction::{Mode, Receipt},
};

const DAY: Duration = Duration::from_secs(86_400);

/// Four kinds of limit. Each admits four in a day.
fn kinds() -> [(&'static str, Limit); 4] {
    [
        ("gcra", Limit::per(4, 4 * DAY)),
        ("quota", Limit::quota(4, Per::first_use(DAY))),
        ("window", Limit::window(4, DAY)),
        ("tiers", Limit::tiers([Tier::new(4, DAY)]).unwrap()),
    ]
}

fn limits() -> Limits {
    let builder = kinds().into_iter().fold(Limits::builder(), |builder, one| {
        builder.limit(one.0, one.1)
    });
    builder.build().unwrap()
}

fn spend(limiter: &Limiter, name: &str, id: &str, cost: u32) -> bool {
    let spent = limiter.try_spend(&Transaction::new(name, id).cost(cost));
    spent.unwrap().unwrap().allowed()
}

/// How many of 100 clients that have used all they have are still denied, after a flood of clients of another kind, or of
/// the same.
fn survivors(backend: MemoryBackend, throttled: &str, flood: &str, cost: u32) -> (usize, Limiter) {
    let limiter = Limiter::new(limits(), backend).with_clock(ManualClock::default());
    for client in 0..100 {
        assert!(spend(&limiter, throttled, &client.to_string(), 4));
    }
    for client in 0..5000 {
        let id = format!("flood-{client}");
        assert!(
            spend(&limiter, flood, &id, cost),
            "a newcomer always gets in"
        );
    }
    let denied = (0..100).filter(|client| !spend(&limiter, throttled, &client.to_string(), 1));
    (denied.count(), limiter)
}

#[test]
fn throttled_clients_outlive_a_flood_of_any_kind_at_the_cap() {
    for (throttled, _) in kinds() {
        for (flood, _) in kinds() {
            let small = MemoryBackend::with_max_buckets(1000).max_history_bytes(256 * 1024);
            let (denied, limiter) = survivors(small, throttled, flood, 1);
            let stats = limiter.stats();
            assert!(stats.evictions > Some(1000), "{throttled} beside {flood}");
            assert_eq!(denied, 100, "{throttled} beside {flood}");
        }
    }
}

/// Somebody who guesses passwords sprays other names, to renew the attempts for the accounts that are used up.
#[test]
fn flood_of_made_up_ids_renews_no_attempts() {
    let quarter = Duration::from_secs(900);
    let tiers = Limit::tiers([Tier::new(5, quarter)]).unwrap();
    let kinds = [
        Limit::window(5, quarter),
        tiers,
        Limit::quota(5, Per::first_use(quarter)),
        Limit::new(5, 5, quarter).unwrap(),
    ];
    for limit in kinds {
        let limits = Limits::builder().limit("logins", limit.clone());
        let clock = ManualClock::default();
        // A fiftieth of the defaults.
        let backend = MemoryBackend::with_max_buckets(MemoryBackend::DEFAULT_MAX_BUCKETS / 50);
        let limiter = Limiter::new(limits.build().unwrap(), backend).with_clock(clock.clone());
        for _ in 0..5 {
            for account in 0..200 {
                assert!(spend(&limiter, "logins", &format!("account {account}"), 1));
            }
            clock.advance(Duration::from_secs(1));
        }
        for made_up in 0..30_000 {
            assert!(spend(&limiter, "logins", &format!("made up {made_up}"), 1));
        }
        let stats = limiter.stats();
        assert!(stats.evictions > Some(5000), "{limit}: {stats:?}");
        assert!(stats.buckets <= stats.max_buckets, "{limit}: {stats:?}");
        let free =
            (0..200).filter(|account| spend(&limiter, "logins", &format!("account {account}"), 1));
        assert_eq!(free.count(), 0, "{limit}");
    }
}

#[test]
fn no_client_is_forgotten_while_there_is_room() {
    for (throttled, _) in kinds() {
        for (flood, _) in kinds() {
            let (denied, limiter) = survivors(MemoryBackend::new(), throttled, flood, 4);
            assert_eq!((denied, limiter.stats().evictions), (100, Some(0)));
        }
    }
}

#[test]
fn ended_periods_make_room() {
    let clock = ManualClock::default();
    let backend = MemoryBackend::with_max_buckets(500).max_history_bytes(128 * 1024);
    let limiter = Limiter::new(limits(), backend).with_clock(clock.clone());
    for round in 0..20 {
        for client in 0..300 {
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
fn window_that_never_fits_is_refused() {
    let window = |limit| {
        let limit = Limit::window(limit, DAY);
        Limits::builder().limit("l", limit).build().unwrap()
    };
    let backend = MemoryBackend::new().max_history_bytes(1000);
    let limiter = Limiter::new(window(100), backend);
    let error = limiter.reload(window(102)).unwrap_err();
    assert!(matches!(error, ReloadError::Backend { .. }), "{error}");
    let cause = std::error::Error::source(&error);
    let text = format!(
        "{error} {}",
        cause.map_or_else(String::new, ToString::to_string)
    );
    assert!(text.contains("lower the limit of its window"), "{text}");
}

#[test]
fn units_that_count_again_in_a_longer_window_survive_a_new_history_of_the_same_batch() {
    let limits = |window: Duration| {
        let limits = Limits::builder()
            .limit("new", Limit::window(4, DAY))
            .limit("old", Limit::window(4, window));
        limits.build().unwrap()
    };
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits(DAY / 2), MemoryBackend::new()).with_clock(clock.clone());
    assert!(spend(&limiter, "old", "a", 3));
    clock.advance(DAY * 3 / 4);
    limiter.reload(limits(DAY)).unwrap();
    let batch = ["new", "old"].map(|name| Transaction::new(name, "a"));
    let remaining = |spent: &tollgate::Decision| spent.remaining();
    let spent = limiter.try_spend_batch(&batch).unwrap().unwrap();
    assert_eq!(
        spent.members().iter().map(remaining).collect::<Vec<_>>(),
        [Some(3), Some(0)]
    );
    assert!(!spend(&limiter, "old", "a", 1));
}

#[tokio::test]
async fn receipt_as_text_is_refunded_by_another_limiter_on_the_same_backend() {
    let backend = std::sync::Arc::new(MemoryBackend::new());
    let limiter = || {
        let limiter = Limiter::new(limits(), std::sync::Arc::clone(&backend));
        limiter.with_clock(ManualClock::default())
    };
    let (ours, theirs) = (limiter(), limiter());
    for name in ["gcra", "quota", "window"] {
        let bucket = Transaction::new(name, "a").cost(3);
        let spent = ours.spend(&bucket).await.unwrap();
        let text = ours.write_receipt(name, "a", &spent.receipt().unwrap());
        let text = text.unwrap();
        assert!(text.len() <= 200 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let receipt = theirs.read_receipt(name, "a", &text).unwrap();
        assert_eq!((receipt.cost(), receipt.is_local()), (3, false));
        let other = theirs.read_receipt(name, "b", &text);
        assert!(matches!(other, Err(LimiterError::ForeignReceipt { .. })));
        let refund = bucket.of_receipt(&receipt).mode(Mode::CheckAndSpend);
        let refunded = theirs.refund(&refund).await.unwrap();
        assert_eq!((refunded.refunded(), refunded.remaining()), (true, Some(4)));
        let again: Receipt = theirs.read_receipt(name, "a", &text).unwrap();
        let refund = bucket.of_receipt(&again);
        assert!(!theirs.refund(&refund).await.unwrap().refunded());
        let spent = theirs.spend(&bucket.cost(4).of_receipt(&again)).await;
        assert_eq!(
            spent.unwrap().remaining(),
            Some(1),
            "a spend looks at no receipt"
        );
    }
}
