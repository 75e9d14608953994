//! Refunds by receipt: the units given back, and their bucket.

use std::{sync::Arc, time::Duration};

use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::ManualClock,
    limiter::LimiterError,
    quota::Per,
    tiers::Tier,
    transaction::{Mode, Receipt},
};

const HOUR: Duration = Duration::from_secs(3600);

fn limits(limit: Limit) -> Limits {
    let limits = Limits::builder().limit("l", limit);
    limits.limit("other", Limit::per_hour(20)).build().unwrap()
}

fn limiter(limit: Limit) -> Limiter {
    Limiter::new(limits(limit), MemoryBackend::new()).with_clock(ManualClock::default())
}

#[tokio::test]
async fn receipt_refunds_its_charge_as_a_whole_or_in_parts() {
    let limit = limiter(Limit::per_hour(20)).limit("l").unwrap();
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
    let limiter = limiter(Limit::per_hour(2));
    let limit = limiter.limit("l").unwrap();
    assert_eq!(limit.check("alice").await.unwrap().receipt(), None);
    assert_eq!(limit.peek("alice").await.unwrap().receipt(), None);
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
    let refunded = limiter.refund(&limit.transaction("alice")).await.unwrap();
    assert_eq!(refunded.receipt(), None);
    let costs = async |batch: [Transaction<'_>; 2]| -> Vec<_> {
        let decided = limiter.spend_batch(&batch).await.unwrap();
        let receipts = decided.members().iter().map(Decision::receipt);
        receipts
            .map(|receipt| receipt.map(|receipt| receipt.cost()))
            .collect()
    };
    let looks = limit.transaction("alice").mode(Mode::CheckOnly);
    let debit = Transaction::new("other", "alice")
        .mode(Mode::Debit)
        .cost(30);
    assert_eq!(costs([looks, debit]).await, [None, Some(30)]);
    assert_eq!(
        costs([debit, looks.mode(Mode::CheckAndSpend).cost(2)]).await,
        [None, None]
    );
    let tiers = Limit::tiers([Tier::new(5, HOUR)]).unwrap();
    let granted = self::limiter(tiers)
        .limit("l")
        .unwrap()
        .spend("alice")
        .await;
    assert_eq!(granted.unwrap().receipt(), None, "tiers give nothing back");
}

#[tokio::test]
async fn only_permits_are_renewed() {
    let one = Transaction::new("l", "a");
    for limit in [
        Limit::per_hour(4),
        Limit::window(4, HOUR),
        Limit::quota(4, Per::Hour),
    ] {
        let limiter = limiter(limit);
        let receipt = limiter.spend(&one).await.unwrap().receipt().unwrap();
        let renewal = one.of_receipt(&receipt);
        for mode in [Mode::CheckAndSpend, Mode::CheckOnly] {
            let error = limiter.renew(&[renewal.mode(mode)]).await.unwrap_err();
            assert!(matches!(error, LimiterError::Unsupported { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn permits_are_renewed_and_given_back_by_their_receipts_only() {
    let (limiter, one) = (limiter(Limit::concurrent(4)), Transaction::new("l", "a"));
    let receipt = limiter.spend(&one).await.unwrap().receipt().unwrap();
    let renewal = one.of_receipt(&receipt);
    for (renewal, renews) in [(renewal, true), (renewal.mode(Mode::CheckOnly), false)] {
        let renewed = limiter.renew(&[renewal]).await.unwrap();
        assert_eq!(renewed.members()[0].renewed(), renews);
    }
    for error in [
        limiter.refund(&one).await.unwrap_err(),
        limiter.renew(&[one]).await.unwrap_err(),
    ] {
        assert!(
            matches!(error, LimiterError::InvalidReceipt { .. }),
            "{error}"
        );
    }
}

#[tokio::test]
async fn receipt_is_good_for_its_own_bucket_only() {
    let limiter = limiter(Limit::per_hour(20));
    let (limit, other) = (limiter.limit("l").unwrap(), limiter.limit("other").unwrap());
    limit.cost(5).spend("bob").await.unwrap();
    other.cost(5).spend("alice").await.unwrap();
    for (handle, id) in [(&limit, "bob"), (&other, "alice")] {
        let receipt = limit.spend("alice").await.unwrap().receipt().unwrap();
        let error = handle.refund_receipt(id, receipt).await.unwrap_err();
        assert!(
            matches!(error, LimiterError::InvalidReceipt { .. }),
            "{error}"
        );
        assert_eq!(handle.peek(id).await.unwrap().remaining(), Some(15));
    }
}

#[tokio::test]
async fn receipt_of_another_algorithm_gives_nothing_back() {
    for other in [
        Limit::window(20, HOUR),
        Limit::concurrent(20),
        Limit::tiers([Tier::new(20, HOUR)]).unwrap(),
    ] {
        let limiter = limiter(Limit::per_hour(20));
        let limit = limiter.limit("l").unwrap();
        let charged = limit.cost(6).spend("alice").await.unwrap();
        limiter.reload(limits(other)).unwrap();
        limit.cost(8).spend("alice").await.unwrap();
        let receipt = charged.receipt().unwrap();
        let refunded = limit.refund_receipt("alice", receipt).await.unwrap();
        assert_eq!(
            (refunded.refunded(), refunded.remaining()),
            (false, Some(12))
        );
    }
}

#[tokio::test]
async fn receipt_as_text_is_refunded_by_another_limiter_on_the_same_backend() {
    for limit in [
        Limit::per_hour(20),
        Limit::window(20, HOUR),
        Limit::quota(20, Per::Hour),
        Limit::concurrent(20),
    ] {
        let (backend, clock) = (Arc::new(MemoryBackend::new()), ManualClock::default());
        let [ours, theirs] = [(); 2].map(|()| {
            let limiter = Limiter::new(limits(limit.clone()), Arc::clone(&backend));
            limiter.with_clock(clock.clone()).limit("l").unwrap()
        });
        let charged = ours.cost(3).spend("alice").await.unwrap();
        let text = serde_json::to_string(&charged.receipt().unwrap()).unwrap();
        assert!(!text.contains("alice"), "{text}");
        let read: Receipt = serde_json::from_str(&text).unwrap();
        assert_eq!(Some(&read), charged.receipt().as_ref());
        let refunded = theirs.refund_receipt("alice", read).await.unwrap();
        assert_eq!(
            (refunded.refunded(), refunded.remaining()),
            (true, Some(20)),
            "{limit}"
        );
    }
}
