//! Limits that refuse no client, and clients that are always refused.

use crate::{
    decision::Decision,
    limit::{Limit, LimitName, Limits},
    transaction::{
        Mode::{CheckOnly, Observe},
        Transaction,
    },
};

use super::{
    batch::held,
    world::{TEN, World, spend},
};

pub async fn observed_bucket_neither_votes_nor_is_charged(world: World) {
    let limiter = world.limiter([("l", TEN)]);
    let (a, b) = (world.id("a"), world.id("b"));
    let batch = [
        Transaction::new("l", &a),
        Transaction::new("l", &b).cost(4).mode(Observe),
    ];
    let passed = limiter.spend_batch(&batch).await.unwrap();
    assert_eq!((passed.allowed(), passed.strictest()), (true, Some(0)));
    assert!(passed.members()[1].allowed());
    assert_eq!(passed.members()[1].remaining(), Some(6));
    spend(&limiter, "l", &b, 7).await;
    let passed = limiter.spend_batch(&batch).await.unwrap();
    assert!(passed.allowed() && !passed.members()[1].allowed());
    assert_eq!(held(&limiter, &[&a, &b]).await, [Some(8), Some(3)]);
    assert!(!limiter.refund(&batch[1]).await.unwrap().refunded());
    assert_eq!(held(&limiter, &[&b]).await, [Some(3)]);
}

pub async fn limit_in_shadow_mode_is_charged_and_refuses_nobody(world: World) {
    let shadow = LimitName::from("shadow").shadow(true);
    let limits = Limits::builder()
        .limit(shadow, Limit::per_hour(2))
        .limit("l", Limit::per_hour(3));
    let limiter = world.limiter_of(limits.build().unwrap());
    let id = world.id("a");
    let batch = [Transaction::new("shadow", &id), Transaction::new("l", &id)];
    for would_be_denied in [false, false, true] {
        let passed = limiter.spend_batch(&batch).await.unwrap();
        assert_eq!((passed.allowed(), passed.strictest()), (true, Some(1)));
        let shadow = &passed.members()[0];
        assert_eq!(shadow.would_be_denied(), would_be_denied);
        assert_eq!(shadow.granted(), u32::from(!would_be_denied));
    }
    assert!(!limiter.spend_batch(&batch).await.unwrap().allowed());
    let checked = batch[0].mode(CheckOnly);
    let alone = limiter.spend(&checked).await.unwrap();
    assert!(alone.allowed() && alone.would_be_denied());
}

pub async fn blocked_client_denies_its_batch_and_takes_nothing(world: World) {
    let (id, blocked) = (world.id("a"), world.id("b"));
    let limits = Limits::builder()
        .limit("l", TEN)
        .override_for("l", &blocked, Limit::BLOCKED);
    let limiter = world.limiter_of(limits.build().unwrap());
    let batch = [Transaction::new("l", &id), Transaction::new("l", &blocked)];
    let denied = limiter.spend_batch(&batch).await.unwrap();
    assert_eq!((denied.allowed(), denied.strictest()), (false, Some(1)));
    assert_eq!(denied.decision().retry_after(), Decision::NEVER);
    limiter.reset(&batch).await.unwrap();
    assert!(!limiter.check_batch(&batch).await.unwrap().allowed());
    assert_eq!(held(&limiter, &[&id, &blocked]).await, [Some(10), Some(0)]);
}
