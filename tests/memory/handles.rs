//! Handles on limits: what they remember, and what they do when limits change.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::thread;

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, clock::ManualClock, limiter::LimiterError,
    transaction::Mode,
};

fn limits(named: &[(&'static str, u32)]) -> Limits {
    let builder = named
        .iter()
        .fold(Limits::builder(), |builder, (name, per_hour)| {
            builder.limit(*name, Limit::per_hour(*per_hour))
        });
    builder.build().unwrap()
}

fn limiter(named: &[(&'static str, u32)]) -> Limiter {
    let limiter = Limiter::new(limits(named), MemoryBackend::new());
    limiter.with_clock(ManualClock::default())
}

#[tokio::test]
async fn handle_finds_its_limit_wherever_a_reload_puts_it() {
    let limiter = limiter(&[("a", 5), ("b", 10)]);
    let (a, b) = (limiter.limit("a").unwrap(), limiter.limit("b").unwrap());
    let of = async |handle: &tollgate::limiter::LimitHandle| {
        let checked = handle.cost(0).check("x").await;
        checked.map(|decision| decision.remaining())
    };
    assert_eq!(
        (of(&a).await.unwrap(), of(&b).await.unwrap()),
        (Some(5), Some(10))
    );
    // The index that each has remembered is now the other's.
    limiter.reload(limits(&[("b", 20), ("a", 7)])).unwrap();
    assert_eq!(
        (of(&a).await.unwrap(), of(&b).await.unwrap()),
        (Some(7), Some(20))
    );
    limiter.reload(limits(&[("b", 3)])).unwrap();
    let error = of(&a).await.unwrap_err();
    assert!(
        matches!(error, LimiterError::UnknownLimit { .. }),
        "{error}"
    );
    assert_eq!(of(&b).await.unwrap(), Some(3));
    limiter
        .reload(limits(&[("c", 1), ("b", 3), ("a", 2)]))
        .unwrap();
    assert_eq!(of(&a).await.unwrap(), Some(2), "the name is back");
    limiter
        .reload(Limits::builder().name("a").build().unwrap())
        .unwrap();
    assert_eq!(of(&a).await.unwrap(), None, "a limit without values is off");
}

#[tokio::test]
async fn settings_of_a_handle_are_its_own() {
    let limiter = limiter(&[("a", 10)]);
    let a = limiter.limit("a").unwrap();
    let five = a.cost(5);
    assert!(five.spend("x").await.unwrap().allowed());
    assert_eq!(a.spend("x").await.unwrap().remaining(), Some(4));
    let looks = five.mode(Mode::CheckOnly);
    assert!(!looks.spend("x").await.unwrap().allowed());
    assert!(looks.cost(4).spend("x").await.unwrap().allowed());
    assert_eq!(a.cost(0).check("x").await.unwrap().remaining(), Some(4));
    a.reset("x").await.unwrap();
    let batch = [a.transaction("x"), five.transaction("y")];
    assert!(limiter.spend_batch(&batch).await.unwrap().allowed());
    assert_eq!(a.refund("x").await.unwrap().remaining(), Some(10));
    let at_once = a.try_spend("x").expect("memory never waits").unwrap();
    assert_eq!(at_once.remaining(), Some(9));
}

#[test]
fn unknown_name_is_an_error_at_once() {
    let error = limiter(&[("orders", 5)]).limit("order").unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("`order`") && text.contains("did you mean `orders`?"),
        "{text}"
    );
}

#[test]
fn handles_of_many_threads_never_mix_limits_up() {
    let limiter = limiter(&[("a", 1_000_000), ("b", 10)]);
    let a = limiter.limit("a").unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let spent = a.try_spend("x").unwrap().unwrap();
                    assert!(spent.remaining() > Some(10), "it is the limit of `a`");
                }
            });
        }
        for i in 0..200 {
            let (a, b) = (("a", 1_000_000), ("b", 10));
            let next = if i % 2 == 0 { [b, a] } else { [a, b] };
            limiter.reload(limits(&next)).unwrap();
        }
    });
}

#[tokio::test]
async fn blocked_and_unlimited_clients_are_shown_as_such() {
    let limits = Limits::builder()
        .limit("a", Limit::per_hour(5))
        .override_for("a", "banned", Limit::BLOCKED)
        .override_for("a", "vip", Limit::UNLIMITED);
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let a = limiter.limit("a").unwrap();
    let banned = a.peek("banned").await.unwrap();
    assert!(banned.blocked() && !banned.allowed());
    assert_eq!(banned.remaining(), Some(0));
    let vip = a.peek("vip").await.unwrap();
    assert!(vip.allowed() && !vip.limited());
    assert!(a.cost(6).peek("x").await.is_err());
}

#[tokio::test]
async fn client_is_reset_under_every_limit_that_knows_it() {
    use tollgate::{id::IdFormat, limit::LimitName};

    let address = LimitName::new("address", 1, IdFormat::IpAddress);
    let limits = Limits::builder()
        .limit("free", Limit::per_hour(5))
        .limit("pro", Limit::per_hour(50))
        .limit(address, Limit::per_hour(9))
        .name(LimitName::from("off"))
        .override_for("pro", "banned", Limit::BLOCKED)
        .build();
    let limiter = Limiter::new(limits.unwrap(), MemoryBackend::new());
    let left = async |name, id| {
        let decision = limiter.limit(name).unwrap().peek(id).await;
        decision.unwrap().remaining()
    };
    for id in ["alice", "bob"] {
        for name in ["free", "pro"] {
            let two = limiter.limit(name).unwrap().cost(2);
            assert!(two.spend(id).await.unwrap().allowed());
        }
    }
    let reset = limiter.reset_client("alice").await.unwrap();
    assert_eq!(reset, ["free", "pro"]);
    for (id, free, pro) in [("alice", 5, 50), ("bob", 3, 48)] {
        assert_eq!(left("free", id).await, Some(free));
        assert_eq!(left("pro", id).await, Some(pro));
    }
    assert_eq!(limiter.reset_client("banned").await.unwrap(), ["free"]);
    let all = limiter.reset_client("203.0.113.7").await.unwrap();
    assert_eq!(all, ["free", "pro", "address"]);
}
