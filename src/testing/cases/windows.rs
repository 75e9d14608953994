//! Section 4a of the design: windows, whose limit is a hard number.

use std::time::Duration;

use crate::{
    decision::Decision,
    limit::Limit,
    limiter::LimiterError,
    transaction::{Mode, Transaction},
};

use super::world::{Figures, World, figures, members};

/// Five in any 100 µs.
const FIVE: Limit = Limit::window(5, Duration::from_micros(100));

pub async fn window_admits_its_limit_and_the_next_exactly_a_window_later(world: World) {
    let logins = world.limiter([("l", FIVE)]).limit("l").unwrap();
    let (id, start) = (world.id("a"), world.now());
    // (instant, cost, figures)
    let steps = [
        (0, 2, figures(true, 3, 0, 100)),
        (40, 2, figures(true, 1, 60, 100)),
        (41, 2, figures(false, 1, 59, 99)),
        (41, 1, figures(true, 0, 59, 100)),
        (99, 5, figures(false, 0, 42, 42)),
        (99, 1, figures(false, 0, 1, 42)),
        (100, 1, figures(true, 1, 0, 100)),
        (100, 1, figures(true, 0, 40, 100)),
        (139, 3, figures(false, 0, 2, 61)),
        (140, 2, figures(true, 0, 60, 100)),
        (141, 1, figures(true, 0, 59, 100)),
        (241, 5, figures(true, 0, 100, 100)),
    ];
    for (instant, cost, expected) in steps {
        world.set(start + instant);
        let logins = logins.cost(cost);
        let checked = logins.check(&id).await.unwrap();
        assert_eq!(checked, logins.check(&id).await.unwrap());
        let spent = logins.spend(&id).await.unwrap();
        assert_eq!(spent, expected, "{cost} at {instant}");
        assert_eq!(checked, spent, "{cost} at {instant}");
    }
}

pub async fn window_tells_when_there_is_more(world: World) {
    let start = world.now();
    let bucket = world.bucket(FIVE);
    let more = async |instant: u64, cost: u32| {
        world.set(start + instant);
        let spent = bucket.spend(cost).await;
        let more = spent.next_token_after();
        more.map(|more| more.as_micros())
    };
    assert_eq!(more(0, 0).await, None);
    assert_eq!(more(0, 1).await, Some(100));
    assert_eq!(more(30, 1).await, Some(70));
    assert_eq!(more(99, 0).await, Some(1));
    assert_eq!(more(100, 0).await, Some(30));
    assert_eq!(more(130, 0).await, None);
}

pub async fn cost_above_a_window_or_a_quota_is_an_error(world: World) {
    let quota = Limit::quota(5, crate::quota::Per::Day);
    let limiter = world.limiter([("w", FIVE), ("q", quota)]);
    let id = world.id("a");
    for name in ["w", "q"] {
        let six = Transaction::new(name, &id).cost(6);
        for error in [limiter.spend(&six).await, limiter.check(&six).await] {
            let LimiterError::CostAboveBurst { burst, cost, .. } = error.unwrap_err() else {
                panic!("it is another error");
            };
            assert_eq!((burst, cost), (5, 6));
        }
        let refund = limiter.refund(&six).await.unwrap();
        assert!(!refund.refunded());
        let left = limiter.spend(&six.cost(5)).await.unwrap();
        assert_eq!((left.allowed(), left.remaining()), (true, Some(0)));
    }
}

pub async fn cost_zero_probes_a_window(world: World) {
    let limiter = world.limiter([("l", FIVE)]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    limiter.spend(&bucket.cost(5)).await.unwrap();
    let probe = limiter.spend(&bucket.cost(0)).await.unwrap();
    assert_eq!(probe, figures(true, 0, 0, 100));
    let debit = bucket.cost(2).mode(Mode::Debit);
    world.advance(1);
    assert!(limiter.spend(&debit).await.unwrap().allowed());
    let probe = limiter.spend(&bucket.cost(0)).await.unwrap();
    assert_eq!(probe, figures(false, 0, 99, 100));
    world.advance(99);
    let probe = limiter.spend(&bucket.cost(0)).await.unwrap();
    assert_eq!(probe, figures(true, 3, 0, 1));
}

pub async fn refund_of_a_window_removes_the_latest_units(world: World) {
    let bucket = world.bucket(FIVE);
    for cost in [2, 1, 2] {
        bucket.spend(cost).await;
        world.advance(10);
    }
    for (cost, expected) in [
        (1, figures(true, 1, 0, 90)),
        (2, figures(true, 3, 0, 70)),
        (0, figures(false, 3, 0, 70)),
        (9, figures(true, 5, u128::MAX, 0)),
        (1, figures(false, 5, 0, 0)),
    ] {
        let refunded = bucket.refund(cost).await;
        let found = Figures {
            // A cost above the limit never passes.
            next_after: match refunded.next_after() {
                Decision::NEVER => u128::MAX,
                wait => wait.as_micros(),
            },
            ..Figures::from(&refunded)
        };
        assert_eq!(found, expected, "{cost}");
        assert_eq!(refunded.refunded(), expected.allowed);
    }
    bucket.spend(5).await;
    world.advance(100);
    assert!(!bucket.refund(1).await.refunded());
}

pub async fn receipt_of_a_window_gives_back_its_own_units_only(world: World) {
    let limiter = world.limiter([("l", FIVE)]);
    let (id, start) = (world.id("a"), world.now());
    let logins = limiter.limit("l").unwrap();
    let first = logins.cost(2).spend(&id).await.unwrap();
    world.advance(10);
    let mut second = logins.cost(2).spend(&id).await.unwrap().receipt().unwrap();
    let part = second.split(1);
    let refunded = logins.refund_receipt(&id, part).await.unwrap();
    assert_eq!(refunded, figures(true, 2, 0, 100));
    let refunded = logins.refund_receipt(&id, first.receipt().unwrap()).await;
    assert_eq!(
        refunded.unwrap(),
        figures(true, 4, 0, 100),
        "the unit of the second charge is left"
    );
    let again = logins.refund_receipt(&id, first.receipt().unwrap()).await;
    assert!(!again.unwrap().refunded(), "they are there no more");
    world.set(start + 110);
    let late = logins.refund_receipt(&id, second).await.unwrap();
    assert_eq!(late, figures(false, 5, 0, 0));
}

pub async fn debit_of_a_window_has_room_for_4096_units(world: World) {
    let limiter = world.limiter([("l", FIVE), ("g", Limit::per_day(1))]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let debit = |cost| bucket.cost(cost).mode(Mode::Debit);
    limiter.spend(&bucket).await.unwrap();
    world.advance(1);
    let beside = Transaction::new("g", &id);
    for debit in [debit(4096), debit(u32::MAX)] {
        for error in [
            limiter.spend(&debit).await.map(drop),
            limiter.check(&debit).await.map(drop),
            limiter.spend_batch(&[beside, debit]).await.map(drop),
        ] {
            assert!(
                matches!(error, Err(LimiterError::NoRoomForDebit { .. })),
                "{error:?}"
            );
        }
    }
    let probe = limiter.check(&bucket.cost(0)).await.unwrap();
    assert_eq!(probe.remaining(), Some(4), "nothing was written");
    assert!(limiter.spend(&beside).await.unwrap().allowed());
    let denied = limiter.spend_batch(&[beside, debit(4096)]).await.unwrap();
    assert!(!denied.allowed(), "a denied batch stays a denial");
    let debited = limiter.spend(&debit(4095)).await.unwrap();
    assert_eq!((debited.allowed(), debited.remaining()), (true, Some(0)));
    assert!(limiter.spend(&debit(1)).await.is_err());
    let denied = limiter.spend(&bucket).await.unwrap();
    assert_eq!(denied, figures(false, 0, 100, 100));
    let refunded = limiter.refund(&debit(4092)).await.unwrap();
    assert_eq!((refunded.refunded(), refunded.remaining()), (true, Some(1)));
    limiter.reset(&[bucket]).await.unwrap();
    let probe = limiter.check(&bucket.cost(0)).await.unwrap();
    assert_eq!(probe, figures(true, 5, 0, 0));
}

pub async fn window_counts_later_units_when_the_clock_steps_back(world: World) {
    let start = world.now();
    let bucket = world.bucket(FIVE);
    let steps = [
        (50, 3, figures(true, 2, 50 + 50, 100)),
        (20, 1, figures(true, 1, 0, 130)),
        (0, 2, figures(false, 1, 120, 150)),
        (119, 2, figures(false, 1, 1, 31)),
        (120, 2, figures(true, 0, 30, 100)),
    ];
    for (instant, cost, expected) in steps {
        world.set(start + instant);
        let spent = bucket.spend(cost).await;
        assert_eq!(spent, expected, "{cost} at {instant}");
    }
    // The unit of instant 20 expired for good when the last ones were taken.
    world.set(start + 110);
    let probe = bucket.check(0).await;
    assert_eq!(probe.remaining(), Some(0));
}

pub async fn window_in_a_denied_batch_shows_how_it_stands(world: World) {
    let limiter = world.limiter([("w", FIVE), ("g", Limit::per_day(1))]);
    let id = world.id("a");
    let window = Transaction::new("w", &id);
    limiter.spend(&window.cost(3)).await.unwrap();
    limiter.spend(&Transaction::new("g", &id)).await.unwrap();
    let batch = [window.cost(2), Transaction::new("g", &id)];
    let denied = limiter.spend_batch(&batch).await.unwrap();
    let day = 86_400_000_000;
    let expected = [figures(true, 2, 0, 100), figures(false, 0, day, day)];
    assert_eq!(members(&denied), expected);
    assert_eq!((denied.allowed(), denied.strictest()), (false, Some(1)));
}
