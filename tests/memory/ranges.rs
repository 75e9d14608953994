//! Overrides by ranges of addresses: each client in a range has a bucket of its own.

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction, clock::ManualClock, id::IdFormat,
    limit::LimitName,
};

/// At most one request of each client, and three of those in a range.
fn limiter() -> Limiter {
    let name = LimitName::unnumbered("requests", IdFormat::IpAddress);
    let limits = Limits::builder()
        .limit(name, Limit::per_hour(1))
        .override_for("requests", "198.51.100.0/24", Limit::per_hour(3))
        .override_for("requests", "2001:db8:7::/48", Limit::per_hour(3));
    Limiter::new(limits.build().unwrap(), MemoryBackend::new()).with_clock(ManualClock::default())
}

/// Returns how many of five requests pass.
async fn passed(limiter: &Limiter, id: &str) -> usize {
    let mut passed = 0;
    for _ in 0..5 {
        let decision = limiter.spend(&Transaction::new("requests", id)).await;
        passed += usize::from(decision.unwrap().allowed());
    }
    passed
}

#[tokio::test]
async fn each_client_in_a_range_has_its_own_bucket_with_its_values() {
    let limiter = limiter();
    for (id, expected) in [
        ("198.51.100.1", 3),
        ("198.51.100.2", 3),
        ("::ffff:198.51.100.1", 0),
        ("2001:db8:7:1::", 3),
        ("2001:db8:7:2::", 3),
        ("198.51.101.1", 1),
    ] {
        assert_eq!(passed(&limiter, id).await, expected, "{id}");
    }
}

#[tokio::test]
async fn range_is_set_and_removed_while_requests_run() {
    let limiter = limiter();
    assert_eq!(passed(&limiter, "203.0.113.1").await, 1);
    let set = |limit| limiter.set_override("requests", "203.0.113.0/24", limit);
    set(Some(Limit::per_hour(4))).unwrap();
    assert_eq!(passed(&limiter, "203.0.113.2").await, 4);
    set(Some(Limit::BLOCKED)).unwrap();
    assert_eq!(passed(&limiter, "203.0.113.3").await, 0);
    set(None).unwrap();
    assert_eq!(passed(&limiter, "203.0.113.4").await, 1);
}
