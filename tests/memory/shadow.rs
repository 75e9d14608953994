//! Decisions without a refusal or without a bucket: shadow mode, clients that are blocked or unlimited, peeks and resets.

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::ManualClock,
    limit::{LimitName, LimitsBuilder},
    limiter::LimiterError,
    transaction::Mode,
};

fn limiter(limits: &LimitsBuilder) -> Limiter {
    let limits = limits.build().unwrap();
    Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default())
}

/// `l`: two each hour, but `never` is blocked and `always` unlimited.
fn exceptions() -> LimitsBuilder {
    Limits::builder()
        .limit("l", Limit::per_hour(2))
        .limit("other", Limit::per_hour(5))
        .override_for("l", "never", Limit::BLOCKED)
        .override_for("l", "always", Limit::UNLIMITED)
}

#[tokio::test]
async fn blocked_client_is_denied_for_ever() {
    let limiter = limiter(&exceptions());
    let never = Transaction::new("l", "never");
    limiter.reset(&[never]).await.unwrap();
    for cost in [0, 1, 1_000] {
        let decision = limiter.spend(&never.cost(cost)).await.unwrap();
        assert!(!decision.allowed() && decision.limited() && decision.blocked());
        assert_eq!(
            (decision.remaining(), decision.algorithm()),
            (Some(0), None)
        );
        assert_eq!(
            (decision.retry_after(), decision.reset_after()),
            (None, None)
        );
    }
    let refunded = limiter.refund(&never).await.unwrap();
    assert!(!refunded.refunded() && !refunded.allowed());
}

#[tokio::test]
async fn blocked_client_takes_nothing_from_others() {
    let limiter = limiter(&exceptions());
    let (other, never) = (
        Transaction::new("other", "x"),
        Transaction::new("l", "never"),
    );
    let denied = limiter.spend_batch(&[other, never]).await.unwrap();
    assert_eq!((denied.allowed(), denied.strictest()), (false, Some(1)));
    assert_eq!(limiter.peek(&other).await.unwrap().remaining(), Some(5));
    // Without a vote, it stands in nobody's way.
    let batch = [other, never.mode(Mode::SpendOnly)];
    let decision = limiter.spend_batch(&batch).await.unwrap();
    assert!(decision.allowed() && !decision.members()[1].allowed());
    assert_eq!(decision.members()[0].remaining(), Some(4));
}

#[tokio::test]
async fn unlimited_client_is_not_counted_and_a_default_can_block_all_others() {
    let limiter = limiter(&exceptions());
    for cost in [1, u32::MAX] {
        let always = Transaction::new("l", "always").cost(cost);
        let decision = limiter.spend(&always).await.unwrap();
        assert!(decision.allowed() && !decision.limited());
    }
    assert_eq!(limiter.stats().buckets, Some(0));
    let members = Limits::builder().limit("l", Limit::BLOCKED);
    let members = self::limiter(&members.override_for("l", "member", Limit::per_hour(1)));
    let spend = async |id| members.spend(&Transaction::new("l", id)).await.unwrap();
    assert!(spend("stranger").await.blocked());
    assert!(spend("member").await.allowed() && !spend("member").await.allowed());
}

#[tokio::test]
async fn shadow_decides_and_charges_and_never_refuses() {
    let shadow = LimitName::from("l").shadow(true);
    let limits = Limits::builder()
        .limit(shadow, Limit::per_hour(2))
        .limit("real", Limit::per_hour(4))
        .override_for("l", "never", Limit::BLOCKED);
    let limiter = limiter(&limits);
    let batch = [Transaction::new("l", "x"), Transaction::new("real", "x")];
    for passed in [true, true, false, false] {
        let decision = limiter.spend_batch(&batch).await.unwrap();
        assert!(decision.allowed());
        assert_eq!(
            decision.strictest(),
            Some(1),
            "the client sees the other one"
        );
        let shadow = &decision.members()[0];
        assert_eq!(
            (shadow.allowed(), shadow.would_be_denied()),
            (true, !passed)
        );
        assert_eq!(shadow.granted(), u32::from(passed));
    }
    assert!(!limiter.spend_batch(&batch).await.unwrap().allowed());
    let one = Transaction::new("l", "x");
    for transaction in [
        one,
        one.mode(Mode::CheckOnly),
        one.cost(3),
        Transaction::new("l", "never"),
    ] {
        let decision = limiter.spend(&transaction).await.unwrap();
        assert!(decision.allowed() && decision.would_be_denied());
    }
}

#[tokio::test]
async fn peek_shows_the_bucket_and_charges_nothing() {
    let limiter = limiter(&exceptions());
    let one = Transaction::new("l", "x");
    for left in [2, 1, 0] {
        for mode in [Mode::CheckAndSpend, Mode::Debit, Mode::Observe] {
            let peeked = limiter.peek(&one.mode(mode)).await.unwrap();
            assert_eq!((peeked.remaining(), peeked.granted()), (Some(left), 0));
            assert_eq!(peeked.allowed(), left > 0);
        }
        limiter.spend(&one).await.unwrap();
    }
    let (banned, vip) = (
        Transaction::new("l", "never"),
        Transaction::new("l", "always"),
    );
    assert!(limiter.peek(&banned).await.unwrap().blocked());
    assert!(!limiter.peek(&vip).await.unwrap().limited());
    assert!(
        limiter.peek(&one.cost(3)).await.is_err(),
        "it could never pass"
    );
}

#[tokio::test]
async fn reset_fills_all_buckets_of_its_batch_or_none() {
    let limiter = limiter(&exceptions());
    let both = [Transaction::new("l", "x"), Transaction::new("other", "x")];
    limiter.spend_batch(&both).await.unwrap();
    let left = async || {
        let peeked = [limiter.peek(&both[0]).await, limiter.peek(&both[1]).await];
        peeked.map(|one| one.unwrap().remaining())
    };
    let unknown = [both[0], Transaction::new("nothing", "x")];
    assert!(limiter.reset(&unknown).await.is_err());
    let twice = limiter.reset(&[both[0], both[0]]).await.unwrap_err();
    assert!(
        matches!(twice, LimiterError::DuplicateBucket { .. }),
        "{twice}"
    );
    assert_eq!(left().await, [Some(1), Some(4)]);
    // Whatever their costs and modes.
    let costly = both.map(|one| one.cost(900).mode(Mode::CheckOnly));
    limiter.reset(&costly).await.unwrap();
    assert_eq!(left().await, [Some(2), Some(5)]);
}
