//! Refunds of known charges: what a receipt gives back, and to which bucket.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::time::Duration;

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction, clock::ManualClock, limiter::LimiterError,
    tiers::Tier, transaction::Mode,
};

fn limiter_of(limit: Limit) -> Limiter {
    let limits = Limits::builder()
        .limit("l", limit)
        .limit("other", Limit::per_hour(20));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    limiter.with_clock(ManualClock::default())
}

#[tokio::test]
async fn receipt_refunds_its_charge_as_a_whole_or_in_parts() {
    let limit = limiter_of(Limit::per_hour(20)).limit("l").unwrap();
    let charged = limit.cost(7).spend("alice").await.unwrap();
    let mut receipt = charged.receipt().unwrap();
    assert_eq!((receipt.cost(), receipt.is_local()), (7, false));
    let part = receipt.split(3);
    let refunded = limit.refund_receipt("alice", part).await.unwrap();
    assert_eq!(
        (refunded.refunded(), refunded.remaining()),
        (true, Some(16))
    );
    // There is no more in it than was charged.
    let rest = receipt.split(100);
    assert_eq!((rest.cost(), receipt.cost()), (4, 0));
    let refunded = limit.refund_receipt("alice", rest).await.unwrap();
    assert_eq!(refunded.remaining(), Some(20));
    let nothing = limit.refund_receipt("alice", receipt).await.unwrap();
    assert_eq!((nothing.refunded(), nothing.remaining()), (false, Some(20)));
}

#[tokio::test]
async fn only_charges_have_receipts() {
    let limiter = limiter_of(Limit::per_hour(2));
    let limit = limiter.limit("l").unwrap();
    assert_eq!(limit.check("alice").await.unwrap().receipt(), None);
    assert_eq!(limit.cost(0).spend("alice").await.unwrap().receipt(), None);
    assert!(
        limit
            .cost(2)
            .spend("alice")
            .await
            .unwrap()
            .receipt()
            .is_some()
    );
    assert_eq!(limit.spend("alice").await.unwrap().receipt(), None);
    assert_eq!(limit.refund("alice").await.unwrap().receipt(), None);
    let batch = [
        limit.transaction("alice").mode(Mode::CheckOnly),
        Transaction::new("other", "alice")
            .mode(Mode::Debit)
            .cost(30),
    ];
    let passed = limiter.spend_batch(&batch).await.unwrap();
    let costs = |batch: &[tollgate::Decision]| -> Vec<_> {
        let receipts = batch.iter().map(tollgate::Decision::receipt);
        receipts
            .map(|receipt| receipt.map(|receipt| receipt.cost()))
            .collect()
    };
    assert_eq!(costs(passed.members()), [None, Some(30)]);
    let denied = limiter
        .spend_batch(&[batch[1], limit.cost(2).transaction("alice")])
        .await;
    assert_eq!(costs(denied.unwrap().members()), [None, None]);
    let tiers = Limit::tiers([Tier::new(5, Duration::from_secs(1))]).unwrap();
    let granted = limiter_of(tiers).limit("l").unwrap().spend("alice").await;
    assert_eq!(granted.unwrap().receipt(), None, "tiers give nothing back");
}

#[tokio::test]
async fn receipt_is_good_for_its_own_bucket_only() {
    let limiter = limiter_of(Limit::per_hour(20));
    let (limit, other) = (limiter.limit("l").unwrap(), limiter.limit("other").unwrap());
    limit.cost(5).spend("bob").await.unwrap();
    other.cost(5).spend("alice").await.unwrap();
    for (handle, id) in [(&limit, "bob"), (&other, "alice")] {
        let charged = limit.spend("alice").await.unwrap();
        let receipt = charged.receipt().unwrap();
        let error = handle.refund_receipt(id, receipt).await.unwrap_err();
        assert!(
            matches!(error, LimiterError::ForeignReceipt { .. }),
            "{error}"
        );
        assert_eq!(
            handle.cost(0).check(id).await.unwrap().remaining(),
            Some(15)
        );
    }
}

#[tokio::test]
async fn receipt_gives_back_no_more_time_than_was_charged() {
    for (per_hour, remaining) in [(20, 20), (10, 20), (40, 20)] {
        let limiter = limiter_of(Limit::per_hour(20));
        let limit = limiter.limit("l").unwrap();
        let charged = limit.cost(6).spend("alice").await.unwrap();
        let kept = limit.cost(4).spend("alice").await.unwrap();
        let other = Limit::per_hour(per_hour).burst(20);
        limiter
            .reload(Limits::builder().limit("l", other).build().unwrap())
            .unwrap();
        let receipt = charged.receipt().unwrap();
        limit.refund_receipt("alice", receipt).await.unwrap();
        let left = limit.cost(0).check("alice").await.unwrap();
        // Four tokens of three minutes each are charged at least.
        assert!(
            left.reset_after() >= Duration::from_secs(4 * 180),
            "{per_hour}"
        );
        limit
            .refund_receipt("alice", kept.receipt().unwrap())
            .await
            .unwrap();
        let left = limit.cost(0).check("alice").await.unwrap();
        let is_cheaper = per_hour > 20;
        assert_eq!(
            left.remaining() == Some(remaining),
            !is_cheaper,
            "{per_hour}: {left:?}"
        );
    }
}

#[cfg(feature = "failure-policy")]
mod during_an_outage {
    use tollgate::{backend::FailurePolicy, quota::Per};

    use super::{Duration, Limit, Limiter, Limits, ManualClock, Mode};
    use crate::support::store::{Fate, Store};

    #[tokio::test(start_paused = true)]
    async fn refund_goes_where_its_charge_went() {
        let store = Store::default();
        let limits = || {
            let limits = Limits::builder().limit("l", Limit::per_hour(10));
            limits.build().unwrap()
        };
        let clock = ManualClock::default();
        let at_the_store = Limiter::new(limits(), store.memory());
        let at_the_store = at_the_store.with_clock(clock.clone()).limit("l").unwrap();
        for part in [1, 4] {
            let policy = FailurePolicy::new(store.clone()).share(part, 4);
            let limiter = Limiter::new(limits(), policy).with_clock(clock.clone());
            let limit = limiter.limit("l").unwrap();
            let id = format!("client of {part}");
            limit.cost(5).spend(&id).await.unwrap();
            store.becomes(Fate::Fails);
            let local = limit.spend(&id).await.unwrap();
            store.becomes(Fate::Works);
            let receipt = local.receipt().unwrap();
            assert!(receipt.is_local());
            let before = local.remaining();
            let refunded = limit.refund_receipt(&id, receipt).await.unwrap();
            assert!(
                refunded.refunded() && refunded.remaining() > before,
                "{part}"
            );
            let left = at_the_store.cost(0).check(&id).await.unwrap();
            assert_eq!(left.remaining(), Some(5), "the store gave nothing back");
        }
    }

    fn limiter(store: &Store, limit: &Limit, clock: &ManualClock) -> Limiter {
        let limits = Limits::builder().limit("l", limit.clone()).build().unwrap();
        let policy = FailurePolicy::new(store.clone()).failures_in_a_row(u32::MAX);
        Limiter::new(limits, policy).with_clock(clock.clone())
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn refund_by_receipt_is_forgotten_locally_at_its_own_instant() {
        // Which of three charges is refunded, and how many requests pass in an outage before each one would end.
        for (refunded, admitted) in [(0, [1, 0, 1, 1]), (1, [1, 1, 0, 1]), (2, [1, 1, 1, 0])] {
            let (store, clock) = (Store::default(), ManualClock::default());
            let window = Limit::window(3, 100 * SECOND);
            let limit = limiter(&store, &window, &clock).limit("l").unwrap();
            let mut receipts = Vec::new();
            for _ in 0..3 {
                receipts.push(limit.spend("alice").await.unwrap().receipt().unwrap());
                clock.advance(10 * SECOND);
            }
            let given = limit.refund_receipt("alice", receipts.remove(refunded));
            assert!(given.await.unwrap().refunded());
            store.becomes(Fate::Fails);
            let mut found = Vec::new();
            for wait in [0, 70, 10, 10] {
                clock.advance(wait * SECOND);
                let mut passed = 0;
                while limit.spend("alice").await.unwrap().allowed() {
                    passed += 1;
                }
                found.push(passed);
            }
            assert_eq!(found, admitted, "charge {refunded}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refund_by_receipt_is_forgotten_locally_if_the_store_has_its_own_clock() {
        let store = Store::default();
        let window = Limit::window(3, 3600 * SECOND);
        let limits = Limits::builder().limit("l", window).build().unwrap();
        let limiter = Limiter::new(limits, FailurePolicy::new(store.clone()));
        let limit = limiter.limit("l").unwrap();
        let mut receipts = Vec::new();
        for _ in 0..3 {
            receipts.push(limit.spend("alice").await.unwrap().receipt().unwrap());
        }
        for refunded in 1..=3 {
            let text = limiter.write_receipt("l", "alice", &receipts.remove(0));
            let receipt = limiter.read_receipt("l", "alice", &text.unwrap()).unwrap();
            limit.refund_receipt("alice", receipt).await.unwrap();
            store.becomes(Fate::Fails);
            let left = limit.cost(0).check("alice").await.unwrap().remaining();
            store.becomes(Fate::Works);
            assert_eq!(left, Some(refunded));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refund_of_another_process_is_not_forgotten_here() {
        for limit in [
            Limit::window(1, 100 * SECOND),
            Limit::window(2, 100 * SECOND),
        ] {
            let (store, clock) = (Store::default(), ManualClock::default());
            let [here, there] =
                [(); 2].map(|()| limiter(&store, &limit, &clock).limit("l").unwrap());
            let theirs = there.mode(Mode::Debit).spend("alice").await.unwrap();
            clock.advance(SECOND);
            here.mode(Mode::Debit).spend("alice").await.unwrap();
            clock.advance(SECOND);
            let receipt = theirs.receipt().unwrap();
            let refunded = here.refund_receipt("alice", receipt).await.unwrap();
            assert!(refunded.refunded());
            let at_the_store = here.cost(0).check("alice").await.unwrap().remaining();
            store.becomes(Fate::Fails);
            let left = here.cost(0).check("alice").await.unwrap().remaining();
            assert_eq!(left, at_the_store, "its own unit counts");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refund_at_the_store_takes_nothing_from_local_charges() {
        for limit in [
            Limit::window(10, 100 * SECOND),
            Limit::quota(10, Per::first_use(100 * SECOND)),
            Limit::per_hour(10),
        ] {
            let (store, clock) = (Store::default(), ManualClock::default());
            let limit = limiter(&store, &limit, &clock).limit("l").unwrap();
            let lose = |is_lost| store.becomes(if is_lost { Fate::Fails } else { Fate::Works });
            limit.cost(3).spend("alice").await.unwrap();
            clock.advance(SECOND / 1000);
            lose(true);
            assert!(limit.cost(4).spend("alice").await.unwrap().allowed());
            lose(false);
            // The store has nothing more to give back than its own three. It is not charged for the outage yet.
            let refunded = limit.cost(5).refund("alice").await.unwrap();
            assert!(refunded.refunded());
            lose(true);
            let left = limit.cost(0).check("alice").await.unwrap().remaining();
            assert!(left <= Some(6), "four are charged locally: {left:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn local_receipt_gives_nothing_back_at_a_store() {
        let store = Store::default();
        let limits = Limits::builder().limit("l", Limit::per_hour(10));
        let limits = limits.build().unwrap();
        let lost = Limiter::new(limits.clone(), FailurePolicy::new(store.clone()));
        store.becomes(Fate::Fails);
        let charged = lost
            .limit("l")
            .unwrap()
            .cost(5)
            .spend("alice")
            .await
            .unwrap();
        let direct = Limiter::new(limits, store.memory()).limit("l").unwrap();
        direct.cost(5).spend("alice").await.unwrap();
        let receipt = charged.receipt().unwrap();
        let refunded = direct.refund_receipt("alice", receipt).await.unwrap();
        assert!(!refunded.refunded());
    }
}
