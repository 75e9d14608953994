//! Section 3 of the design: refunds, and debts beyond the burst.

use std::time::Duration;

use crate::{
    limit::{Limit, LimitName, Limits},
    quota::Per,
    transaction::{Mode, Transaction},
};

use super::world::{DEEPEST, Figures, SEVEN, TEN, World, figures};

pub async fn tat_far_ahead_is_never_clamped(world: World) {
    let slow = world.limiter([("l", Limit::per_day(1))]);
    let fast = world.limiter([("l", Limit::per_second(1))]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    slow.spend(&bucket.cost(100).mode(Mode::Debit))
        .await
        .unwrap();
    let debt = 100 * 86_400 * 1_000_000;
    for limiter in [&fast, &slow, &fast] {
        let denied = limiter.spend(&bucket).await.unwrap();
        assert_eq!(
            (denied.allowed(), denied.reset_after().as_micros()),
            (false, debt)
        );
    }
    let denied = fast.spend(&bucket).await.unwrap();
    assert_eq!(denied.retry_after().as_micros(), debt);
}

pub async fn refund_gives_back_up_to_full(world: World) {
    let bucket = world.bucket(TEN);
    // (spent, advance, refunded, figures): `allowed` means that anything was refunded.
    let steps = [
        (5, 0, 1, figures(true, 6, 0, 4_000_000)),
        (0, 0, 0, figures(false, 6, 0, 4_000_000)),
        (0, 2_500_000, 1, figures(true, 9, 0, 500_000)),
        (0, 0, 10, figures(true, 10, 0, 0)),
        (0, 0, 1, figures(false, 10, 0, 0)),
        (10, 0, 10, figures(true, 10, 0, 0)),
        (3, 3_000_000, 1, figures(false, 10, 0, 0)),
        (3, 3_000_001, 3, figures(false, 10, 0, 0)),
        (3, 2_999_999, 3, figures(true, 10, 0, 0)),
    ];
    for (i, (spent, advance, cost, expected)) in steps.into_iter().enumerate() {
        bucket.spend(spent).await;
        world.advance(advance);
        let decision = bucket.refund(cost).await;
        assert_eq!(decision, expected, "step {i}");
    }
    bucket.spend(10).await;
    assert!(
        !bucket.spend(1).await.allowed(),
        "nothing beyond full was kept"
    );
}

pub async fn refund_is_exact_in_fractions(world: World) {
    let bucket = world.bucket(SEVEN);
    bucket.spend(7).await;
    for _ in 0..1000 {
        let refunded = bucket.refund(3).await;
        assert_eq!(refunded, figures(true, 3, 0, 571_429));
        let spent = bucket.spend(3).await;
        assert_eq!(spent, figures(true, 0, 428_572, 1_000_000));
    }
}

pub async fn refund_depends_on_the_mode(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let cases = [
        (Mode::CheckAndSpend, figures(true, 6, 0, 4_000_000)),
        (Mode::CheckOnly, figures(false, 4, 0, 6_000_000)),
        (Mode::SpendOnly, figures(true, 6, 0, 4_000_000)),
        (Mode::Debit, figures(true, 6, 0, 4_000_000)),
    ];
    for (mode, expected) in cases {
        let id = world.id(&format!("{mode:?}"));
        let bucket = Transaction::new("l", &id);
        limiter.spend(&bucket.cost(6)).await.unwrap();
        let refund = bucket.cost(2).mode(mode);
        let decision = limiter.refund(&refund).await.unwrap();
        assert_eq!(decision, expected, "{mode:?}");
        let batch = limiter.refund_batch(&[refund]).await.unwrap();
        assert_eq!(batch.refunded(), mode != Mode::CheckOnly, "{mode:?}");
    }
}

pub async fn debit_goes_into_debt_and_heals(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let debit = |cost| bucket.cost(cost).mode(Mode::Debit);
    for (cost, left, owed) in [(4, 6, 4_000_000), (100, 0, 104_000_000)] {
        let debited = limiter.spend(&debit(cost)).await.unwrap();
        assert_eq!((debited.allowed(), debited.remaining()), (true, Some(left)));
        assert_eq!(debited.reset_after().as_micros(), owed);
    }
    let denied = limiter.spend(&bucket).await.unwrap();
    assert_eq!(denied, figures(false, 0, 95_000_000, 104_000_000));
    world.advance(94_000_000 - 1);
    assert!(!limiter.spend(&bucket.cost(0)).await.unwrap().allowed());
    world.advance(1);
    let probe = limiter.spend(&bucket.cost(0)).await.unwrap();
    assert_eq!(probe, figures(true, 0, 0, 10_000_000));
    let refunded = limiter.refund(&debit(100)).await.unwrap();
    assert_eq!((refunded.allowed(), refunded.remaining()), (true, Some(10)));
    assert_eq!(refunded.reset_after().as_micros(), 0);
}

pub async fn debt_stops_at_its_bound(world: World) {
    let limiter = world.limiter([("l", Limit::per_day(1)), ("max", Limit::per_day(1))]);
    let id = world.id("a");
    for name in ["l", "max"] {
        let bucket = Transaction::new(name, &id).cost(u32::MAX).mode(Mode::Debit);
        for advance in [0, 1, 1_000_000_000_000] {
            world.advance(advance);
            for _ in 0..2 {
                let debited = limiter.spend(&bucket).await.unwrap();
                assert_eq!((debited.allowed(), debited.remaining()), (true, Some(0)));
                assert_eq!(debited.reset_after().as_micros(), DEEPEST);
            }
        }
        let day = 86_400_000_000;
        let denied = limiter.spend(&Transaction::new(name, &id)).await.unwrap();
        assert_eq!(denied, figures(false, 0, DEEPEST, DEEPEST));
        let refunded = limiter.refund(&Transaction::new(name, &id)).await.unwrap();
        assert_eq!(refunded.reset_after().as_micros(), DEEPEST - day);
    }
}

/// Limits whose debits saturate.
fn saturating() -> Limits {
    // The units of a window saturate in shadow mode only. Otherwise, the debit is an error.
    let window = LimitName::from("window").shadow(true);
    Limits::builder()
        .limit("whole", TEN)
        .limit("thirds", Limit::new(10, 3, Duration::from_secs(2)).unwrap())
        .limit("quota", Limit::quota(5, Per::Day))
        .limit(
            "first",
            Limit::quota(5, Per::first_use(Duration::from_secs(60))),
        )
        .limit(window, Limit::window(5, Duration::from_secs(60)))
        .build()
        .unwrap()
}

pub async fn receipt_of_a_debit_that_saturates_gives_back_what_was_taken(world: World) {
    let limiter = world.limiter_of(saturating());
    let id = world.id("a");
    for (name, most) in [
        ("whole", 2_300_000_000),
        ("thirds", 3_400_000_000),
        ("quota", u32::MAX),
        ("first", u32::MAX),
        ("window", 4096),
    ] {
        let limit = limiter.limit(name).unwrap();
        limit.cost(4).spend(&id).await.unwrap();
        world.advance(123_457);
        let look = async || Figures::from(&limit.cost(0).check(&id).await.unwrap());
        let before = look().await;
        let debit = limit.cost(u32::MAX).mode(Mode::Debit);
        for parts in [&[][..], &[1], &[1, 1_000, 5_000_000]] {
            let checked = debit.check(&id).await.unwrap();
            let debited = debit.spend(&id).await.unwrap();
            let mut receipt = debited.receipt().unwrap();
            assert_eq!(debited.granted(), receipt.cost(), "{name}");
            assert_eq!(checked.granted(), receipt.cost(), "{name}");
            assert!(
                (most / 2..=most).contains(&receipt.cost()),
                "{name}: {receipt:?}"
            );
            for part in parts {
                let part = receipt.split(*part);
                limit.refund_receipt(&id, part).await.unwrap();
            }
            if receipt.cost() > 0 && name != "window" {
                assert!(!look().await.allowed, "{name}: most of it is still charged");
            }
            limit.refund_receipt(&id, receipt).await.unwrap();
            assert_eq!(look().await, before, "{name} in {parts:?}");
        }
    }
}

pub async fn receipt_of_a_debit_that_takes_nothing_gives_nothing_back(world: World) {
    let limiter = world.limiter_of(saturating());
    let id = world.id("a");
    for name in ["whole", "thirds", "quota", "first", "window"] {
        let limit = limiter.limit(name).unwrap();
        limit.cost(5).spend(&id).await.unwrap();
        let debit = limit.cost(u32::MAX).mode(Mode::Debit);
        let first = debit.spend(&id).await.unwrap();
        let second = debit.spend(&id).await.unwrap();
        let look = async || Figures::from(&limit.cost(0).check(&id).await.unwrap());
        let before = look().await;
        assert_eq!(second.granted(), 0, "{name}");
        if let Some(nothing) = second.receipt() {
            assert_eq!(nothing.cost(), 0, "{name}");
            let refunded = limit.refund_receipt(&id, nothing).await.unwrap();
            assert!(!refunded.refunded(), "{name}");
        }
        assert_eq!(look().await, before, "{name}");
        let refunded = limit.refund_receipt(&id, first.receipt().unwrap()).await;
        let left = match name {
            "whole" | "thirds" => 5,
            _ => 0,
        };
        assert_eq!(refunded.unwrap().remaining(), Some(left), "{name}");
    }
}

pub async fn reset_makes_full(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let modes = [
        Mode::CheckAndSpend,
        Mode::CheckOnly,
        Mode::SpendOnly,
        Mode::Debit,
    ];
    for (mode, cost) in modes.into_iter().zip([0, 1, 10, u32::MAX]) {
        limiter
            .spend(&bucket.cost(30).mode(Mode::Debit))
            .await
            .unwrap();
        limiter
            .reset(&[bucket.cost(cost).mode(mode)])
            .await
            .unwrap();
        limiter.reset(&[bucket]).await.unwrap();
        let probe = limiter.check(&bucket.cost(0)).await.unwrap();
        assert_eq!(probe, figures(true, 10, 0, 0), "{mode:?}");
    }
}
