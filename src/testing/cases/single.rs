//! Section 3 of the design: one bucket.

use std::time::Duration;

use crate::{
    clock::Timestamp,
    limit::{Limit, Limits},
    limiter::LimiterError,
    quota::Per,
    tiers::Tier,
    transaction::{Mode, Transaction},
};

use super::world::{DEEPEST, SEVEN, TEN, World, figures};

const TWENTY: Limit = Limit::per_second(20);
const END: u64 = Timestamp::END.as_micros();

pub async fn twenty_pass_at_once_and_the_next_after_fifty_milliseconds(world: World) {
    let bucket = world.bucket(TWENTY);
    for left in (0..20).rev() {
        let decision = bucket.spend(1).await;
        assert_eq!(
            (decision.allowed(), decision.remaining()),
            (true, Some(left))
        );
    }
    let steps = [
        (0, figures(false, 0, 50_000, 1_000_000)),
        (49_999, figures(false, 0, 1, 950_001)),
        (1, figures(true, 0, 50_000, 1_000_000)),
        (0, figures(false, 0, 50_000, 1_000_000)),
    ];
    for (advance, expected) in steps {
        world.advance(advance);
        assert_eq!(bucket.spend(1).await, expected);
    }
}

pub async fn sixty_per_minute_lets_a_hundred_and_first_pass_after_a_second(world: World) {
    let bucket = world.bucket(Limit::per_minute(60).burst(100));
    let mut passed = 0;
    while bucket.spend(1).await.allowed() {
        passed += 1;
    }
    assert_eq!(passed, 100);
    world.advance(999_999);
    assert!(!bucket.spend(1).await.allowed());
    world.advance(1);
    assert!(bucket.spend(1).await.allowed());
}

pub async fn figures_follow_the_walkthrough(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let id = world.id("a");
    let steps = [
        (0, 1, figures(true, 9, 0, 1_000_000)),
        (0, 9, figures(true, 0, 9_000_000, 10_000_000)),
        (0, 1, figures(false, 0, 1_000_000, 10_000_000)),
        (1_000_000, 0, figures(true, 1, 0, 9_000_000)),
        (0, 1, figures(true, 0, 1_000_000, 10_000_000)),
        (10_000_000, 1, figures(true, 9, 0, 1_000_000)),
        (999_000, 0, figures(true, 9, 0, 1000)),
        (72_000_000_000, 10, figures(true, 0, 10_000_000, 10_000_000)),
        (1_500_000, 7, figures(false, 1, 5_500_000, 8_500_000)),
    ];
    for (i, (advance, cost, expected)) in steps.into_iter().enumerate() {
        world.advance(advance);
        let transaction = Transaction::new("l", &id).cost(cost);
        let decision = limiter.spend(&transaction).await.unwrap();
        assert_eq!(decision, expected, "step {i}");
    }
}

pub async fn equality_passes_and_a_microsecond_less_does_not(world: World) {
    // (limit, cost spent at first, cost, the instant at which it passes, rounded up)
    let cases = [
        (TWENTY, 20, 20, 1_000_000),
        (TWENTY, 15, 6, 50_000),
        (TEN, 10, 3, 3_000_000),
        (SEVEN, 7, 1, 142_858),
        (SEVEN, 7, 2, 285_715),
        (SEVEN, 7, 7, 1_000_000),
        (Limit::per_hour(7).burst(1), 1, 1, 514_285_715),
    ];
    for (i, (limit, spent, cost, after)) in cases.into_iter().enumerate() {
        let limiter = world.limiter([("l", limit)]);
        let id = world.id(&i.to_string());
        let bucket = Transaction::new("l", &id);
        assert!(limiter.spend(&bucket.cost(spent)).await.unwrap().allowed());
        world.advance(after - 1);
        let early = limiter.spend(&bucket.cost(cost)).await.unwrap();
        assert_eq!(
            (early.allowed(), early.retry_after().as_micros()),
            (false, 1),
            "case {i}"
        );
        world.advance(1);
        assert!(
            limiter.spend(&bucket.cost(cost)).await.unwrap().allowed(),
            "case {i}"
        );
    }
}

pub async fn fractions_of_a_microsecond_never_drift(world: World) {
    let bucket = world.bucket(SEVEN);
    for second in 0..100 {
        for left in (0..7).rev() {
            let decision = bucket.spend(1).await;
            assert_eq!(
                (decision.allowed(), decision.remaining()),
                (true, Some(left)),
                "{second}"
            );
        }
        let denied = bucket.spend(1).await;
        assert_eq!(denied, figures(false, 0, 142_858, 1_000_000), "{second}");
        world.advance(1_000_000);
    }
}

pub async fn cost_zero_probes(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let debit = |cost| bucket.cost(cost).mode(Mode::Debit);
    let steps = [
        (0, figures(true, 10, 0, 0)),
        (3, figures(true, 7, 0, 3_000_000)),
        (7, figures(true, 0, 0, 10_000_000)),
        (1, figures(false, 0, 1_000_000, 11_000_000)),
    ];
    for (debited, expected) in steps {
        limiter.spend(&debit(debited)).await.unwrap();
        for _ in 0..2 {
            let probe = limiter.spend(&bucket.cost(0)).await.unwrap();
            assert_eq!(probe, expected);
        }
    }
}

pub async fn cost_above_the_burst_is_an_error(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let modes = [Mode::CheckAndSpend, Mode::CheckOnly, Mode::SpendOnly];
    for (cost, mode) in [11, u32::MAX]
        .into_iter()
        .flat_map(|cost| modes.map(|m| (cost, m)))
    {
        let transaction = bucket.cost(cost).mode(mode);
        let batch = [Transaction::new("l", "other"), transaction];
        let errors = [
            limiter.spend(&transaction).await.unwrap_err(),
            limiter.check(&transaction).await.unwrap_err(),
            limiter.refund(&transaction).await.unwrap_err(),
            limiter.spend_batch(&batch).await.unwrap_err(),
        ];
        for error in errors {
            let LimiterError::CostAboveBurst {
                limit,
                cost: told,
                burst,
                ..
            } = error
            else {
                panic!("{error}");
            };
            assert_eq!((limit.as_str(), told, burst), ("l", cost, 10));
        }
    }
    let whole = limiter.spend(&bucket.cost(10)).await.unwrap();
    assert_eq!(whole, figures(true, 0, 10_000_000, 10_000_000));
}

pub async fn denied_request_spends_nothing(world: World) {
    let bucket = world.bucket(TEN);
    bucket.spend(7).await;
    for _ in 0..5 {
        let denied = bucket.spend(4).await;
        assert_eq!(denied, figures(false, 3, 1_000_000, 7_000_000));
    }
    assert!(bucket.spend(3).await.allowed());
}

pub async fn missing_bucket_is_full(world: World) {
    let bucket = world.bucket(SEVEN);
    let full = figures(true, 7, 0, 0);
    assert_eq!(bucket.check(0).await, full);
    let refunded = bucket.refund(1).await;
    assert_eq!(refunded, figures(false, 7, 0, 0));
    let whole = bucket.spend(7).await;
    assert_eq!(whole, figures(true, 0, 1_000_000, 1_000_000));
}

pub async fn check_answers_what_spend_would_and_writes_nothing(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let modes = [
        Mode::CheckAndSpend,
        Mode::CheckOnly,
        Mode::SpendOnly,
        Mode::Debit,
    ];
    for mode in modes {
        let id = world.id(&format!("{mode:?}"));
        let bucket = Transaction::new("l", &id);
        for cost in [4, 0, 5, 2, 1, 1] {
            let before = limiter
                .check(&bucket.cost(0).mode(Mode::CheckOnly))
                .await
                .unwrap();
            let transaction = bucket.cost(cost).mode(mode);
            let checked = limiter.check(&transaction).await.unwrap();
            let after = limiter
                .check(&bucket.cost(0).mode(Mode::CheckOnly))
                .await
                .unwrap();
            let spent = limiter.spend(&transaction).await.unwrap();
            // Everything except the source of the decision, because a cache may decide the second time.
            let [before, after, checked, spent] =
                [before, after, checked, spent].map(|decision| format!("{decision:?}"));
            assert_eq!(before, after, "{mode:?} {cost}");
            assert_eq!(checked, spent, "{mode:?} {cost}");
        }
    }
}

pub async fn clock_that_steps_back_frees_nobody(world: World) {
    let bucket = world.bucket(TEN);
    bucket.spend(8).await;
    world.set(world.now() - 5_000_000);
    let denied = bucket.spend(1).await;
    assert_eq!(denied, figures(false, 0, 4_000_000, 13_000_000));
    let probe = bucket.spend(0).await;
    assert_eq!(probe, figures(false, 0, 3_000_000, 13_000_000));
    let refunded = bucket.refund(4).await;
    assert_eq!(refunded, figures(true, 1, 3_000_000, 9_000_000));
    world.advance(5_000_000);
    let spent = bucket.spend(6).await;
    assert_eq!(spent, figures(true, 0, 6_000_000, 10_000_000));
}

pub async fn instants_at_and_beyond_the_end_are_errors(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    for now in [END, END + 1, u64::MAX] {
        world.set(now);
        let batch = [bucket, Transaction::new("l", "b")];
        let errors = [
            limiter.spend(&bucket).await.unwrap_err(),
            limiter.check(&bucket).await.unwrap_err(),
            limiter.refund(&bucket).await.unwrap_err(),
            limiter.reset(&[bucket]).await.unwrap_err(),
            limiter.spend_batch(&batch).await.unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, LimiterError::InvalidNow(_)), "{error}");
        }
    }
    world.set(END - 1);
    let debited = limiter
        .spend(&bucket.cost(u32::MAX).mode(Mode::Debit))
        .await
        .unwrap();
    let debt = u128::from(u32::MAX) * 1_000_000;
    assert_eq!(debited.reset_after().as_micros(), debt.min(DEEPEST));
    world.set(0);
    let other = world.id("b");
    let spent = limiter.spend(&Transaction::new("l", &other)).await.unwrap();
    assert_eq!(spent, figures(true, 9, 0, 1_000_000));
}

pub async fn next_token_is_counted_from_now(world: World) {
    let bucket = world.bucket(SEVEN);
    let next = async || {
        let probe = bucket.check(0).await;
        probe.next_token_after().map(|wait| wait.as_micros())
    };
    assert_eq!(next().await, None);
    bucket.spend(7).await;
    // (advance, until one more than now)
    for (advance, expected) in [(0, 142_858), (142_857, 1), (1, 142_857), (400_000, 28_571)] {
        world.advance(advance);
        assert_eq!(next().await, Some(expected));
    }
    bucket.debit(7).await;
    assert_eq!(next().await, Some(600_000));
}

pub async fn backends_own_clock_decides_without_another(world: World) {
    let [hour, day] = [1, 24].map(|hours| Duration::from_secs(hours * 3600));
    // A unit of a tier counts for a microsecond longer.
    let longest = day + Duration::from_micros(1);
    for (i, limit) in [
        Limit::per_day(1),
        Limit::window(1, day),
        Limit::quota(1, Per::first_use(day)),
        Limit::tiers([Tier::new(1, day)]).unwrap(),
    ]
    .into_iter()
    .enumerate()
    {
        let limits = Limits::builder().limit("l", limit.clone()).build().unwrap();
        let limiter = world.limiter_without_clock(limits);
        let id = world.id(&i.to_string());
        let one = Transaction::new("l", &id);
        let spent = limiter.spend(&one).await.unwrap();
        assert!(spent.allowed(), "{limit}");
        assert!((day..=longest).contains(&spent.next_after()), "{limit}");
        let denied = limiter.spend(&one).await.unwrap();
        assert!(!denied.allowed(), "{limit}");
        let wait = denied.retry_after();
        assert!(wait > day - hour && wait <= longest, "{limit}: {wait:?}");
    }
}

pub async fn simultaneous_spends_admit_the_limit(world: World) {
    let limits = [
        ("gcra", TWENTY),
        ("window", Limit::window(20, Duration::from_secs(60))),
        ("quota", Limit::quota(20, Per::Month)),
        ("permits", Limit::concurrent(20)),
    ];
    let limiter = world.limiter(limits.clone());
    let id = world.id("a");
    for (name, _) in limits {
        let tasks = (0..200).map(|_| {
            let (limiter, id) = (limiter.clone(), id.clone());
            tokio::spawn(async move { limiter.spend(&Transaction::new(name, &id)).await })
        });
        let mut admitted = 0;
        for task in tasks.collect::<Vec<_>>() {
            admitted += usize::from(task.await.unwrap().unwrap().allowed());
        }
        assert_eq!(admitted, 20, "{name}");
    }
}

pub async fn peek_shows_the_bucket_as_it_is(world: World) {
    let minute = Duration::from_secs(60);
    let limiter = world.limiter([
        ("gcra", TEN),
        ("line", TEN.max_wait(minute)),
        ("window", Limit::window(10, minute)),
        ("quota", Limit::quota(10, Per::first_use(minute))),
    ]);
    let id = world.id("a");
    for name in ["gcra", "line", "window", "quota"] {
        let one = Transaction::new(name, &id);
        // What is spent, a cost, and whether it passes then.
        for (spent, left, cost, passes) in [
            (0, 10, 10, true),
            (3, 7, 7, true),
            (0, 7, 8, false),
            (7, 0, 1, false),
        ] {
            let spend = limiter.spend(&one.cost(spent)).await.unwrap();
            assert!(spend.allowed(), "{name}");
            let peeked = limiter.peek(&one.cost(cost)).await.unwrap();
            let shown = (peeked.allowed(), peeked.remaining());
            assert_eq!(shown, (passes, Some(left)), "{name} {cost}");
            assert_eq!(peeked.next_after().is_zero(), passes, "{name} {cost}");
            assert_eq!(peeked.reset_after().is_zero(), left == 10, "{name}");
            assert!(peeked.receipt().is_none() && peeked.delay().is_zero());
        }
    }
    let empty = limiter.peek(&Transaction::new("gcra", &id)).await.unwrap();
    let expected = figures(false, 0, 1_000_000, 10_000_000);
    assert_eq!(empty, expected);
}
