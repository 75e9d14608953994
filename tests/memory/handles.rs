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
