//! Batches of buckets with tiers and without.

use std::time::Duration;

use crate::{
    decision::Decision,
    limit::Limit,
    limiter::Limiter,
    tiers::Tier,
    transaction::{
        Mode::{CheckAndSpend, CheckOnly, Debit, SpendOnly},
        Transaction,
    },
};

use super::{
    batch::strictest,
    tiers_single::{penalty, prison},
    world::{World, spend},
};

fn limiter(world: &World) -> Limiter {
    world.limiter([
        ("tiers", penalty()),
        ("prison", prison()),
        ("gcra", Limit::per_day(10)),
    ])
}

/// Returns the number of units that a bucket with tiers would grant, and the highest tier among them.
async fn would_be(limiter: &Limiter, limit: &str, id: &str) -> (u32, Option<usize>) {
    let all = Transaction::new(limit, id).cost(1000).min_cost(1);
    let checked = limiter.check(&all).await.unwrap();
    (checked.granted(), checked.tier())
}

/// Returns the number of tokens in a bucket without tiers.
async fn held(limiter: &Limiter, id: &str) -> Option<u32> {
    let probe = Transaction::new("gcra", id).cost(0);
    limiter.check(&probe).await.unwrap().remaining()
}

pub async fn tiers_are_untouched_when_another_denies(world: World) {
    let limiter = limiter(&world);
    for (i, mode) in [CheckAndSpend, CheckOnly].into_iter().enumerate() {
        let [a, b, c] = ["a", "b", "c"].map(|id| world.id(&format!("{id}{i}")));
        spend(&limiter, "gcra", &b, 10).await;
        let batch = [
            Transaction::new("tiers", &a).cost(7),
            Transaction::new("gcra", &b).mode(mode),
            Transaction::new("prison", &c).mode(SpendOnly),
            Transaction::new("gcra", &a),
        ];
        let denied = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!((denied.allowed(), denied.strictest()), (false, Some(1)));
        assert!(denied.members().iter().all(|one| one.tier().is_none()));
        assert_eq!(would_be(&limiter, "tiers", &a).await, (55, Some(1)));
        assert_eq!(would_be(&limiter, "prison", &c).await, (6, Some(1)));
        assert_eq!(held(&limiter, &a).await, Some(10));
    }
}

pub async fn nothing_is_charged_when_tiers_deny(world: World) {
    let limiter = limiter(&world);
    for (i, mode) in [CheckAndSpend, CheckOnly].into_iter().enumerate() {
        let [a, b] = ["a", "b"].map(|id| world.id(&format!("{id}{i}")));
        spend(&limiter, "prison", &b, 6).await;
        let batch = [
            Transaction::new("gcra", &a).cost(3),
            Transaction::new("tiers", &a).cost(6),
            Transaction::new("prison", &b).mode(mode),
            Transaction::new("gcra", &b).mode(Debit),
        ];
        let denied = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!((denied.allowed(), denied.strictest()), (false, Some(2)));
        assert_eq!(
            denied.decision().retry_after(),
            Duration::from_micros(15_000_001)
        );
        assert_eq!(held(&limiter, &a).await, Some(10));
        assert_eq!(held(&limiter, &b).await, Some(10));
        assert_eq!(would_be(&limiter, "tiers", &a).await, (55, Some(1)));
    }
}

pub async fn mixed_batch_that_passes_takes_from_all(world: World) {
    let limiter = limiter(&world);
    let [a, b] = ["a", "b"].map(|id| world.id(id));
    let batch = [
        Transaction::new("gcra", &a).cost(4),
        Transaction::new("tiers", &a).cost(20).min_cost(2),
        Transaction::new("prison", &b).cost(5),
    ];
    let checked = limiter.check_batch(&batch).await.unwrap();
    let passed = limiter.spend_batch(&batch).await.unwrap();
    assert_eq!(checked, passed);
    let granted: Vec<_> = passed.members().iter().map(Decision::granted).collect();
    assert_eq!(granted, [4, 20, 5]);
    assert_eq!(
        passed.members()[1].split().collect::<Vec<_>>(),
        [(0, 5), (1, 15)]
    );
    assert_eq!(held(&limiter, &a).await, Some(6));
    assert_eq!(would_be(&limiter, "tiers", &a).await, (35, Some(1)));
    assert_eq!(would_be(&limiter, "prison", &b).await, (1, Some(1)));
}

pub async fn check_only_tiers_vote_and_are_not_entered(world: World) {
    let limiter = limiter(&world);
    let id = world.id("a");
    let batch = [
        Transaction::new("gcra", &id),
        Transaction::new("prison", &id).cost(6).mode(CheckOnly),
    ];
    for held_before in [10, 9] {
        let passed = limiter.spend_batch(&batch).await.unwrap();
        assert!(passed.allowed(), "{held_before}");
        assert_eq!(passed.members()[1].granted(), 6, "what a spend would grant");
        assert_eq!(would_be(&limiter, "prison", &id).await, (6, Some(1)));
    }
    limiter.spend(&batch[1].mode(CheckAndSpend)).await.unwrap();
    assert!(!limiter.spend_batch(&batch).await.unwrap().allowed());
    assert_eq!(held(&limiter, &id).await, Some(8));
}

pub async fn spend_only_tiers_never_vote_and_are_skipped_whole(world: World) {
    let limiter = limiter(&world);
    let id = world.id("a");
    let batch = [
        Transaction::new("gcra", &id),
        Transaction::new("prison", &id).cost(4).mode(SpendOnly),
    ];
    // The second time, there are two left.
    for (granted, left) in [(4, 2), (0, 2), (0, 2)] {
        let passed = limiter.spend_batch(&batch).await.unwrap();
        let prison = &passed.members()[1];
        assert_eq!((passed.allowed(), passed.strictest()), (true, Some(0)));
        assert_eq!((prison.granted(), prison.allowed()), (granted, granted > 0));
        assert_eq!(would_be(&limiter, "prison", &id).await.0, left);
    }
    let alone = limiter.spend(&batch[1].cost(2)).await.unwrap();
    assert_eq!((alone.granted(), alone.tier()), (2, Some(1)));
}

pub async fn strictest_is_found_across_kinds(world: World) {
    let [gcra, tiers, prison] = [Limit::per_day(10), penalty(), prison()];
    let cases = [
        ("never is longest", [&gcra, &tiers], [[10, 10], [0, 56]], 1),
        ("denied by tiers", [&gcra, &prison], [[0, 1], [6, 1]], 1),
        ("denied without", [&gcra, &prison], [[10, 1], [0, 6]], 0),
        ("longer without", [&gcra, &prison], [[10, 1], [6, 1]], 0),
        ("longer by tiers", [&tiers, &prison], [[55, 1], [6, 1]], 1),
        ("allowed, fewer", [&gcra, &tiers], [[0, 5], [0, 1]], 0),
    ];
    for (case, limits, costs, expected) in cases {
        let found = strictest(&world, case, limits.map(Limit::clone), costs).await;
        assert_eq!(found, expected, "{case}");
    }
}

pub async fn many_tiers_of_many_buckets_are_one_batch(world: World) {
    let tiers = (0..16).map(|_| {
        let tier = Tier::new(1, Duration::from_secs(60)).active(Duration::from_secs(60));
        tier.cooldown(Duration::from_secs(60))
    });
    let limiter = world.limiter([("tiers", Limit::tiers(tiers).unwrap())]);
    let ids: Vec<_> = (0..100).map(|i| world.id(&i.to_string())).collect();
    let one = |id| Transaction::new("tiers", id);
    let batch: Vec<_> = ids.iter().map(|id| one(id)).collect();
    for tier in 0..16 {
        let passed = limiter.spend_batch(&batch).await.unwrap();
        assert!(passed.members().iter().all(|one| one.tier() == Some(tier)));
    }
    assert!(!limiter.spend_batch(&batch).await.unwrap().allowed());
    limiter.reset(&batch[1..]).await.unwrap();
    let denied = limiter.spend_batch(&batch).await.unwrap();
    assert_eq!((denied.allowed(), denied.strictest()), (false, Some(0)));
    assert_eq!(would_be(&limiter, "tiers", &ids[1]).await, (16, Some(15)));
}

pub async fn denied_batch_shows_tiers_as_they_stand(world: World) {
    let limiter = limiter(&world);
    for mode in [CheckAndSpend, CheckOnly, SpendOnly] {
        let [a, b] = ["a", "b"].map(|id| world.id(&format!("{id}-{mode:?}")));
        spend(&limiter, "prison", &b, 6).await;
        let batch = [
            Transaction::new("tiers", &a).cost(9).min_cost(3).mode(mode),
            Transaction::new("gcra", &a).cost(2),
            Transaction::new("prison", &b),
        ];
        for denied in [
            limiter.check_batch(&batch).await.unwrap(),
            limiter.spend_batch(&batch).await.unwrap(),
        ] {
            let granted: Vec<_> = denied.members().iter().map(Decision::granted).collect();
            assert_eq!(granted, [0, 0, 0], "{mode:?}");
            let tiers = &denied.members()[0];
            assert_eq!(tiers.allowed(), mode.votes(), "by itself");
            assert_eq!((tiers.remaining(), tiers.tier()), (Some(55), None));
            assert_eq!(
                (tiers.next_after(), tiers.reset_after()),
                Default::default()
            );
            assert_eq!(denied.members()[1].remaining(), Some(10));
        }
    }
}
