//! Section 4 of the design: several buckets.

use std::time::Duration;

use crate::{
    decision::Decision,
    limit::Limit,
    limiter::{Limiter, LimiterError},
    transaction::{
        Mode::{self, CheckAndSpend, CheckOnly, Debit, SpendOnly},
        Transaction,
    },
};

use super::world::{Figures, TEN, World, figures, members, spend};

/// The tokens that each client holds.
pub(super) async fn held(limiter: &Limiter, ids: &[&String]) -> Vec<Option<u32>> {
    let mut held = Vec::new();
    for id in ids {
        let probe = Transaction::new("l", id).cost(0);
        held.push(limiter.check(&probe).await.unwrap().remaining());
    }
    held
}

pub async fn check_only_votes_and_is_never_charged(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let (a, b) = (world.id("a"), world.id("b"));
    let batch = [
        Transaction::new("l", &a),
        Transaction::new("l", &b).cost(4).mode(CheckOnly),
    ];
    let passed = limiter.spend_batch(&batch).await.unwrap();
    assert!(passed.allowed());
    assert_eq!(held(&limiter, &[&a, &b]).await, [Some(9), Some(10)]);
    spend(&limiter, "l", &b, 7).await;
    let denied = limiter.spend_batch(&batch).await.unwrap();
    assert_eq!((denied.allowed(), denied.strictest()), (false, Some(1)));
    assert_eq!(held(&limiter, &[&a, &b]).await, [Some(9), Some(3)]);
}

pub async fn spend_only_never_votes_and_is_skipped_whole(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let (a, b) = (world.id("a"), world.id("b"));
    let batch = [
        Transaction::new("l", &a),
        Transaction::new("l", &b).cost(4).mode(SpendOnly),
    ];
    let steps = [
        (
            figures(true, 9, 0, 1_000_000),
            figures(true, 6, 0, 4_000_000),
        ),
        (
            figures(true, 8, 0, 2_000_000),
            figures(true, 2, 2_000_000, 8_000_000),
        ),
        (
            figures(true, 7, 0, 3_000_000),
            figures(false, 2, 2_000_000, 8_000_000),
        ),
    ];
    for (first, second) in steps {
        let passed = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!((passed.allowed(), passed.strictest()), (true, Some(0)));
        assert_eq!(members(&passed), [first, second]);
    }
    assert_eq!(held(&limiter, &[&a, &b]).await, [Some(7), Some(2)]);
    let alone = limiter.spend(&batch[1]).await.unwrap();
    assert_eq!(alone, figures(false, 2, 2_000_000, 8_000_000));
}

pub async fn debit_never_votes(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let (a, b) = (world.id("a"), world.id("b"));
    let batch = [
        Transaction::new("l", &b).cost(25).mode(Debit),
        Transaction::new("l", &a),
    ];
    for (owed, left) in [(25_000_000, 9), (50_000_000, 8)] {
        let passed = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!((passed.allowed(), passed.strictest()), (true, Some(1)));
        assert_eq!(
            passed.members()[0].reset_after(),
            Duration::from_micros(owed)
        );
        assert_eq!(passed.decision().remaining(), Some(left));
    }
    // A bucket in debt denies every voting member.
    let probe = limiter
        .spend_batch(&[Transaction::new("l", &b).cost(0)])
        .await
        .unwrap();
    assert!(!probe.allowed());
}

pub async fn denied_batch_writes_nothing_for_anyone(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let modes = [CheckAndSpend, CheckOnly, SpendOnly, Debit];
    let ids: Vec<_> = (0..5).map(|i| world.id(&i.to_string())).collect();
    for id in &ids {
        spend(&limiter, "l", id, 6).await;
    }
    for denying in [CheckAndSpend, CheckOnly] {
        for place in 0..5 {
            let mut others = modes.into_iter();
            let batch: Vec<_> = ids
                .iter()
                .enumerate()
                .map(|(i, id)| match i == place {
                    true => Transaction::new("l", id).cost(5).mode(denying),
                    false => Transaction::new("l", id).mode(others.next().unwrap()),
                })
                .collect();
            let denied = limiter.spend_batch(&batch).await.unwrap();
            assert_eq!((denied.allowed(), denied.strictest()), (false, Some(place)));
            let ids: Vec<_> = ids.iter().collect();
            assert_eq!(held(&limiter, &ids).await, [Some(4); 5]);
        }
    }
}

pub async fn batch_shows_every_member_as_it_stands(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let ids: Vec<_> = (0..6).map(|i| world.id(&i.to_string())).collect();
    for (id, spent) in ids.iter().zip([0, 2, 3, 9, 4, 9]) {
        spend(&limiter, "l", id, spent).await;
    }
    let plan = [
        (2, CheckAndSpend, figures(true, 10, 0, 0)),
        (3, CheckOnly, figures(true, 8, 0, 2_000_000)),
        (4, SpendOnly, figures(false, 7, 0, 3_000_000)),
        (4, SpendOnly, figures(false, 1, 3_000_000, 9_000_000)),
        (8, Debit, figures(false, 6, 2_000_000, 4_000_000)),
        (2, CheckAndSpend, figures(false, 1, 1_000_000, 9_000_000)),
    ];
    let batch: Vec<_> = ids
        .iter()
        .zip(&plan)
        .map(|(id, (cost, mode, _))| Transaction::new("l", id).cost(*cost).mode(*mode))
        .collect();
    for denied in [
        limiter.check_batch(&batch).await.unwrap(),
        limiter.spend_batch(&batch).await.unwrap(),
    ] {
        assert_eq!(members(&denied), plan.map(|(.., expected)| expected));
        assert_eq!((denied.allowed(), denied.strictest()), (false, Some(5)));
    }
    let passed = limiter.spend_batch(&batch[..5]).await.unwrap();
    let after = [
        figures(true, 8, 0, 2_000_000),
        figures(true, 5, 0, 5_000_000),
        figures(true, 3, 1_000_000, 7_000_000),
        figures(false, 1, 3_000_000, 9_000_000),
        figures(true, 0, 10_000_000, 12_000_000),
    ];
    assert_eq!(members(&passed), after);
}

pub async fn checked_batch_shows_what_a_spend_would_leave(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let ids: Vec<_> = (0..4).map(|i| world.id(&i.to_string())).collect();
    let modes = [CheckAndSpend, CheckOnly, SpendOnly, Debit];
    let batch: Vec<_> = ids
        .iter()
        .zip(modes)
        .map(|(id, mode)| Transaction::new("l", id).cost(4).mode(mode))
        .collect();
    for round in 0..4 {
        let checked = limiter.check_batch(&batch).await.unwrap();
        assert_eq!(checked, limiter.check_batch(&batch).await.unwrap());
        let spent = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!(checked, spent, "round {round}");
    }
}

/// Returns the strictest of two members, each on a new bucket of its own limit. Of each cost, the first is spent before. Tries
/// both orders.
pub(super) async fn strictest(
    world: &World,
    case: &str,
    limits: [Limit; 2],
    costs: [[u32; 2]; 2],
) -> usize {
    let limiter = world.limiter([("x", limits[0].clone()), ("y", limits[1].clone())]);
    let mut found = Vec::new();
    for order in [[0, 1], [1, 0]] {
        let id = world.id(&format!("{case}{order:?}"));
        let buckets = ["x", "y"].map(|name| Transaction::new(name, &id));
        for (bucket, [spent, _]) in buckets.iter().zip(costs) {
            if spent > 0 {
                let taken = limiter.spend(&bucket.cost(spent)).await.unwrap();
                assert!(taken.allowed(), "{case}");
            }
        }
        let batch = order.map(|i: usize| buckets[i].cost(costs[i][1]));
        let decided = limiter.spend_batch(&batch).await.unwrap();
        let place = decided.strictest().unwrap();
        assert_eq!(decided.decision(), &decided.members()[place]);
        found.push(order[place]);
    }
    assert_eq!(found[0], found[1], "{case}: the order decides");
    found[0]
}

pub async fn strictest_is_denied_then_waits_longer_then_has_fewer(world: World) {
    const SLOW: Limit = Limit::per_minute(1).burst(10);
    // (case, limits, cost spent before, cost spent then, the strictest member)
    let cases = [
        ("denied, shorter wait", [SLOW, TEN], [[5, 5], [10, 1]], 1),
        ("denied, longer", [TEN, TEN], [[10, 1], [10, 2]], 1),
        ("across limits", [SLOW, TEN], [[10, 1], [10, 3]], 0),
        ("allowed, longer", [TEN, TEN], [[4, 4], [0, 7]], 1),
        ("fewer", [TEN, TEN], [[2, 1], [3, 1]], 1),
        ("fewer, across", [SLOW, TEN], [[2, 1], [0, 1]], 0),
        ("denied, fewer", [TEN, TEN], [[9, 3], [8, 4]], 0),
    ];
    for (case, limits, costs, expected) in cases {
        let found = strictest(&world, case, limits, costs).await;
        assert_eq!(found, expected, "{case}");
    }
}

pub async fn strictest_compares_fractions_exactly(world: World) {
    let limit = |count, us| Limit::new(1, count, Duration::from_micros(us)).unwrap();
    // Waits that round up to the same microsecond: 333 333 1/3, 333 333 1/2 and so on.
    let third = limit(3, 1_000_000);
    let half = limit(2, 666_667);
    let just_above = limit(
        u32::MAX,
        333_333 * u64::from(u32::MAX) + u64::from(u32::MAX) / 3 + 1,
    );
    let cases = [
        ("a half is more than a third", [third.clone(), half], 1),
        ("a third is less than just above it", [third, just_above], 1),
    ];
    for (case, limits, expected) in cases {
        for costs in [[[0, 1], [0, 1]], [[1, 1], [1, 1]]] {
            let case = format!("{case}{costs:?}");
            let found = strictest(&world, &case, limits.clone(), costs).await;
            assert_eq!(found, expected, "{case}");
        }
    }
}

pub async fn batch_without_a_vote_is_not_limited(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let (a, b) = (world.id("a"), world.id("b"));
    let batch = [
        Transaction::new("l", &a).cost(6).mode(SpendOnly),
        Transaction::new("l", &b).cost(60).mode(Debit),
    ];
    for allowed in [[true, true], [false, true]] {
        let decided = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!((decided.allowed(), decided.strictest()), (true, None));
        assert_eq!(decided.decision(), &Decision::NOT_LIMITED);
        assert!(!decided.decision().limited());
        let passed: Vec<_> = decided.members().iter().map(Decision::allowed).collect();
        assert_eq!(passed, allowed);
    }
}

pub async fn batch_refunds_and_resets_each_member(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let ids: Vec<_> = (0..5).map(|i| world.id(&i.to_string())).collect();
    let plan: [(u32, Mode, Figures); 5] = [
        (6, CheckAndSpend, figures(true, 7, 0, 3_000_000)),
        (6, CheckOnly, figures(false, 4, 0, 6_000_000)),
        (6, SpendOnly, figures(true, 7, 0, 3_000_000)),
        (26, Debit, figures(true, 0, 16_000_000, 23_000_000)),
        (0, CheckAndSpend, figures(false, 10, 0, 0)),
    ];
    for (id, (spent, ..)) in ids.iter().zip(&plan) {
        let debit = Transaction::new("l", id).cost(*spent).mode(Debit);
        limiter.spend(&debit).await.unwrap();
    }
    let batch: Vec<_> = ids
        .iter()
        .zip(&plan)
        .map(|(id, (_, mode, _))| Transaction::new("l", id).cost(3).mode(*mode))
        .collect();
    let refunded = limiter.refund_batch(&batch).await.unwrap();
    assert_eq!(members(&refunded), plan.map(|(.., expected)| expected));
    assert!(refunded.refunded());
    limiter.reset(&batch).await.unwrap();
    let ids: Vec<_> = ids.iter().collect();
    assert_eq!(held(&limiter, &ids).await, [Some(10); 5]);
    assert!(!limiter.refund_batch(&batch).await.unwrap().refunded());
}

pub async fn duplicates_are_errors_at_any_size(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    for len in [2, 3, 16, 17, 18, 2000] {
        let mut ids: Vec<_> = (0..len).map(|i| world.id(&format!("{len}-{i}"))).collect();
        ids[len - 1] = ids[len / 2 - 1].clone();
        let mut batch: Vec<_> = ids.iter().map(|id| Transaction::new("l", id)).collect();
        batch[len - 1].mode = CheckOnly;
        let errors = [
            limiter.spend_batch(&batch).await.unwrap_err(),
            limiter.check_batch(&batch).await.unwrap_err(),
            limiter.refund_batch(&batch).await.unwrap_err(),
            limiter.reset(&batch).await.unwrap_err(),
        ];
        for error in errors {
            let LimiterError::DuplicateBucket { key } = error else {
                panic!("{len}: {error}");
            };
            assert_eq!(key, format!("l:{}", ids[len - 1]));
        }
        assert_eq!(
            held(&limiter, &[&ids[0], &ids[len - 1]]).await,
            [Some(10); 2],
            "{len}"
        );
    }
}

pub async fn two_thousand_members_are_one_batch(world: World) {
    let limiter = world.limiter([("l", Limit::per_hour(2))]);
    let ids: Vec<_> = (0..2000).map(|i| world.id(&i.to_string())).collect();
    let mut batch: Vec<_> = ids.iter().map(|id| Transaction::new("l", id)).collect();
    for (round, left) in [(0, 1), (1, 0)] {
        let passed = limiter.spend_batch(&batch).await.unwrap();
        assert!(passed.allowed(), "round {round}");
        assert_eq!(passed.members().len(), 2000);
        assert!(
            passed
                .members()
                .iter()
                .all(|one| one.remaining() == Some(left))
        );
    }
    limiter.reset(&batch[..1999]).await.unwrap();
    batch[7].cost = 2;
    let denied = limiter.spend_batch(&batch).await.unwrap();
    assert_eq!((denied.allowed(), denied.strictest()), (false, Some(1999)));
    assert!(
        denied.members()[..1999]
            .iter()
            .all(|one| one.remaining() == Some(2))
    );
}

pub async fn empty_batch_is_allowed(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    for decided in [
        limiter.spend_batch(&[]).await.unwrap(),
        limiter.check_batch(&[]).await.unwrap(),
        limiter.refund_batch(&[]).await.unwrap(),
    ] {
        assert!(decided.allowed() && !decided.refunded());
        assert_eq!((decided.strictest(), decided.members().len()), (None, 0));
        assert_eq!(decided.decision(), &Decision::NOT_LIMITED);
    }
    limiter.reset(&[]).await.unwrap();
}
