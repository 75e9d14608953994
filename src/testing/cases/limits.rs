//! Sections 3 and 4 of the design: buckets whose limits differ, change or are off.

use std::time::Duration;

use crate::{
    decision::Decision,
    id::IdFormat,
    limit::{Limit, LimitName, Limits},
    limiter::LimiterError,
    transaction::{Mode, Transaction},
};

use super::world::{TEN, World, figures, spend};

pub async fn off_limits_are_dropped(world: World) {
    let limits = Limits::builder()
        .name("off")
        .limit("l", TEN)
        .build()
        .unwrap();
    let limiter = world.limiter_of(limits);
    let id = world.id("a");
    let off = Transaction::new("off", &id).cost(u32::MAX);
    for decision in [
        limiter.spend(&off).await.unwrap(),
        limiter.check(&off).await.unwrap(),
        limiter.refund(&off).await.unwrap(),
    ] {
        assert_eq!(decision, Decision::NOT_LIMITED);
        assert_eq!((decision.allowed(), decision.limited()), (true, false));
        assert_eq!(
            (decision.remaining(), decision.next_token_after()),
            (None, None)
        );
        let spans = [
            decision.retry_after(),
            decision.next_after(),
            decision.reset_after(),
        ];
        assert_eq!(spans, [Duration::ZERO; 3]);
    }
    limiter.reset(&[off]).await.unwrap();
    // Dropped members keep their places, and may be there twice: they have no bucket.
    let batch = [off, Transaction::new("l", &id).cost(7), off];
    for (allowed, left) in [(true, 3), (false, 3)] {
        let decided = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!((decided.allowed(), decided.strictest()), (allowed, Some(1)));
        assert_eq!(decided.members()[1].remaining(), Some(left));
        assert_eq!(decided.members()[0], Decision::NOT_LIMITED);
        assert_eq!(decided.members()[2], Decision::NOT_LIMITED);
    }
    let all_off = limiter.spend_batch(&[off]).await.unwrap();
    assert_eq!((all_off.allowed(), all_off.strictest()), (true, None));
    assert_eq!(all_off.members(), [Decision::NOT_LIMITED]);
}

pub async fn unknown_limits_and_empty_ids_are_errors(world: World) {
    let limits = Limits::builder()
        .name("off")
        .limit("l", TEN)
        .build()
        .unwrap();
    let limiter = world.limiter_of(limits);
    let id = world.id("a");
    let good = Transaction::new("l", &id);
    for (limit, id) in [("L", "a"), ("", "a"), ("l", ""), ("off", "")] {
        let bad = Transaction::new(limit, id);
        for error in [
            limiter.spend(&bad).await.unwrap_err(),
            limiter.spend_batch(&[good, bad]).await.unwrap_err(),
            limiter.reset(&[good, bad]).await.unwrap_err(),
        ] {
            match error {
                LimiterError::UnknownLimit { name, known } => {
                    assert_eq!(
                        (name.as_str(), known),
                        (limit, vec!["l".into(), "off".into()])
                    );
                }
                LimiterError::InvalidId { limit: told, .. } => {
                    assert_eq!((told.as_str(), id), (limit, ""));
                }
                error => panic!("{error}"),
            }
        }
    }
    let probe = limiter.check(&good.cost(0)).await.unwrap();
    assert_eq!(
        probe.remaining(),
        Some(10),
        "the good member of a bad batch is not charged"
    );
}

pub async fn ids_and_limits_do_not_mix(world: World) {
    let limiter = world.limiter([
        (LimitName::from("a"), TEN),
        (LimitName::from("ab"), TEN),
        (LimitName::new("one", 1, IdFormat::Opaque), TEN),
        (LimitName::new("eleven", 11, IdFormat::Opaque), TEN),
    ]);
    let base = world.id("x");
    let ids = ["", ":", ":1", "}", "{1}", "\0", " ", "é", "%", "*", "\r\n"]
        .map(|tail| format!("{base}{tail}"));
    for (spent, name) in (1..).zip(["a", "ab", "one", "eleven"]) {
        for (more, id) in (0..).zip(&ids) {
            let cost = (spent + more) % 10;
            let decision = spend(&limiter, name, id, cost).await;
            assert_eq!(decision.remaining(), Some(10 - cost), "{name}:{id:?}");
        }
    }
    let batch = ["a", "ab", "one", "eleven"].map(|name| Transaction::new(name, &ids[0]).cost(0));
    let held = limiter.check_batch(&batch).await.unwrap();
    let held: Vec<_> = held
        .members()
        .iter()
        .map(|one| one.remaining().unwrap())
        .collect();
    assert_eq!(held, [9, 8, 7, 6]);
}

pub async fn renamed_limit_keeps_its_buckets(world: World) {
    let before = world.limiter([(LimitName::new("old", 77, IdFormat::Opaque), TEN)]);
    let after = world.limiter([(LimitName::new("new", 77, IdFormat::Opaque), TEN)]);
    let id = world.id("a");
    spend(&before, "old", &id, 8).await;
    let spent = spend(&after, "new", &id, 2).await;
    assert_eq!(spent, figures(true, 0, 2_000_000, 10_000_000));
}

pub async fn changed_limit_keeps_the_tat(world: World) {
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    world
        .limiter([("l", TEN)])
        .spend(&bucket.cost(6))
        .await
        .unwrap();
    // The value of 6 s of debt under other limits, and then under the first one again.
    let cases = [
        (
            Limit::per_second(2).burst(20),
            figures(true, 8, 0, 6_000_000),
        ),
        (
            Limit::per_second(1).burst(20),
            figures(true, 14, 0, 6_000_000),
        ),
        (
            Limit::per_second(1).burst(6),
            figures(true, 0, 0, 6_000_000),
        ),
        (
            Limit::per_second(1).burst(4),
            figures(false, 0, 2_000_000, 6_000_000),
        ),
        (Limit::per_hour(1), figures(true, 0, 0, 6_000_000)),
        (
            Limit::per_second(7),
            figures(false, 0, 5_000_000, 6_000_000),
        ),
        (TEN, figures(true, 4, 0, 6_000_000)),
    ];
    for (limit, expected) in cases {
        let limiter = world.limiter([("l", limit.clone())]);
        let probe = limiter.spend(&bucket.cost(0)).await.unwrap();
        assert_eq!(probe, expected, "{limit}");
    }
}

pub async fn fraction_of_a_larger_count_is_cut(world: World) {
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let sevenths = world.limiter([("l", Limit::per_second(7))]);
    let thirds = world.limiter([("l", Limit::per_second(3))]);
    // 6 T is 857 142 6/7 us, read as 857 142 2/3: 3/3 would be the next microsecond.
    sevenths.spend(&bucket.cost(6)).await.unwrap();
    let probe = thirds.check(&bucket.cost(1)).await.unwrap();
    assert_eq!(probe, figures(false, 0, 190_476, 857_143));
    // A refund of a third of a second, 333 333 1/3 us, leaves 523 809 1/3.
    let refunded = thirds.refund(&bucket.cost(1)).await.unwrap();
    assert_eq!(refunded, figures(true, 1, 0, 523_810));
    // 1/3 is read as 1/7: two tokens more are 285 714 2/7 us, 809 523 3/7 in all.
    let spent = sevenths.spend(&bucket.cost(2)).await.unwrap();
    assert_eq!(spent, figures(true, 1, 95_238, 809_524));
    world.advance(809_523);
    assert_eq!(
        sevenths
            .check(&bucket.cost(7))
            .await
            .unwrap()
            .retry_after()
            .as_micros(),
        1
    );
    let debit = bucket.cost(0).mode(Mode::Debit);
    assert_eq!(
        sevenths
            .spend(&debit)
            .await
            .unwrap()
            .reset_after()
            .as_micros(),
        1
    );
}
