//! Clients that are blocked or unlimited, and limits in shadow mode, as the engine decides them.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::ManualClock,
    limit::{Language, LimitName, LimitsBuilder},
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
        assert_eq!(decision.remaining(), Some(0));
        assert_eq!(decision.retry_after(), Decision::NEVER);
        assert_eq!(decision.reset_after(), Decision::NEVER);
        assert_eq!(decision.algorithm(), None);
    }
    let refunded = limiter.refund(&never).await.unwrap();
    assert!(!refunded.refunded() && !refunded.allowed());
}

#[tokio::test]
async fn blocked_client_takes_nothing_from_others() {
    let limiter = limiter(&exceptions());
    let other = Transaction::new("other", "x");
    let batch = [other, Transaction::new("l", "never")];
    let decision = limiter.spend_batch(&batch).await.unwrap();
    assert!(!decision.allowed());
    assert_eq!(decision.strictest(), Some(1));
    assert_eq!(limiter.check(&other).await.unwrap().remaining(), Some(4));
    // Without a vote, it stands in nobody's way.
    let batch = [other, Transaction::new("l", "never").mode(Mode::SpendOnly)];
    let decision = limiter.spend_batch(&batch).await.unwrap();
    assert!(decision.allowed() && !decision.members()[1].allowed());
    assert_eq!(decision.members()[0].remaining(), Some(4));
}

#[tokio::test]
async fn unlimited_client_is_not_counted() {
    let limiter = limiter(&exceptions());
    for cost in [1, u32::MAX] {
        let always = Transaction::new("l", "always").cost(cost);
        assert_eq!(limiter.spend(&always).await.unwrap(), Decision::NOT_LIMITED);
    }
}

#[tokio::test]
async fn default_that_blocks_lets_the_listed_pass() {
    let members = Limits::builder().limit("l", Limit::BLOCKED).override_for(
        "l",
        "member",
        Limit::per_hour(1),
    );
    let limiter = limiter(&members);
    let spend = async |id| limiter.spend(&Transaction::new("l", id)).await.unwrap();
    assert!(spend("stranger").await.blocked());
    assert!(spend("member").await.allowed());
    assert!(!spend("member").await.allowed());
}

#[test]
fn files_say_unlimited_blocked_and_shadow() {
    let defaults = r#"{
        "l": {"burst": 1, "count": 1, "period": "1h", "shadow": true,
              "description": "new orders", "docs": "https://example.com/limits#l"},
        "off": {"unlimited": true}
    }"#;
    let overrides =
        r#"[{"l": {"blocked": true, "ids": ["a"]}}, {"l": {"unlimited": true, "ids": ["b"]}}]"#;
    let read = |defaults: &str, overrides: &str| {
        Limits::builder()
            .defaults_text(Language::Json, defaults)
            .overrides_text(Language::Json, overrides)
            .build()
            .unwrap()
    };
    let limits = read(defaults, overrides);
    let named = limits.get("l").unwrap();
    assert!(limits.is_shadow(named));
    assert_eq!(named.name.described(), Some("new orders"));
    assert_eq!(
        named.name.documented(),
        Some("https://example.com/limits#l")
    );
    let own: Vec<_> = named.overrides().map(|own| own.limit.clone()).collect();
    assert_eq!(own, [Limit::BLOCKED, Limit::UNLIMITED]);
    let off = limits.get("off").unwrap();
    assert_eq!(off.limit, Some(Limit::UNLIMITED));

    let text = |limits: &Limits| {
        let defaults = serde_json::to_string(&limits.as_defaults()).unwrap();
        let overrides = serde_json::to_string(&limits.as_overrides()).unwrap();
        (defaults, overrides)
    };
    let (defaults, overrides) = text(&limits);
    assert_eq!(text(&read(&defaults, &overrides)), (defaults, overrides));
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let refused = |text: &str| {
        let limits = Limits::builder().defaults_text(Language::Json, text);
        limits.build().unwrap_err().to_string()
    };
    // Whoever says what a limit is not has said nothing of what it is.
    for no in ["unlimited", "blocked"] {
        let error = refused(&format!(r#"{{"l": {{"{no}": false}}}}"#));
        assert!(
            error.starts_with("limits:1: limit `l`: burst is missing: "),
            "{error}"
        );
    }
    let docs = "limits:1: limit `l`: docs is `/limits`: write a link with its scheme, such as \
                `https://example.com/limits`";
    assert_eq!(refused(r#"{"l": {"docs": "/limits"}}"#), docs);
}

#[tokio::test]
async fn shadow_decides_and_charges_and_never_refuses() {
    let name = || LimitName::from("l").shadow(true);
    let limits = Limits::builder()
        .limit(name(), Limit::per_hour(2))
        .limit("real", Limit::per_hour(4))
        .override_for("l", "never", Limit::BLOCKED);
    let limiter = limiter(&limits);
    let batch = [Transaction::new("l", "x"), Transaction::new("real", "x")];
    for passed in [true, true, false, false] {
        let decision = limiter.spend_batch(&batch).await.unwrap();
        assert!(decision.allowed());
        // The client sees the other one.
        assert_eq!(decision.strictest(), Some(1));
        let shadow = &decision.members()[0];
        assert!(shadow.allowed());
        assert_eq!(shadow.would_be_denied(), !passed);
        assert_eq!(shadow.granted(), u32::from(passed));
    }
    assert!(!limiter.spend_batch(&batch).await.unwrap().allowed());
    for transaction in [
        Transaction::new("l", "x"),
        Transaction::new("l", "x").mode(Mode::CheckOnly),
        Transaction::new("l", "x").cost(3),
        Transaction::new("l", "never"),
    ] {
        let decision = limiter.spend(&transaction).await.unwrap();
        assert!(decision.allowed() && decision.would_be_denied());
    }
}

#[tokio::test]
async fn all_limits_are_put_in_shadow_and_taken_out_by_a_reload() {
    let limits = |shadow| {
        Limits::builder()
            .limit("l", Limit::per_hour(1))
            .shadow(shadow)
    };
    let limiter = limiter(&limits(true));
    let one = Transaction::new("l", "x");
    for passed in [true, false] {
        let decision = limiter.spend(&one).await.unwrap();
        assert!(decision.allowed());
        assert_eq!(decision.would_be_denied(), !passed);
    }
    limiter.reload(limits(false).build().unwrap()).unwrap();
    assert!(!limiter.spend(&one).await.unwrap().allowed());
    let error = limiter.spend(&one.cost(2)).await.unwrap_err();
    assert!(matches!(error, LimiterError::CostAboveBurst { .. }));
}
