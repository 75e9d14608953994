//! Section 3 of the design: limits with a line.

use std::{sync::Arc, time::Duration};

use super::world::{Figures, World, figures};
use crate::{
    decision::{BatchDecision, Decision},
    limit::{Limit, LimitName, Limits},
    limiter::{LimitHandle, Limiter},
    quota::Per,
    transaction::{Mode, Receipt, Transaction},
};

const SECOND: u128 = 1_000_000;
/// T is 1 s, τ is 2 s, and the line is 3 s long.
const LINE: Limit = Limit::per_second(1)
    .burst(2)
    .max_wait(Duration::from_secs(3));
/// The same limit without a line.
const TWO: Limit = Limit::per_second(1).burst(2);

fn handle(limiter: &Limiter) -> LimitHandle {
    limiter.limit("l").unwrap()
}

fn delay(decision: &Decision) -> u128 {
    decision.delay().as_micros()
}

fn delays(batch: &BatchDecision) -> Vec<u128> {
    batch.members().iter().map(delay).collect()
}

/// Spends this many times, and returns the receipts.
async fn spend(limit: &LimitHandle, id: &str, times: usize) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    for _ in 0..times {
        receipts.extend(limit.spend(id).await.unwrap().receipt());
    }
    assert_eq!(receipts.len(), times, "all are admitted");
    receipts
}

pub async fn callers_wait_in_the_order_in_which_they_came(world: World) {
    let limit = handle(&world.limiter([("l", LINE)]));
    let id = world.id("a");
    // (advance, figures, delay)
    let steps = [
        (0, figures(true, 1, 0, SECOND), 0),
        (0, figures(true, 0, 0, 2 * SECOND), 0),
        (0, figures(true, 0, 0, 3 * SECOND), SECOND),
        (0, figures(true, 0, 0, 4 * SECOND), 2 * SECOND),
        (0, figures(true, 0, SECOND, 5 * SECOND), 3 * SECOND),
        (0, figures(false, 0, SECOND, 5 * SECOND), 0),
        (999_999, figures(false, 0, 1, 4_000_001), 0),
        (1, figures(true, 0, SECOND, 5 * SECOND), 3 * SECOND),
        (2_500_000, figures(true, 0, 0, 3_500_000), 1_500_000),
        (60_000_000, figures(true, 1, 0, SECOND), 0),
    ];
    for (i, (advance, expected, waits)) in steps.into_iter().enumerate() {
        world.advance(advance);
        let decision = limit.spend(&id).await.unwrap();
        let found = (Figures::from(&decision), delay(&decision));
        assert_eq!(found, (expected, waits), "step {i}");
    }
}

pub async fn fractions_of_a_delay_are_rounded_up(world: World) {
    let seven = Limit::per_second(7).max_wait(Duration::from_micros(428_571));
    let limit = handle(&world.limiter([("l", seven)]));
    let id = world.id("a");
    spend(&limit, &id, 7).await;
    for waits in [142_858, 285_715] {
        assert_eq!(delay(&limit.spend(&id).await.unwrap()), waits);
    }
    // It would wait for 428 571 3/7 us.
    let denied = limit.spend(&id).await.unwrap();
    assert_eq!(
        (denied.allowed(), denied.retry_after().as_micros()),
        (false, 1)
    );
    world.advance(1);
    assert_eq!(delay(&limit.spend(&id).await.unwrap()), 428_571);
}

pub async fn caller_that_does_not_wait_is_denied(world: World) {
    let limit = handle(&world.limiter([("l", LINE)]));
    let id = world.id("a");
    spend(&limit, &id, 3).await;
    let denied = limit.no_wait().spend(&id).await.unwrap();
    let expected = figures(false, 0, 2 * SECOND, 3 * SECOND);
    assert_eq!(
        (Figures::from(&denied), delay(&denied)),
        (expected, 0),
        "the answer has the time until it need not wait"
    );
    let waits = limit.spend(&id).await.unwrap();
    assert_eq!(delay(&waits), 2 * SECOND, "nothing was taken");
    world.advance(4_000_000);
    let passed = limit.no_wait().spend(&id).await.unwrap();
    assert_eq!((passed.allowed(), delay(&passed)), (true, 0));
}

pub async fn only_members_that_vote_and_spend_wait(world: World) {
    let limiter = world.limiter([("l", LINE)]);
    let limit = handle(&limiter);
    // (mode, whether it passes on an empty bucket, time until full afterwards)
    let modes = [
        (Mode::CheckAndSpend, true, 3 * SECOND),
        (Mode::CheckOnly, false, 2 * SECOND),
        (Mode::SpendOnly, false, 2 * SECOND),
        (Mode::Observe, false, 2 * SECOND),
        (Mode::Debit, true, 3 * SECOND),
    ];
    for (mode, passes, left) in modes {
        let id = world.id(&format!("{mode:?}"));
        spend(&limit, &id, 2).await;
        let decision = limit.mode(mode).spend(&id).await.unwrap();
        let waits = if mode == Mode::CheckAndSpend {
            SECOND
        } else {
            0
        };
        let found = (
            decision.allowed(),
            delay(&decision),
            decision.reset_after().as_micros(),
        );
        assert_eq!(found, (passes, waits, left), "{mode:?}");
    }
}

pub async fn batch_waits_for_its_longest_delay(world: World) {
    let limiter = world.limiter([("l", LINE), ("two", TWO)]);
    let limit = handle(&limiter);
    let [a, b, c] = ["a", "b", "c"].map(|id| world.id(id));
    spend(&limit, &a, 2).await;
    spend(&limit, &b, 3).await;
    let batch = [
        limit.transaction(&a),
        limit.transaction(&b),
        Transaction::new("two", &c),
        limit.transaction(&c),
    ];
    let passed = limiter.spend_batch(&batch).await.unwrap();
    assert!(passed.allowed());
    assert_eq!(delays(&passed), [SECOND, 2 * SECOND, 0, 0]);
    assert_eq!(passed.delay().as_micros(), 2 * SECOND);
    let ids = [(&limit, &a, 4), (&limit, &b, 5), (&limit, &c, 2)];
    for (limit, id, secs) in ids {
        let next = limit.spend(id).await.unwrap();
        assert_eq!(next.reset_after().as_micros(), secs * SECOND, "{id}");
    }
}

pub async fn line_next_to_a_window_and_a_quota_in_one_batch(world: World) {
    let minute = Duration::from_secs(60);
    let quota = Limit::quota(4, Per::first_use(minute));
    let window = Limit::window(4, minute);
    let limiter = world.limiter([("l", LINE), ("window", window), ("quota", quota)]);
    let id = world.id("a");
    let batch = ["l", "window", "quota"].map(|limit| Transaction::new(limit, &id));
    let mut receipts = Vec::new();
    for waits in [0, 0, 1, 2] {
        let passed = limiter.spend_batch(&batch).await.unwrap();
        assert!(passed.allowed());
        assert_eq!(delays(&passed), [waits * SECOND, 0, 0]);
        assert_eq!(passed.delay().as_micros(), waits * SECOND);
        receipts = passed
            .members()
            .iter()
            .filter_map(Decision::receipt)
            .collect();
    }
    let left = || taken_and_left(&limiter, &batch);
    let denied = limiter.spend_batch(&batch).await.unwrap();
    assert_eq!((denied.allowed(), denied.delay()), (false, Duration::ZERO));
    assert_eq!(
        left().await,
        (4 * SECOND, Some(0), Some(0)),
        "no place is taken"
    );
    for (member, receipt) in batch.iter().zip(receipts) {
        let limit = limiter.limit(member.limit.as_str()).unwrap();
        assert!(limit.refund_receipt(&id, receipt).await.unwrap().refunded());
    }
    assert_eq!(left().await, (3 * SECOND, Some(1), Some(1)));
}

/// Returns the time until the first bucket of a batch is full, and the remaining tokens of the two others.
async fn taken_and_left(
    limiter: &Limiter,
    batch: &[Transaction<'_>; 3],
) -> (u128, Option<u32>, Option<u32>) {
    let probes = batch.map(|member| member.cost(0).mode(Mode::CheckOnly));
    let checked = limiter.check_batch(&probes).await.unwrap();
    let [first, second, third] = checked.members() else {
        panic!("there are three members")
    };
    let taken = first.reset_after().as_micros();
    (taken, second.remaining(), third.remaining())
}

pub async fn denied_batch_takes_no_place_in_line(world: World) {
    let limiter = world.limiter([("l", LINE), ("two", TWO)]);
    let limit = handle(&limiter);
    let id = world.id("a");
    spend(&limit, &id, 2).await;
    let batch = [limit.transaction(&id), Transaction::new("two", &id).cost(2)];
    limiter.spend(&Transaction::new("two", &id)).await.unwrap();
    let denied = limiter.spend_batch(&batch).await.unwrap();
    assert_eq!((denied.allowed(), denied.delay()), (false, Duration::ZERO));
    assert_eq!(delays(&denied), [0, 0]);
    assert_eq!(delay(&limit.spend(&id).await.unwrap()), SECOND);
    let no_wait = [batch[0].no_wait(), batch[1].cost(1)];
    let denied = limiter.spend_batch(&no_wait).await.unwrap();
    assert_eq!((denied.allowed(), denied.strictest()), (false, Some(0)));
}

pub async fn check_shows_the_delay_that_a_spend_would_get(world: World) {
    let limit = handle(&world.limiter([("l", LINE)]));
    let id = world.id("a");
    for _ in 0..6 {
        let checked = limit.check(&id).await.unwrap();
        assert_eq!(checked, limit.check(&id).await.unwrap());
        let spent = limit.spend(&id).await.unwrap();
        let figures = (Figures::from(&checked), delay(&checked));
        assert_eq!(figures, (Figures::from(&spent), delay(&spent)));
    }
    assert!(!limit.check(&id).await.unwrap().allowed());
}

pub async fn cost_zero_waits_for_a_line_to_pass(world: World) {
    let limit = handle(&world.limiter([("l", LINE)]));
    let id = world.id("a");
    let probe = limit.cost(0);
    for waits in [0, 0, 0, 1, 2, 3] {
        let probed = probe.spend(&id).await.unwrap();
        let expected = (true, waits * SECOND, None);
        assert_eq!(
            (probed.allowed(), delay(&probed), probed.receipt()),
            expected
        );
        limit.spend(&id).await.unwrap();
    }
    assert!(!probe.no_wait().spend(&id).await.unwrap().allowed());
    limit.cost(4).mode(Mode::Debit).spend(&id).await.unwrap();
    let denied = probe.spend(&id).await.unwrap();
    assert_eq!(
        (denied.allowed(), denied.retry_after().as_micros()),
        (false, 4 * SECOND),
        "the debt is beyond the line"
    );
}

pub async fn limit_in_shadow_mode_delays_nobody(world: World) {
    let shadow = LimitName::from("l").shadow(true);
    let limits = Limits::builder().limit(shadow, LINE).build().unwrap();
    let limiter = world.limiter_of(limits);
    let id = world.id("a");
    for would_be_denied in [false, false, true] {
        let decision = limiter.spend(&Transaction::new("l", &id)).await.unwrap();
        assert_eq!(decision.would_be_denied(), would_be_denied);
        assert_eq!((decision.allowed(), delay(&decision)), (true, 0));
    }
}

pub async fn simultaneous_callers_get_one_place_each(world: World) {
    const CALLERS: usize = 60;
    let line = Limit::per_second(10).max_wait(Duration::from_secs(5));
    let limit = Arc::new(handle(&world.limiter([("l", line)])));
    let id: Arc<str> = world.id("a").into();
    let calls = (0..CALLERS + 5).map(|_| {
        let (limit, id) = (Arc::clone(&limit), Arc::clone(&id));
        tokio::spawn(async move { limit.spend(&id).await.unwrap() })
    });
    let mut found = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        let decision = call.await.unwrap();
        found.extend(decision.allowed().then(|| delay(&decision)));
    }
    found.sort_unstable();
    let expected = (0..CALLERS as u128).map(|i| (i.saturating_sub(9)) * SECOND / 10);
    assert_eq!(found, expected.collect::<Vec<_>>());
}

pub async fn plain_refund_gives_nothing_back_into_a_line(world: World) {
    let limit = handle(&world.limiter([("l", LINE)]));
    let id = world.id("a");
    spend(&limit, &id, 4).await;
    // (advance, whether anything is given back, time until full)
    let steps = [
        (0, false, 4 * SECOND),
        (1_999_999, false, 2_000_001),
        // The last one in line starts now.
        (1, true, SECOND),
        (0, true, 0),
    ];
    for (i, (advance, refunded, left)) in steps.into_iter().enumerate() {
        world.advance(advance);
        let decision = limit.refund(&id).await.unwrap();
        let found = (decision.refunded(), decision.reset_after().as_micros());
        assert_eq!(found, (refunded, left), "step {i}");
        assert_eq!(delay(&decision), 0);
    }
}

pub async fn last_in_line_gives_its_slot_back(world: World) {
    let limit = handle(&world.limiter([("l", LINE)]));
    let id = world.id("a");
    let mut receipts = spend(&limit, &id, 5).await;
    let (last, middle) = (receipts.pop().unwrap(), receipts.remove(2));
    let lost = limit.refund_receipt(&id, middle).await.unwrap();
    assert!(!lost.refunded(), "others are behind it");
    for (receipt, left) in [(last, 4), (receipts.pop().unwrap(), 3)] {
        let refunded = limit.refund_receipt(&id, receipt).await.unwrap();
        assert!(refunded.refunded());
        assert_eq!(refunded.reset_after().as_micros(), left * SECOND);
    }
    let next = limit.spend(&id).await.unwrap();
    assert_eq!(delay(&next), 2 * SECOND, "behind the slot that was lost");
    world.advance(2_000_000);
    let early = limit.refund_receipt(&id, receipts.pop().unwrap()).await;
    assert!(early.unwrap().refunded(), "nobody waits any more");
}

pub async fn receipt_gives_back_in_parts_within_a_line(world: World) {
    let seven = Limit::per_second(7).max_wait(Duration::from_secs(9));
    let limit = handle(&world.limiter([("l", seven)]));
    let id = world.id("a");
    spend(&limit, &id, 7).await;
    let waits = limit.cost(7).spend(&id).await.unwrap();
    let mut receipt = waits.receipt().unwrap();
    for (part, left) in [(3, 1_571_429), (1, 1_428_572), (3, SECOND)] {
        let part = receipt.split(part);
        let refunded = limit.refund_receipt(&id, part).await.unwrap();
        assert!(refunded.refunded());
        assert_eq!(refunded.reset_after().as_micros(), left);
    }
    let mut receipt = limit.cost(7).spend(&id).await.unwrap().receipt().unwrap();
    let end = receipt.split(3);
    let front = limit.refund_receipt(&id, receipt).await.unwrap();
    assert!(!front.refunded(), "the end of the charge is behind it");
    let end = limit.refund_receipt(&id, end).await.unwrap();
    assert_eq!(end.reset_after().as_micros(), 1_571_429);
}

pub async fn debt_on_a_limit_with_a_line_is_a_line(world: World) {
    let limit = handle(&world.limiter([("l", LINE)]));
    let id = world.id("a");
    let debit = limit.cost(20).mode(Mode::Debit);
    let debited = debit.spend(&id).await.unwrap();
    assert_eq!(delay(&debited), 0, "a debit does not wait");
    assert!(!debit.refund(&id).await.unwrap().refunded());
    let denied = limit.spend(&id).await.unwrap();
    assert_eq!(denied.retry_after().as_micros(), 16 * SECOND);
    let receipt = debited.receipt().unwrap();
    let refunded = limit.refund_receipt(&id, receipt).await.unwrap();
    let full = figures(true, 2, 15 * SECOND, 0);
    assert_eq!(refunded, full);
}

pub async fn line_is_started_as_promised_after_a_reset(world: World) {
    let limit = handle(&world.limiter([("l", LINE)]));
    let id = world.id("a");
    let mut receipts = spend(&limit, &id, 5).await;
    limit.reset(&id).await.unwrap();
    let next = limit.spend(&id).await.unwrap();
    assert_eq!(next, figures(true, 1, 0, SECOND));
    // Requests that were in line have nothing to give back any more, but their charges are refunded as usual.
    let refunded = limit.refund_receipt(&id, receipts.pop().unwrap()).await;
    assert_eq!(refunded.unwrap().reset_after().as_micros(), 0);
}

pub async fn line_that_was_removed_is_refunded_as_usual(world: World) {
    let (with, without) = (world.limiter([("l", LINE)]), world.limiter([("l", TWO)]));
    let id = world.id("a");
    spend(&handle(&with), &id, 5).await;
    assert!(!handle(&with).refund(&id).await.unwrap().refunded());
    let refunded = handle(&without).refund(&id).await.unwrap();
    assert_eq!(
        (refunded.refunded(), refunded.reset_after().as_micros()),
        (true, 4 * SECOND)
    );
}
