//! What users rely on without asking: types that cross threads, futures that can be spawned, traits
//! that can be boxed.

use std::{fmt::Debug, panic::UnwindSafe};

use tollgate::{
    ClientIp, Decision, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::{
        Backend, BackendError, DenyCache,
        custom::{Algorithm, Batch, BucketKey, Member, Operation, Outcome},
    },
    clock::{Clock, InvalidNow, ManualClock, SystemClock, Timestamp},
    decision::BatchDecision,
    id::Id,
    key::{Everyone, KeyExtractor, MissingId, Proxies, ProxiesError, ProxyHeader},
    layer::{Assessment, RateLimit},
    limit::{LimitError, LimitName, LimitsBuilder, LimitsError},
    limiter::{LimitHandle, LimiterError, Permit},
    transaction::{Mode, Receipt},
};

const fn shared<T: Debug + Send + Sync + Unpin + 'static>() {}
const fn cloned<T: Clone + Debug + Send + Sync + Unpin + 'static>() {}
const fn error<T: std::error::Error + Send + Sync + Unpin + 'static>() {}
const fn object<T: Debug + Send + Sync + ?Sized + 'static>() {}
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
    cloned::<(Algorithm, Mode, Operation)>();
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
    error::<InvalidNow>();
}

#[test]
fn traits_are_object_safe() {
    object::<dyn Backend>();
    object::<dyn Clock>();
    fn takes(_: Option<&dyn KeyExtractor>, _: Option<Box<dyn KeyExtractor>>) {}
    takes(None, None);
}

#[test]
fn futures_can_be_spawned() {
    fn spawnable<T>(_: impl Future<Output = T> + Send) {}
    let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
    let one = Transaction::new("requests", "alice");
    let batch = [one];
    spawnable(limiter.check(&one));
    spawnable(limiter.spend(&one));
    spawnable(limiter.refund(&one));
    spawnable(limiter.check_batch(&batch));
    spawnable(limiter.spend_batch(&batch));
    spawnable(limiter.refund_batch(&batch));
    spawnable(limiter.reset(&batch));
}

#[test]
fn layers_response_future_can_be_spawned() {
    use http::{Request, Response};
    use tower::{Layer, Service, service_fn};

    fn spawnable<T>(_: impl Future<Output = T> + Send + 'static) {}
    let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
    let inner = service_fn(|_: Request<String>| async {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    });
    let mut service = RateLimitLayer::with_limiter(limiter).layer(inner);
    spawnable(service.call(Request::new(String::new())));
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
