//! Users can rely on auto traits: types can be sent to other threads, errors can be boxed, and `Debug` is readable.

use std::{fmt::Debug, panic::UnwindSafe};

use tollgate::{
    ClientIp, Decision, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::{
        BackendError, DenyCache,
        custom::{AlgorithmKey, Batch, BucketKey, Member, Operation, Outcome},
    },
    clock::{ManualClock, SystemClock, Timestamp},
    decision::BatchDecision,
    id::Id,
    key::{Everyone, MissingId, Proxies, ProxiesError, ProxyHeader},
    layer::{Assessment, RateLimit},
    limit::{LimitError, LimitName, LimitsBuilder, LimitsError},
    limiter::{LimitHandle, LimiterError, Permit},
    transaction::{Mode, Receipt},
};

const fn shared<T: Debug + Send + Sync + Unpin + 'static>() {}
const fn cloned<T: Clone + Debug + Send + Sync + Unpin + 'static>() {}
const fn error<T: std::error::Error + Send + Sync + Unpin + 'static>() {}
const fn unwinds<T: UnwindSafe>() {}

#[test]
fn types_are_shared_between_threads() {
    cloned::<Limiter>();
    cloned::<RateLimitLayer>();
    cloned::<RateLimit<()>>();
    cloned::<Limits>();
    cloned::<Limit>();
    cloned::<LimitName>();
    cloned::<Rule>();
    cloned::<ClientIp>();
    cloned::<Proxies>();
    cloned::<ProxyHeader>();
    cloned::<Id>();
    cloned::<Decision>();
    cloned::<BatchDecision>();
    cloned::<Assessment>();
    cloned::<Outcome>();
    cloned::<SystemClock>();
    cloned::<ManualClock>();
    cloned::<Timestamp>();
    cloned::<(AlgorithmKey, Mode, Operation)>();
    shared::<(LimitHandle, Permit, Receipt)>();
    cloned::<(Transaction<'_>, Member<'_>, BucketKey<'_>, Batch<'_>)>();
    shared::<MemoryBackend>();
    shared::<LimitsBuilder>();
    shared::<Result<Option<Id>, MissingId>>();
    unwinds::<Decision>();
}

#[test]
fn errors_can_be_boxed_anywhere() {
    error::<BackendError>();
    error::<LimiterError>();
    error::<LimitsError>();
    error::<ProxiesError>();
    error::<LimitError>();
}

#[test]
fn debug_of_a_whole_limiter_is_no_wall_of_text() {
    let add = |limits: LimitsBuilder, n| {
        limits.override_for("requests", &format!("account-{n}"), Limit::per_hour(100))
    };
    let builder = Limits::builder().limit("requests", Limit::per_hour(20));
    let builder = (0..1000).fold(builder, add);
    let limits = builder.build().unwrap();
    let limiter = Limiter::new(limits.clone(), DenyCache::new(MemoryBackend::new()));
    let layer = RateLimitLayer::with_limiter(limiter.clone()).rule(Rule::new("requests", Everyone));
    let handle = limiter.limit("requests").unwrap();
    for text in [
        format!("{builder:?}"),
        format!("{limits:?}"),
        format!("{limiter:?}"),
        format!("{handle:?}"),
        format!("{layer:?}"),
    ] {
        assert!(text.len() < 2000, "{} bytes: {text:.200}", text.len());
        assert!(!text.contains("account-"), "{text}");
    }
}
