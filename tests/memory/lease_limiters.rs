//! Limiters that share a backend with leases, and reload their limits.

use std::{num::NonZeroU32, sync::Arc};

use futures_util::FutureExt;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction, backend::Lease, limit::LimitName,
};

/// A limit of 100, of which each process may hold so many hundredths.
fn limits(name: &str, percent: Option<NonZeroU32>) -> Limits {
    let name = LimitName::from(name);
    let name = match percent {
        Some(percent) => name.lease(percent.get(), 100),
        None => name,
    };
    let limit = Limit::per_second(100).burst(100);
    Limits::builder().limit(name, limit).build().unwrap()
}

/// Returns the highest cost that passes.
fn largest(limiter: &Limiter, name: &str) -> u32 {
    let passes = |cost: &u32| {
        let spend = Transaction::new(name, "alice").cost(*cost);
        let checked = limiter.check(&spend).now_or_never();
        checked.unwrap().is_ok()
    };
    (1..=100).take_while(passes).last().unwrap()
}

#[test]
fn limits_are_leased_by_the_largest_share_that_any_limiter_gives_them() {
    let of = NonZeroU32::new;
    let lease = Arc::new(Lease::new(MemoryBackend::new(), 2));
    let new = |name, percent| Limiter::new(limits(name, percent), Arc::clone(&lease));
    let first = new("a", of(5));
    let (second, other) = (new("a", of(20)), new("b", of(10)));
    assert_eq!([largest(&first, "a"), largest(&second, "a")], [60, 60]);
    assert_eq!(largest(&other, "b"), 80);
    second.reload(limits("a", of(1))).unwrap();
    assert_eq!([largest(&first, "a"), largest(&second, "a")], [90, 90]);
    // A share that leaves nothing to each process is refused, and changes nothing.
    let small = LimitName::from("a").lease(1, 1000);
    let small = Limits::builder().limit(small, Limit::per_second(100));
    assert!(first.reload(small.build().unwrap()).is_err());
    assert_eq!(largest(&first, "a"), 90);
    first.reload(limits("a", None)).unwrap();
    assert_eq!([largest(&first, "a"), largest(&second, "a")], [98, 98]);
    second.reload(limits("a", None)).unwrap();
    assert_eq!([largest(&first, "a"), largest(&second, "a")], [100, 100]);
    assert_eq!(largest(&other, "b"), 80);
}
