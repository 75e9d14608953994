//! Section 4a of the design: quotas, which come back all at once when their period ends.

use std::time::Duration;

use crate::{
    limit::Limit,
    quota::{Per, UtcOffset},
    tiers::Tier,
    transaction::{Mode, Transaction},
};

use super::world::{Figures, World, figures};

const HOUR: u64 = 3_600_000_000;
const DAY: u64 = 24 * HOUR;

/// Periods, with the ends of two consecutive ones: the period that contains midnight of Thursday, 1 January 2026, and
/// the next.
fn periods() -> [(Per, u64, u64); 9] {
    let ahead = UtcOffset::hours(2);
    let days = |days| days * DAY;
    [
        (Per::Hour, HOUR, 2 * HOUR),
        (
            Per::Hour.at_offset(UtcOffset::minutes(-30)),
            HOUR / 2,
            HOUR / 2 * 3,
        ),
        (Per::Day, DAY, 2 * DAY),
        (Per::Day.at_offset(ahead), 22 * HOUR, 46 * HOUR),
        (
            Per::Day.at_offset(UtcOffset::minutes(-1439)),
            DAY - HOUR / 60,
            2 * DAY - HOUR / 60,
        ),
        (Per::Week, days(4), days(11)),
        (Per::Month, days(31), days(31 + 28)),
        (
            Per::Month.at_offset(ahead),
            days(31) - 2 * HOUR,
            days(31 + 28) - 2 * HOUR,
        ),
        (Per::first_use(Duration::from_micros(7)), 7, 14),
    ]
}

pub async fn quota_comes_back_when_its_period_ends(world: World) {
    let start = world.now();
    for (i, (per, first, second)) in periods().into_iter().enumerate() {
        let limiter = world.limiter([("l", Limit::quota(3, per))]);
        let id = world.id(&i.to_string());
        let bucket = Transaction::new("l", &id);
        for (begins, ends) in [(0, first), (first, second)] {
            let period = u128::from(ends - begins);
            for (instant, cost, expected) in [
                (begins, 2, figures(true, 1, period, period)),
                (begins + 1, 2, figures(false, 1, period - 1, period - 1)),
                (ends - 1, 1, figures(true, 0, 1, 1)),
                (ends - 1, 1, figures(false, 0, 1, 1)),
            ] {
                world.set(start + instant);
                let checked = limiter.check(&bucket.cost(cost)).await.unwrap();
                let spent = limiter.spend(&bucket.cost(cost)).await.unwrap();
                assert_eq!(spent, expected, "{per:?}: {cost} at {instant}");
                assert_eq!(checked, spent);
            }
        }
        world.set(start + second);
        let probe = limiter.spend(&bucket.cost(0)).await.unwrap();
        assert_eq!(probe, figures(true, 3, 0, 0));
        world.set(start);
    }
}

pub async fn leap_day_belongs_to_its_month(world: World) {
    let limiter = world.limiter([("l", Limit::quota(1, Per::Month))]);
    // The last microsecond of February: 2024, 2026 and 2100, which is no leap year.
    let ends = [
        1_709_251_200_000_000,
        1_772_323_200_000_000,
        4_107_542_400_000_000,
    ];
    for (i, end) in ends.into_iter().enumerate() {
        let id = world.id(&i.to_string());
        let bucket = Transaction::new("l", &id);
        world.set(end - 1);
        assert!(limiter.spend(&bucket).await.unwrap().allowed());
        let denied = limiter.spend(&bucket).await.unwrap();
        assert_eq!(denied, figures(false, 0, 1, 1));
        world.set(end);
        let march = u128::from(31 * DAY);
        let spent = limiter.spend(&bucket).await.unwrap();
        assert_eq!(spent, figures(true, 0, march, march));
    }
}

pub async fn first_use_starts_the_period(world: World) {
    let per = Per::first_use(Duration::from_micros(100));
    let start = world.now();
    let bucket = world.bucket(Limit::quota(3, per));
    let at = async |instant: u64, cost: u32| {
        world.set(start + instant);
        Figures::from(&bucket.spend(cost).await)
    };
    assert_eq!(at(7, 0).await, figures(true, 3, 0, 0), "a probe is no use");
    assert_eq!(at(9, 1).await, figures(true, 2, 0, 100));
    assert_eq!(at(108, 2).await, figures(true, 0, 1, 1));
    assert_eq!(at(108, 1).await, figures(false, 0, 1, 1));
    assert_eq!(at(150, 1).await, figures(true, 2, 0, 100));
    let refunded = bucket.refund(1).await;
    assert_eq!(refunded, figures(true, 3, 0, 0));
    assert_eq!(at(200, 3).await, figures(true, 0, 100, 100), "as a new one");
    assert_eq!(at(299, 1).await, figures(false, 0, 1, 1));
}

pub async fn clock_that_steps_back_gives_no_second_quota(world: World) {
    let start = world.now();
    let bucket = world.bucket(Limit::quota(1, Per::Day));
    assert!(bucket.spend(1).await.allowed());
    for back in [1, HOUR, DAY] {
        world.set(start - back);
        let wait = u128::from(DAY + back);
        let denied = bucket.spend(1).await;
        assert_eq!(denied, figures(false, 0, wait, wait));
    }
}

pub async fn debit_of_a_quota_is_owed_until_the_period_ends(world: World) {
    let limiter = world.limiter([("l", Limit::quota(3, Per::Day))]);
    let (id, day) = (world.id("a"), u128::from(DAY));
    let bucket = Transaction::new("l", &id);
    let debit = |cost| bucket.cost(cost).mode(Mode::Debit);
    let debited = limiter.spend(&debit(2)).await.unwrap();
    assert_eq!(debited, figures(true, 1, day, day));
    for _ in 0..2 {
        let debited = limiter.spend(&debit(u32::MAX)).await.unwrap();
        assert_eq!(debited, figures(true, 0, day, day));
    }
    let probe = limiter.spend(&bucket.cost(0)).await.unwrap();
    assert_eq!(probe, figures(false, 0, day, day));
    let refunded = limiter.refund(&debit(u32::MAX - 3)).await.unwrap();
    assert_eq!((refunded.refunded(), refunded.remaining()), (true, Some(0)));
    let probe = limiter.spend(&bucket.cost(0)).await.unwrap();
    assert_eq!(probe, figures(true, 0, 0, day));
    let refunded = limiter.refund(&debit(4)).await.unwrap();
    assert_eq!((refunded.refunded(), refunded.remaining()), (true, Some(3)));
    assert!(!limiter.refund(&bucket).await.unwrap().refunded());
}

pub async fn refund_across_the_end_of_a_period_gives_nothing_back(world: World) {
    let quota = world.limiter([("l", Limit::quota(3, Per::Day))]);
    let quota = quota.limit("l").unwrap();
    let (id, start) = (world.id("a"), world.now());
    let [first, second] = [quota.spend(&id).await, quota.spend(&id).await];
    let [first, second] = [first.unwrap(), second.unwrap()];
    world.set(start + DAY - 1);
    let refunded = quota.refund_receipt(&id, first.receipt().unwrap()).await;
    assert_eq!(refunded.unwrap(), figures(true, 2, 0, 1));
    world.set(start + DAY);
    let late = quota.refund_receipt(&id, second.receipt().unwrap()).await;
    assert_eq!(late.unwrap(), figures(false, 3, 0, 0));
    assert!(quota.cost(3).spend(&id).await.unwrap().allowed());
    let late = quota.refund_receipt(&id, second.receipt().unwrap()).await;
    assert_eq!(
        late.unwrap().remaining(),
        Some(0),
        "another period's charge stays"
    );
    let plain = quota.refund(&id).await.unwrap();
    assert_eq!((plain.refunded(), plain.remaining()), (true, Some(1)));
}

pub async fn batches_of_all_algorithms_pass_or_fail_as_one(world: World) {
    let secs = Duration::from_secs;
    let limiter = world.limiter([
        ("gcra", Limit::per_day(2)),
        ("window", Limit::window(2, secs(86_400))),
        ("quota", Limit::quota(2, Per::Day)),
        ("tiers", Limit::tiers([Tier::new(2, secs(86_400))]).unwrap()),
    ]);
    let names = ["gcra", "window", "quota", "tiers"];
    let held = async |id: &str| {
        let mut held = [0; 4];
        for (held, name) in held.iter_mut().zip(names) {
            let checked = limiter.check(&Transaction::new(name, id)).await.unwrap();
            *held = checked.remaining().unwrap() + u32::from(checked.allowed());
        }
        held
    };
    for (i, denies) in names.into_iter().enumerate() {
        let id = world.id(denies);
        let batch = names.map(|name| Transaction::new(name, &id));
        let passed = limiter.spend_batch(&batch).await.unwrap();
        assert!(passed.allowed());
        assert_eq!(held(&id).await, [1; 4]);
        limiter.spend(&batch[i]).await.unwrap();
        let mut left = [1; 4];
        left[i] = 0;
        let denied = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!((denied.allowed(), denied.strictest()), (false, Some(i)));
        assert_eq!(held(&id).await, left, "{denies}");
        let silent = batch.map(|one| one.mode(Mode::SpendOnly));
        let taken = limiter.spend_batch(&silent).await.unwrap();
        let taken: Vec<_> = taken.members().iter().map(|one| one.allowed()).collect();
        let others: Vec<_> = (0..4).map(|member| member != i).collect();
        assert_eq!((taken, held(&id).await), (others, [0; 4]));
    }
}
