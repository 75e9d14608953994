//! A bucket belongs to its algorithm: reloads, overrides and two versions of one limit on one store.

use std::time::Duration;

use super::world::World;
use crate::{
    limit::{Limit, LimitName, Limits},
    limiter::Limiter,
    quota::Per,
    tiers::Tier,
    transaction::Transaction,
};

const DAY: Duration = Duration::from_secs(86_400);

/// A limit of `count` in a day for each algorithm.
fn each(count: u32) -> [Limit; 5] {
    [
        Limit::per_day(count),
        Limit::window(count, DAY),
        Limit::quota(count, Per::Day),
        Limit::concurrent(count).hold(DAY),
        Limit::tiers([Tier::new(count, DAY)]).unwrap(),
    ]
}

/// Each ordered pair of different algorithms: the first with `first` in a day, the second with `second`.
fn pairs(first: u32, second: u32) -> Vec<[Limit; 2]> {
    let mut pairs = Vec::new();
    for (i, one) in each(first).into_iter().enumerate() {
        let others = each(second).into_iter().enumerate();
        let others = others.filter(|(j, _)| *j != i);
        pairs.extend(others.map(|(_, other)| [one.clone(), other]));
    }
    pairs
}

/// The number of units that a client could take now.
async fn left(limiter: &Limiter, bucket: &Transaction<'_>) -> u32 {
    let checked = limiter.check(bucket).await.unwrap();
    checked.remaining().unwrap() + u32::from(checked.allowed())
}

pub async fn limit_whose_algorithm_changes_starts_fresh_and_finds_its_old_bucket_later(
    world: World,
) {
    for (i, [first, second]) in pairs(3, 4).into_iter().enumerate() {
        for in_batch in [false, true] {
            let id = world.id(&format!("{i}{in_batch}"));
            let alone = world.id(&format!("{i}{in_batch} other"));
            let bucket = Transaction::new("l", &id);
            let batch = [bucket, Transaction::new("other", &alone)];
            let batch = &batch[..1 + usize::from(in_batch)];
            for (limit, expected) in [(&first, 3), (&second, 4), (&first, 2), (&second, 3)] {
                let limits = [("l", limit.clone()), ("other", Limit::per_day(9))];
                let limiter = world.limiter(limits);
                assert_eq!(
                    left(&limiter, &bucket).await,
                    expected,
                    "{limit} of pair {i}"
                );
                let spent = limiter.spend_batch(batch).await.unwrap();
                assert_eq!(spent.members()[0].remaining(), Some(expected - 1));
            }
        }
    }
}

pub async fn two_versions_of_a_limit_admit_their_own_limits_and_no_more(world: World) {
    const TASKS: usize = 8;
    const EACH: usize = 1000 / TASKS;
    for (i, pair) in pairs(10, 7).into_iter().enumerate() {
        // A limit is known by its number or by its name.
        let name = match i % 2 {
            0 => LimitName::from("l"),
            _ => LimitName::new("l", 6, crate::id::IdFormat::Opaque),
        };
        let versions = pair.map(|limit| world.limiter([(name.clone(), limit)]));
        let id = world.id(&format!("pair {i}"));
        let tasks = (0..TASKS).map(|task| {
            let (versions, id) = (versions.clone(), id.clone());
            tokio::spawn(async move {
                let mut admitted = [0, 0];
                for attempt in 0..EACH {
                    let version = (task + attempt) % 2;
                    let spent = versions[version].spend(&Transaction::new("l", &id)).await;
                    admitted[version] += u32::from(spent.unwrap().allowed());
                }
                admitted
            })
        });
        let mut admitted = [0, 0];
        for task in tasks.collect::<Vec<_>>() {
            let [first, second] = task.await.unwrap();
            admitted = [admitted[0] + first, admitted[1] + second];
        }
        assert_eq!(admitted, [10, 7], "pair {i}");
    }
}

pub async fn override_of_another_algorithm_has_its_own_bucket(world: World) {
    for (i, [default, own]) in pairs(3, 4).into_iter().enumerate() {
        let [rich, poor] = ["rich", "poor"].map(|id| world.id(&format!("{id} {i}")));
        let limits = Limits::builder().limit("l", default.clone());
        let before = world.limiter_of(limits.build().unwrap());
        let limits = Limits::builder().limit("l", default);
        let limits = limits.override_for("l", &rich, own);
        let after = world.limiter_of(limits.build().unwrap());
        for id in [&rich, &poor] {
            before.spend(&Transaction::new("l", id)).await.unwrap();
        }
        for (id, expected) in [(&rich, 3), (&poor, 1)] {
            let spent = after.spend(&Transaction::new("l", id)).await.unwrap();
            assert_eq!(spent.remaining(), Some(expected), "pair {i}");
        }
        // The override is removed.
        assert_eq!(left(&before, &Transaction::new("l", &rich)).await, 2);
    }
}

pub async fn reset_fills_the_bucket_of_the_algorithm_in_force(world: World) {
    for (i, pair) in pairs(3, 3).into_iter().enumerate() {
        let [first, second] = pair.map(|limit| world.limiter([("l", limit)]));
        let id = world.id(&format!("{i}"));
        let bucket = Transaction::new("l", &id);
        for limiter in [&first, &second] {
            limiter.spend(&bucket.cost(2)).await.unwrap();
        }
        second.reset(&[bucket]).await.unwrap();
        assert_eq!(left(&second, &bucket).await, 3, "pair {i}");
        assert_eq!(left(&first, &bucket).await, 1, "pair {i}");
    }
}

pub async fn receipt_of_another_algorithm_gives_nothing_back(world: World) {
    for (i, pair) in pairs(3, 3).into_iter().enumerate() {
        let [first, second] = pair.map(|limit| world.limiter([("l", limit)]));
        let id = world.id(&format!("{i}"));
        let bucket = Transaction::new("l", &id);
        let spent = first.spend(&bucket.cost(2)).await.unwrap();
        second.spend(&bucket.cost(2)).await.unwrap();
        // Tiers give no receipts.
        let Some(receipt) = spent.receipt() else {
            continue;
        };
        let text = second.write_receipt("l", &id, &receipt).unwrap();
        assert_eq!(second.read_receipt("l", &id, &text).unwrap(), receipt);
        let refunded = second.refund(&bucket.of_receipt(&receipt)).await.unwrap();
        assert_eq!(
            (refunded.refunded(), refunded.remaining()),
            (false, Some(1))
        );
        assert_eq!(left(&second, &bucket).await, 1, "pair {i}");
        assert_eq!(left(&first, &bucket).await, 1, "pair {i}");
        let refunded = first.refund(&bucket.of_receipt(&receipt)).await.unwrap();
        assert_eq!((refunded.refunded(), refunded.remaining()), (true, Some(3)));
    }
}
