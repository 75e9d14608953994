//! Other limits while a limiter runs: changes of values, kept buckets, and refused reloads.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::ManualClock,
    id::IdFormat,
    limit::{LimitName, LimitsBuilder},
    limiter::{LimitHandle, LimiterError},
};

use crate::support::store::Store;

const HOUR: Duration = Duration::from_secs(3600);

/// Limits of so many per hour.
fn limits(named: &[(&str, u32)]) -> Limits {
    let add = |builder: LimitsBuilder, (name, per_hour): &(&str, u32)| {
        builder.limit(*name, Limit::per_hour(*per_hour))
    };
    named.iter().fold(Limits::builder(), add).build().unwrap()
}

fn limiter(limits: Limits) -> Limiter {
    Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default())
}

fn left(limiter: &Limiter, name: &str, id: &str) -> Option<u32> {
    let probe = Transaction::new(name, id).cost(0);
    limiter.try_spend(&probe).unwrap().unwrap().remaining()
}

/// Expects that a limiter refuses limits and goes on with those that it has.
fn expect_refusal(limiter: &Limiter, limits: Limits, message: &str) {
    let error = limiter.reload(limits).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
    assert_eq!(left(limiter, "a", "7"), Some(20));
}

#[tokio::test]
async fn what_was_spent_counts_under_the_new_limit_unless_the_algorithm_changes() {
    let limiter = limiter(limits(&[("a", 10)]));
    let three = Transaction::new("a", "x").cost(3);
    limiter.spend(&three).await.unwrap();
    limiter.reload(limits(&[("a", 5)])).unwrap();
    assert_eq!(left(&limiter, "a", "x"), Some(3));
    let window = Limits::builder().limit("a", Limit::window(10, HOUR));
    limiter.reload(window.build().unwrap()).unwrap();
    assert_eq!(left(&limiter, "a", "x"), Some(10));
    limiter.reload(limits(&[("a", 10)])).unwrap();
    assert_eq!(
        left(&limiter, "a", "x"),
        Some(7),
        "the bucket is still there"
    );
}

/// The example of `docs/algorithms.md`: a token bucket keeps the time until it is full, and a window keeps its units.
#[tokio::test]
async fn empty_token_bucket_stays_empty_under_a_higher_limit_and_a_window_does_not() {
    let window = |limit| Limit::window(limit, HOUR);
    for (before, after, left, next) in [
        (Limit::per_hour(10), Limit::per_hour(1000), 0, HOUR / 1000),
        (
            Limit::per_hour(10),
            Limit::per_minute(10),
            0,
            HOUR * 591 / 600,
        ),
        (window(10), window(1000), 990, Duration::ZERO),
    ] {
        let of = |limit| Limits::builder().limit("a", limit).build().unwrap();
        let limiter = limiter(of(before));
        let ten = Transaction::new("a", "x").cost(10);
        assert!(limiter.spend(&ten).await.unwrap().allowed());
        limiter.reload(of(after.clone())).unwrap();
        let peeked = limiter.peek(&ten.cost(1)).await.unwrap();
        assert_eq!(peeked.remaining(), Some(left), "{after}");
        assert_eq!(peeked.next_after(), Some(next), "{after}");
    }
}

#[tokio::test]
async fn handle_finds_its_limit_wherever_a_reload_puts_it() {
    let limiter = limiter(limits(&[("a", 5), ("b", 10)]));
    let (a, b) = (limiter.limit("a").unwrap(), limiter.limit("b").unwrap());
    let of = async |handle: &LimitHandle| handle.peek("x").await.map(|peeked| peeked.remaining());
    assert_eq!(
        (of(&a).await.unwrap(), of(&b).await.unwrap()),
        (Some(5), Some(10))
    );
    // The place that each has remembered is now the other's.
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
    let off = Limits::builder().name("a").build().unwrap();
    limiter.reload(off).unwrap();
    assert_eq!(of(&a).await.unwrap(), None, "a limit without values is off");
}

#[test]
fn unknown_name_is_an_error_at_once() {
    let limiter = limiter(limits(&[("orders", 5)]));
    let error = limiter.limit("order").unwrap_err().to_string();
    assert!(error.contains("`order`: did you mean `orders`?"), "{error}");
}

#[tokio::test]
async fn handle_charges_its_cost() {
    let a = limiter(limits(&[("a", 10)])).limit("a").unwrap();
    let five = a.cost(5);
    assert_eq!(five.name(), "a");
    assert_eq!(five.spend("x").await.unwrap().remaining(), Some(5));
    assert_eq!(a.spend("x").await.unwrap().remaining(), Some(4));
    assert!(!five.check("x").await.unwrap().allowed());
    assert_eq!(a.cost(4).check("x").await.unwrap().remaining(), Some(0));
    a.reset("x").await.unwrap();
    let batch = [a.transaction("x"), five.transaction("y")];
    assert!(a.limiter().spend_batch(&batch).await.unwrap().allowed());
    let at_once = a.try_spend("x").expect("memory never waits").unwrap();
    assert_eq!(at_once.remaining(), Some(8));
}

#[test]
fn reload_that_would_lose_buckets_is_refused() {
    let named = |name, number, format| {
        let name = LimitName::new(name, number, format);
        Limits::builder()
            .limit(name, Limit::per_hour(20))
            .build()
            .unwrap()
    };
    let limiter = limiter(named("a", 6, IdFormat::RegId));
    let lost = "so its buckets would be lost: keep it, or restart";
    for other in [
        named("a", 7, IdFormat::RegId),
        named("a", 6, IdFormat::Opaque),
        named("b", 6, IdFormat::Opaque),
        limits(&[("a", 20)]),
    ] {
        expect_refusal(&limiter, other, lost);
    }
    limiter.reload(named("b", 6, IdFormat::RegId)).unwrap();
}

#[test]
fn limit_that_the_backend_cannot_keep_is_refused_at_start_and_by_a_reload() {
    let window = |limit| {
        let window = Limit::window(limit, std::time::Duration::from_secs(9));
        let limits = Limits::builder().limit("a", Limit::per_hour(20));
        limits.limit("w", window).build().unwrap()
    };
    let small = || MemoryBackend::new().max_history_bytes(1000);
    let limiter = Limiter::new(window(20), small());
    expect_refusal(
        &limiter,
        window(4000),
        "limit `w`: it does not fit the backend: ",
    );
    let error = Limiter::try_new(window(4000), small())
        .unwrap_err()
        .to_string();
    assert!(error.contains("max_history_bytes"), "{error}");
}

#[test]
fn override_is_set_changed_and_removed_while_the_limiter_runs() {
    let orders = LimitName::new("a", 6, IdFormat::RegId);
    let limits = Limits::builder()
        .limit(orders, Limit::per_hour(20))
        .override_for("a", "7", Limit::per_hour(5))
        .build()
        .unwrap();
    let limiter = limiter(limits.clone());
    let set = |limit: Option<Limit>| limiter.set_override("a", "8", limit);
    assert_eq!(
        (left(&limiter, "a", "7"), left(&limiter, "a", "8")),
        (Some(5), Some(20))
    );
    set(Some(Limit::per_hour(9))).unwrap();
    assert_eq!(
        (left(&limiter, "a", "7"), left(&limiter, "a", "8")),
        (Some(5), Some(9))
    );
    set(Some(Limit::UNLIMITED)).unwrap();
    assert_eq!(left(&limiter, "a", "8"), None);
    set(None).unwrap();
    assert_eq!(left(&limiter, "a", "8"), Some(20));
    limiter.set_override("a", "7", None).unwrap();
    assert_eq!(left(&limiter, "a", "7"), Some(20));
    limiter.reload(limits).unwrap();
    assert_eq!(
        left(&limiter, "a", "7"),
        Some(5),
        "that of the files is back"
    );
}

#[test]
fn change_of_one_override_leaves_the_others_alone() {
    const OTHERS: usize = 100_000;
    let ids: Vec<_> = (0..OTHERS).map(|id| format!("\"{id}\"")).collect();
    let ids = ids.join(",");
    let text = format!(r#"[{{"a": {{"burst": 5, "count": 5, "period": "1h", "ids": [{ids}]}}}}]"#);
    let limits = Limits::builder().limit("a", Limit::per_hour(20));
    let limits = limits.overrides_text("overrides.json", &text);
    let store = Store::default();
    let limiter = Limiter::new(limits.build().unwrap(), store.clone());
    assert_eq!(store.admissions(), OTHERS + 1);
    for (id, limit) in [
        ("new", Some(Limit::per_hour(9))),
        ("7", Some(Limit::per_hour(9))),
        ("8", None),
    ] {
        limiter.set_override("a", id, limit).unwrap();
        let asked = store.admissions();
        assert!(asked < 200, "{asked} of {OTHERS} were checked");
    }
}

/// Limits change between two sets until each has decided often.
#[test]
fn every_decision_is_by_one_whole_set_of_limits() {
    // The names are in another order, so that the places that handles remember are wrong after each reload.
    let [old, new] = [(10, ["a", "b"]), (20, ["b", "a"])].map(|(burst, names)| {
        let limit = Limit::per_hour(burst);
        let builder = names.into_iter().fold(Limits::builder(), |builder, name| {
            builder.limit(name, limit.clone())
        });
        builder.override_for("a", "own", limit).build().unwrap()
    });
    let limiter = limiter(old.clone());
    let (a, b) = (limiter.limit("a").unwrap(), limiter.limit("b").unwrap());
    let (a, b) = (a.cost(0), b.cost(0));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                limiter.reload(new.clone()).unwrap();
                limiter.reload(old.clone()).unwrap();
            }
        });
        let (mut seen, mut steps) = ([0; 2], 0);
        while steps < 20_000 || seen.contains(&0) {
            let batch = [a.transaction("x"), a.transaction("own"), b.transaction("x")];
            let decision = limiter.try_spend_batch(&batch).unwrap().unwrap();
            let bursts = decision.members().iter().map(|one| one.remaining());
            let bursts: Vec<_> = bursts.collect();
            let set = [10, 20]
                .iter()
                .position(|burst| bursts == [Some(*burst); 3]);
            seen[set.unwrap_or_else(|| panic!("{bursts:?}"))] += 1;
            steps += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
}
