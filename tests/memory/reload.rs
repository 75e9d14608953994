//! Other limits while requests run: what changes, what stays, and what is refused.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::Duration,
};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    clock::{Clock, ManualClock},
    id::IdFormat,
    key::Everyone,
    limit::{Language, LimitName, LimitsBuilder},
    limiter::ReloadError,
    transaction::Mode,
};

const TWENTY: Limit = Limit::per_second(20);

fn limits(builder: &LimitsBuilder) -> Limits {
    builder.build().unwrap()
}

fn one(name: &str, limit: Limit) -> Limits {
    limits(&Limits::builder().limit(name, limit))
}

fn limiter(limits: Limits) -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, MemoryBackend::new());
    (limiter.with_clock(clock.clone()), clock)
}

#[tokio::test]
async fn names_come_and_go() {
    let (limiter, _) = limiter(one("a", TWENTY));
    limiter.reload(one("b", TWENTY)).unwrap();
    assert!(limiter.spend(&Transaction::new("a", "x")).await.is_err());
    assert!(limiter.spend(&Transaction::new("b", "x")).await.is_ok());
}

#[test]
fn overrides_come_and_go() {
    let (limiter, _) = limiter(one("a", TWENTY));
    let recipe = Limits::builder().limit("a", TWENTY);
    let burst = |id| {
        let probe = Transaction::new("a", id).cost(0);
        limiter.try_spend(&probe).unwrap().unwrap().remaining()
    };
    limiter
        .reload(limits(&recipe.clone().override_for(
            "a",
            "x",
            Limit::per_second(5),
        )))
        .unwrap();
    assert_eq!((burst("x"), burst("y")), (Some(5), Some(20)));
    limiter.reload(limits(&recipe)).unwrap();
    assert_eq!((burst("x"), burst("y")), (Some(20), Some(20)));
}

/// Expects that a limiter refuses limits and goes on with those that it has.
fn expect_refusal(limiter: &Limiter, limits: Limits, message: &str) {
    let before = limiter.limits();
    let error = limiter.reload(limits).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(before.names(), limiter.limits().names());
}

/// A limiter of `a` and `b`, and a layer whose rules cost up to 8 of `a`.
fn limiter_with_a_layer() -> (Limiter, RateLimitLayer) {
    let (limiter, _) = limiter(limits(
        &Limits::builder().limit("a", TWENTY).limit("b", TWENTY),
    ));
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("a", Everyone).cost(5))
        .rule(Rule::new("a", Everyone).cost(3))
        .rule(Rule::new("b", Everyone).cost(9).mode(Mode::Debit));
    (limiter, layer)
}

#[test]
fn reload_that_would_break_a_rule_is_refused() {
    let (limiter, _layer) = limiter_with_a_layer();
    let both = |a: Limit| {
        Limits::builder()
            .limit("a", a)
            .limit("b", Limit::per_second(1))
    };
    expect_refusal(
        &limiter,
        one("b", TWENTY),
        "a rule does not fit the new limits: no limit is named `a`: known are b",
    );
    expect_refusal(
        &limiter,
        limits(&both(Limit::per_second(7))),
        "a rule does not fit the new limits: cost 8 is above the burst of limit `a`, 7: lower the \
         cost, raise the burst, or make it a debit",
    );
    expect_refusal(
        &limiter,
        limits(&both(TWENTY).override_for("a", "x", Limit::per_second(7))),
        "a rule does not fit the new limits: cost 8 is above the burst of limit `a` for `x`, 7: lower \
         the cost, raise the burst, or make it a debit",
    );
    limiter.reload(limits(&both(Limit::per_second(8)))).unwrap();
    expect_refusal(
        &limiter,
        limits(&Limits::builder().name("a").limit("b", TWENTY)),
        "limit `a` no longer has values, and a rule uses it: add values, or write `a: {}` to turn it \
         off",
    );
    // What is off on purpose cannot be exceeded, and need not have been on.
    let off = Limits::builder().defaults_text(Language::Json, r#"{"a": {}, "b": {}}"#);
    limiter.reload(limits(&off)).unwrap();
    limiter
        .reload(limits(&Limits::builder().name("a").name("b")))
        .unwrap();
}

#[test]
fn rules_hold_the_limits_for_as_long_as_their_layer_is_there() {
    let (limiter, layer) = limiter_with_a_layer();
    let clone = layer.clone();
    drop(layer);
    assert!(limiter.reload(Limits::default()).is_err());
    drop(clone);
    limiter.reload(Limits::default()).unwrap();
}

#[test]
fn rule_that_does_not_fit_an_override_is_an_error_at_start() {
    let recipe = Limits::builder()
        .limit("a", TWENTY)
        .override_for("a", "x", Limit::per_second(4));
    let (limiter, _) = limiter(limits(&recipe));
    let error = RateLimitLayer::with_limiter(limiter).try_rule(Rule::new("a", Everyone).cost(5));
    assert_eq!(
        error.unwrap_err().to_string(),
        "cost 5 is above the burst of limit `a` for `x`, 4: lower the cost, raise the burst, or make \
         it a debit"
    );
}

#[test]
fn reload_that_would_lose_buckets_is_refused() {
    let named = |number, format| {
        limits(&Limits::builder().limit(LimitName::new("a", number, format), TWENTY))
    };
    let (limiter, _) = limiter(named(6, IdFormat::RegId));
    expect_refusal(
        &limiter,
        named(7, IdFormat::RegId),
        "limit `a` is number 6 with ids in the format regId, and `a` would be number 7 with ids in \
         the format regId, so its buckets would be lost: keep it, or restart",
    );
    // Under another name too.
    let renamed = LimitName::new("b", 6, IdFormat::Opaque);
    expect_refusal(
        &limiter,
        limits(&Limits::builder().limit(renamed, TWENTY)),
        "limit `a` is number 6 with ids in the format regId, and `b` would be number 6 with ids in \
         the format opaque, so its buckets would be lost: keep it, or restart",
    );
    let error = limiter.reload(named(6, IdFormat::Opaque)).unwrap_err();
    assert!(matches!(error, ReloadError::OtherKey { .. }));
    let error = limiter.reload(one("a", TWENTY)).unwrap_err();
    assert!(error.to_string().contains("`a` would be unnumbered"));
}

/// Two sets of limits whose names must always be seen together.
fn sets() -> [Limits; 2] {
    [(10, 1), (20, 2)].map(|(burst, per_second)| {
        let limit = Limit::per_second(per_second).burst(burst);
        let builder = Limits::builder()
            .limit("a", limit.clone())
            .limit("b", limit.clone());
        limits(&builder.override_for("a", "own", limit))
    })
}

/// Calls `step` again and again while limits are reloaded, until both sets have been seen often.
fn while_limits_change(limiter: &Limiter, mut step: impl FnMut(u64) -> [bool; 2]) {
    let [old, new] = sets();
    let (done, reloads) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                limiter.reload(new.clone()).unwrap();
                limiter.reload(old.clone()).unwrap();
                reloads.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (mut seen, mut steps) = ([0; 2], 0);
        // However slow the other thread is.
        while (steps < 20_000 || seen.contains(&0)) && reloads.load(Ordering::Relaxed) < 1_000_000 {
            let sets = step(steps);
            seen = [0, 1].map(|set| seen[set] + u32::from(sets[set]));
            steps += 1;
        }
        done.store(true, Ordering::Relaxed);
        assert!(!seen.contains(&0), "both were in force: {seen:?}");
    });
}

#[test]
fn every_decision_is_by_one_whole_set_of_limits() {
    let [old, _] = sets();
    let (limiter, _) = limiter(old);
    let batch = ["x", "own"].map(|id| Transaction::new("a", id).cost(0));
    let batch = [batch[0], batch[1], Transaction::new("b", "x").cost(0)];
    while_limits_change(&limiter, |_| {
        let decision = limiter.try_spend_batch(&batch).unwrap().unwrap();
        let members = decision.members().iter();
        let bursts: Vec<_> = members.map(|one| one.remaining().unwrap()).collect();
        let sets = [10, 20].map(|burst| bursts == [burst; 3]);
        assert!(sets.contains(&true), "{bursts:?}");
        sets
    });
}

/// What a bucket with this TAT decides at an instant: allowed, remaining, microseconds until full.
fn judge(burst: u64, interval: u64, tat: u64, now: u64) -> (bool, u64, u64) {
    let (tat, tolerance) = (tat.max(now), burst * interval);
    let charged = tat + interval;
    match charged <= now + tolerance {
        true => (true, (now + tolerance - charged) / interval, charged - now),
        false => (
            false,
            (now + tolerance).saturating_sub(tat) / interval,
            tat - now,
        ),
    }
}

#[test]
fn no_decision_is_wrong_while_limits_change() {
    const SETS: [(u64, u64); 2] = [(10, 1_000_000), (20, 500_000)];
    let [old, _] = sets();
    let (limiter, clock) = limiter(old);
    let mut tat = 0;
    while_limits_change(&limiter, |i| {
        clock.advance(Duration::from_micros(i % 7 * 230_001));
        let now = clock.now().as_micros();
        let told = limiter
            .try_spend(&Transaction::new("a", "x"))
            .unwrap()
            .unwrap();
        let reset_after = u64::try_from(told.reset_after().as_micros()).unwrap();
        let told = (
            told.allowed(),
            u64::from(told.remaining().unwrap()),
            reset_after,
        );
        let right = SETS.map(|(burst, interval)| judge(burst, interval, tat, now) == told);
        assert!(right.contains(&true), "{told:?} at {now} with {tat}");
        tat = now + reset_after;
        // One that either would have made tells nothing of what was in force.
        if right == [true; 2] {
            [false; 2]
        } else {
            right
        }
    });
}
