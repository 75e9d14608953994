//! Section 4b of the design: permits that are renewed while work runs, and come back when it ends.

use std::time::Duration;

use crate::{
    decision::{BatchDecision, Decision},
    limit::Limit,
    limiter::{Limiter, LimiterError},
    quota::Per,
    transaction::{Mode, Receipt, Transaction},
};

use super::world::World;

const SECOND: u64 = 1_000_000;

/// Two at once, each for a second.
const TWO: Limit = Limit::concurrent(2).hold(Duration::from_secs(1));

/// All that a client sees: the waits are 0 or not known.
type Seen = (bool, Option<u32>, [bool; 3]);

fn seen(decision: &Decision) -> Seen {
    let waits = [
        decision.next_after(),
        decision.retry_after(),
        decision.reset_after(),
    ];
    let is_known = waits.map(|wait| {
        assert!(wait.is_zero() || wait == Decision::NEVER, "{decision:?}");
        wait.is_zero()
    });
    (decision.allowed(), decision.remaining(), is_known)
}

async fn spend(limiter: &Limiter, bucket: &Transaction<'_>) -> Option<Receipt> {
    limiter.spend(bucket).await.unwrap().receipt()
}

async fn renew(limiter: &Limiter, bucket: &Transaction<'_>, receipt: &Receipt) -> Decision {
    limiter.renew(&bucket.of_receipt(receipt)).await.unwrap()
}

pub async fn permits_count_until_their_hold_is_over(world: World) {
    let start = world.now();
    let bucket = world.bucket(TWO);
    let spends = [
        (0, 0, (true, Some(2), [true; 3])),
        (0, 1, (true, Some(1), [true, true, false])),
        (9, 2, (false, Some(1), [false; 3])),
        (9, 1, (true, Some(0), [false, true, false])),
        (9, 1, (false, Some(0), [false; 3])),
        (9, 0, (true, Some(0), [true, true, false])),
        (SECOND - 1, 1, (false, Some(0), [false; 3])),
        (SECOND, 1, (true, Some(0), [false, true, false])),
        (SECOND + 9, 1, (true, Some(0), [false, true, false])),
        (2 * SECOND + 9, 0, (true, Some(2), [true; 3])),
    ];
    for (instant, cost, expected) in spends {
        world.set(start + instant);
        let checked = bucket.check(cost).await;
        let spent = bucket.spend(cost).await;
        assert_eq!(seen(&spent), expected, "{cost} at {instant}");
        assert_eq!(seen(&checked), expected, "{cost} at {instant}");
        assert_eq!(spent.receipt().is_some(), spent.allowed() && cost > 0);
        assert_eq!(checked.receipt(), None);
    }
}

pub async fn renewal_moves_permits_to_now(world: World) {
    let limiter = world.limiter([("l", TWO)]);
    let (id, start) = (world.id("a"), world.now());
    let bucket = Transaction::new("l", &id);
    let mut held = spend(&limiter, &bucket).await.unwrap();
    let other = spend(&limiter, &bucket).await.unwrap();
    for nth in 1..9 {
        world.set(start + nth * (SECOND - 1));
        let renewed = renew(&limiter, &bucket, &held).await;
        assert!(renewed.renewed() && renewed.allowed(), "{nth}");
        assert_eq!(renewed.remaining(), Some(u32::from(nth > 1)), "{nth}");
        let old = std::mem::replace(&mut held, renewed.receipt().unwrap());
        assert_eq!(held.cost(), 1);
        // The other permit was taken at the same instant as the first one, so its receipt would do at first.
        if nth > 1 {
            assert!(!renew(&limiter, &bucket, &old).await.renewed(), "{nth}");
        }
    }
    let expired = renew(&limiter, &bucket, &other).await;
    assert!(!expired.renewed() && expired.receipt().is_none());
    world.advance(SECOND);
    assert!(!renew(&limiter, &bucket, &held).await.renewed());
    let expired = limiter.refund(&bucket.of_receipt(&held)).await.unwrap();
    assert!(!expired.refunded());
}

pub async fn refund_by_receipt_lets_the_next_one_start(world: World) {
    let limiter = world.limiter([("l", TWO)]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let both = spend(&limiter, &bucket.cost(2)).await.unwrap();
    world.advance(7);
    let both = renew(&limiter, &bucket, &both).await.receipt().unwrap();
    assert_eq!(spend(&limiter, &bucket).await, None);
    for (allowed, remaining) in [(true, 2), (false, 2)] {
        let refunded = limiter.refund(&bucket.of_receipt(&both)).await.unwrap();
        assert_eq!(refunded.refunded(), allowed);
        assert_eq!(refunded.remaining(), Some(remaining));
    }
    assert!(!renew(&limiter, &bucket, &both).await.renewed());
    assert!(spend(&limiter, &bucket.cost(2)).await.is_some());
}

pub async fn renewal_is_of_all_permits_of_a_receipt_or_of_none(world: World) {
    let limiter = world.limiter([("l", Limit::concurrent(5))]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let mut three = spend(&limiter, &bucket.cost(3)).await.unwrap();
    let copy = limiter.write_receipt("l", &id, &three).unwrap();
    let copy = limiter.read_receipt("l", &id, &copy).unwrap();
    let one = three.split(1);
    assert!(
        limiter
            .refund(&bucket.of_receipt(&one))
            .await
            .unwrap()
            .refunded()
    );
    world.advance(5);
    let whole = renew(&limiter, &bucket, &copy).await;
    assert_eq!((whole.renewed(), whole.remaining()), (false, Some(3)));
    let rest = renew(&limiter, &bucket, &three).await;
    assert_eq!((rest.renewed(), rest.remaining()), (true, Some(3)));
}

pub async fn only_receipts_say_which_permits_are_meant(world: World) {
    let limiter = world.limiter([("l", TWO)]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    assert!(matches!(
        limiter.refund(&bucket).await.unwrap_err(),
        LimiterError::ReceiptRequired { .. }
    ));
    assert!(matches!(
        limiter.renew(&bucket).await.unwrap_err(),
        LimiterError::ReceiptRequired { .. }
    ));
    assert!(matches!(
        limiter.spend(&bucket.mode(Mode::Debit)).await.unwrap_err(),
        LimiterError::NoDebitOfPermits { .. }
    ));
    for error in [
        limiter.spend(&bucket.cost(3)).await,
        limiter.check(&bucket.cost(3)).await,
    ] {
        assert!(matches!(
            error.unwrap_err(),
            LimiterError::CostAboveBurst { burst: 2, .. }
        ));
    }
}

pub async fn only_permits_are_renewed(world: World) {
    let limits = [("l", TWO), ("gcra", Limit::per_second(5))];
    let limiter = world.limiter(limits);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let other = Transaction::new("gcra", &id);
    let receipt = spend(&limiter, &other).await.unwrap();
    for renewal in [other, other.of_receipt(&receipt)] {
        assert!(matches!(
            limiter.renew(&renewal).await.unwrap_err(),
            LimiterError::NotRenewable { .. }
        ));
    }
    assert!(matches!(
        limiter
            .renew(&bucket.of_receipt(&receipt))
            .await
            .unwrap_err(),
        LimiterError::ForeignReceipt { .. }
    ));
}

pub async fn renewals_are_independent_of_each_other(world: World) {
    let limiter = world.limiter([("l", TWO), ("m", Limit::concurrent(9))]);
    let ids = ["a", "b"].map(|id| world.id(id));
    let [a, b] = [0, 1].map(|n| Transaction::new("l", &ids[n]));
    let many = Transaction::new("m", &ids[0]);
    let gone = spend(&limiter, &a).await.unwrap();
    world.advance(SECOND);
    let here = spend(&limiter, &b).await.unwrap();
    let mut several = Vec::new();
    for cost in [1, 2, 3] {
        several.extend(spend(&limiter, &many.cost(cost)).await);
        world.advance(1);
    }
    let mut batch = vec![a.of_receipt(&gone), b.of_receipt(&here)];
    batch.extend(several.iter().map(|receipt| many.of_receipt(receipt)));
    batch.push(b.of_receipt(&here));
    let renewed = limiter.renew_batch(&batch).await.unwrap();
    let found = |renewed: &BatchDecision| -> Vec<bool> {
        renewed.members().iter().map(Decision::renewed).collect()
    };
    assert_eq!(found(&renewed), [false, true, true, true, true, false]);
    let costs: Vec<_> = renewed.members()[2..5]
        .iter()
        .map(|one| one.receipt().unwrap().cost())
        .collect();
    assert_eq!(costs, [1, 2, 3]);
    assert_eq!(limiter.check(&many).await.unwrap().remaining(), Some(2));
    assert!(limiter.renew_batch(&[]).await.unwrap().members().is_empty());
}

pub async fn permits_and_rates_are_taken_together_or_not_at_all(world: World) {
    let limits = [
        ("l", TWO),
        ("w", Limit::window(3, Duration::from_secs(60))),
        ("q", Limit::quota(9, Per::Day)),
        ("g", Limit::per_hour(9)),
    ];
    let limiter = world.limiter(limits);
    let id = world.id("a");
    let batch = ["l", "w", "q", "g"].map(|name| Transaction::new(name, &id));
    let mut held = Vec::new();
    for _ in 0..2 {
        let passed = limiter.spend_batch(&batch).await.unwrap();
        assert!(passed.allowed());
        held.extend(passed.members()[0].receipt());
    }
    let denied = limiter.spend_batch(&batch).await.unwrap();
    assert!(!denied.allowed());
    assert_eq!(
        denied.strictest(),
        Some(0),
        "an unknown wait is the longest"
    );
    assert_eq!(denied.members()[1].remaining(), Some(1));
    let back = batch[0].of_receipt(&held[0]);
    assert!(limiter.refund(&back).await.unwrap().refunded());
    assert!(limiter.spend_batch(&batch).await.unwrap().allowed());
    let back = batch[0].of_receipt(&held[1]);
    assert!(limiter.refund(&back).await.unwrap().refunded());
    // Now the window denies.
    let denied = limiter.spend_batch(&batch).await.unwrap();
    assert_eq!((denied.allowed(), denied.strictest()), (false, Some(1)));
    assert_eq!(limiter.check(&batch[0]).await.unwrap().remaining(), Some(0));
}

pub async fn permits_that_do_not_vote_are_skipped_or_only_looked_at(world: World) {
    let limiter = world.limiter([("l", TWO), ("g", Limit::per_hour(9))]);
    let id = world.id("a");
    let batch = ["l", "g"].map(|name| Transaction::new(name, &id));
    assert!(spend(&limiter, &batch[0]).await.is_some());
    let only = batch[0].mode(Mode::SpendOnly);
    let skipped = limiter
        .spend_batch(&[only.cost(2), batch[1]])
        .await
        .unwrap();
    assert!(skipped.allowed() && !skipped.members()[0].allowed());
    let look = batch[0].mode(Mode::CheckOnly);
    let looked = limiter.spend_batch(&[look, batch[1]]).await.unwrap();
    assert!(looked.allowed() && looked.members()[0].receipt().is_none());
}

pub async fn lower_limit_takes_nothing_away_and_lets_nothing_start(world: World) {
    let limiter = world.limiter([("l", Limit::concurrent(20))]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let mut held = Vec::new();
    for _ in 0..18 {
        held.extend(spend(&limiter, &bucket).await);
        world.advance(10);
    }
    let lower = world.limiter([("l", Limit::concurrent(2))]);
    for left in (1..18_u32).rev() {
        let probe = lower.spend(&bucket.cost(0)).await.unwrap();
        assert_eq!(probe.allowed(), left < 2, "{left}");
        assert_eq!(spend(&lower, &bucket).await, None, "{left}");
        let receipt = held.pop().unwrap();
        let renewed = renew(&lower, &bucket, &receipt).await;
        assert!(renewed.renewed(), "{left}");
        let receipt = renewed.receipt().unwrap();
        let refunded = lower.refund(&bucket.of_receipt(&receipt)).await.unwrap();
        assert!(refunded.refunded());
        assert_eq!(refunded.remaining(), Some(2_u32.saturating_sub(left)));
        world.advance(10);
    }
    assert!(spend(&lower, &bucket).await.is_some());
}

pub async fn reset_gives_all_permits_back(world: World) {
    let limiter = world.limiter([("l", TWO)]);
    let id = world.id("a");
    let bucket = Transaction::new("l", &id);
    let receipt = spend(&limiter, &bucket.cost(2)).await.unwrap();
    world.advance(1);
    limiter.reset(&[bucket]).await.unwrap();
    assert!(!renew(&limiter, &bucket, &receipt).await.renewed());
    assert!(spend(&limiter, &bucket.cost(2)).await.is_some());
}
