//! The cases to count. Each case first runs until it is warm, and then a number of times in a function whose name
//! callgrind looks for.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    hint::black_box,
    net::{IpAddr, SocketAddr},
    pin::pin,
    process::ExitCode,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::ConnectInfo,
};
use governor::Quota;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::{
        Backend,
        custom::{Batch, Member, Operation},
    },
    layer::LimitAssessment,
    quota::Per,
    response::Headers,
    tiers::Tier,
    transaction::Mode,
};
use tower::{Layer, Service, service_fn};
use tower_governor::{
    GovernorLayer,
    governor::{GovernorConfig, GovernorConfigBuilder},
    key_extractor::PeerIpKeyExtractor,
};

/// The number of counted runs of a case.
pub(crate) const RUNS: u64 = 1000;
/// The number of runs before that. A layer examines its first 10,000 requests for mistakes.
const WARM_UP: usize = 12_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Bare,
    BareRealistic,
    Plain,
    Extension,
    XRateLimit,
    Default,
    Realistic,
    Denied,
    /// An extension of the request, without a limit.
    Inserted,
    /// The two fields of an allowed request, without a limit.
    Fields,
    /// The refusal of a request, without a limit.
    Refusal,
    PeerPlain,
    PeerHeaders,
    PeerRealistic,
    PeerDenied,
    Governor,
    Backend,
    Handle,
    Name,
    Tiers,
    /// A unit of a window.
    Window,
    /// A permit that is taken and given back.
    Permit,
    /// The same without its background: a spend and the refund of its receipt.
    PermitReceipt,
    /// A batch of so many limits, by name.
    Names(usize),
    /// Rules for so many limits, with fields.
    Rules(usize),
    /// The same, if the last limit denies the request.
    DeniedRules(usize),
    /// Rules without fields.
    PlainRules(usize),
    PlainQuota,
    PlainWindow,
    PlainTiers,
    PlainPermits,
}

impl Case {
    const ALL: [Self; 34] = [
        Self::Bare,
        Self::BareRealistic,
        Self::Plain,
        Self::Extension,
        Self::XRateLimit,
        Self::Default,
        Self::Realistic,
        Self::Denied,
        Self::Inserted,
        Self::Fields,
        Self::Refusal,
        Self::PeerPlain,
        Self::PeerHeaders,
        Self::PeerRealistic,
        Self::PeerDenied,
        Self::Governor,
        Self::Backend,
        Self::Handle,
        Self::Name,
        Self::Tiers,
        Self::Window,
        Self::Permit,
        Self::PermitReceipt,
        Self::Names(2),
        Self::Names(4),
        Self::Rules(2),
        Self::Rules(4),
        Self::DeniedRules(4),
        Self::PlainRules(2),
        Self::PlainRules(4),
        Self::PlainQuota,
        Self::PlainWindow,
        Self::PlainTiers,
        Self::PlainPermits,
    ];

    pub(crate) fn name(self) -> String {
        format!("{self:?}")
    }
}

/// Runs the case of this name.
pub(crate) fn run(name: &str) -> ExitCode {
    let Some(case) = Case::ALL.into_iter().find(|case| case.name() == name) else {
        eprintln!("no case is named {name}: use one of {:?}", Case::ALL);
        return ExitCode::FAILURE;
    };
    match case {
        Case::Bare => serve(bare(), request),
        Case::BareRealistic => serve(page(), realistic),
        Case::Plain => serve(plain(layer(large())).layer(bare()), request),
        Case::Extension => serve(
            plain(layer(large())).extensions(true).layer(bare()),
            request,
        ),
        Case::XRateLimit => {
            let layer = layer(large()).headers(Headers::XRateLimitDelta);
            serve(layer.layer(bare()), request)
        }
        Case::Default => serve(layer(large()).layer(bare()), request),
        Case::Realistic => serve(layer(large()).layer(page()), realistic),
        Case::Denied => serve(layer(Limit::per_day(1)).layer(bare()), request),
        Case::Inserted => serve(inserting(), request),
        Case::Fields => serve(with_fields(), request),
        Case::Refusal => serve(refusing(), request),
        Case::PeerPlain => serve(peer(plain_peer()).layer(bare()), request),
        Case::PeerHeaders => serve(headers_peer().layer(bare()), request),
        Case::PeerRealistic => serve(headers_peer().layer(page()), realistic),
        Case::PeerDenied => serve(denied_peer(), request),
        Case::Governor => governor(),
        Case::Backend => backend(),
        Case::Handle => handle(large()),
        Case::Name => name_of_limit(),
        Case::Tiers => handle(tiers()),
        Case::Window => handle(window()),
        Case::Permit => in_runtime(permit),
        Case::PermitReceipt => permit_receipt(),
        Case::Names(limits) => names(limits),
        Case::Rules(limits) => serve(rules(limits, large()).layer(bare()), request),
        Case::DeniedRules(limits) => {
            serve(rules(limits, Limit::per_day(1)).layer(bare()), request);
        }
        Case::PlainRules(limits) => serve(plain(rules(limits, large())).layer(bare()), request),
        Case::PlainQuota => serve(plain(layer(quota())).layer(bare()), request),
        Case::PlainWindow => serve(plain(layer(window())).layer(bare()), request),
        Case::PlainTiers => serve(plain(layer(short_tiers())).layer(bare()), request),
        Case::PlainPermits => {
            in_runtime(|| serve(plain(layer(permits())).layer(bare()), request));
        }
    }
    ExitCode::SUCCESS
}

/// A limit that denies nothing here.
fn large() -> Limit {
    Limit::per_second(1_000_000).burst(1_000_000_000)
}

fn tiers() -> Limit {
    let tiers = [Tier::new(4000, Duration::from_secs(1_000_000))];
    Limit::tiers(tiers).expect("a tier has a limit and a window")
}

/// Tiers with a window so short that only a few units count at a time.
fn short_tiers() -> Limit {
    let tiers = [Tier::new(4000, Duration::from_millis(1))];
    Limit::tiers(tiers).expect("a tier has a limit and a window")
}

fn window() -> Limit {
    Limit::window(4096, Duration::from_millis(1))
}

fn permits() -> Limit {
    Limit::concurrent(4)
}

/// Runs a case where tasks can renew permits. None is due.
fn in_runtime(run: impl FnOnce()) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().expect("a runtime starts");
    let _entered = runtime.enter();
    run();
}

fn quota() -> Limit {
    Limit::quota(u32::MAX, Per::Day)
}

fn layer(limit: Limit) -> RateLimitLayer {
    RateLimitLayer::new(limit, ClientIp::peer())
}

/// Returns the layer without fields.
fn plain(layer: RateLimitLayer) -> RateLimitLayer {
    layer.headers(Headers::None)
}

const NAMES: [&str; 4] = ["address", "account", "route", "tenant"];

/// A limiter with so many limits, the last of them this one.
fn several(limits: usize, last: Limit) -> Limiter {
    let others = NAMES[..limits - 1].iter().map(|name| (*name, large()));
    let all = others.chain([(NAMES[limits - 1], last)]);
    let limits = all.fold(Limits::builder(), |limits, (name, limit)| {
        limits.limit(name, limit)
    });
    let limits = limits.build().expect("the limits are valid");
    Limiter::new(limits, MemoryBackend::new())
}

fn rules(limits: usize, last: Limit) -> RateLimitLayer {
    let layer = RateLimitLayer::with_limiter(several(limits, last));
    NAMES[..limits].iter().fold(layer, |layer, name| {
        layer.rule(Rule::new(*name, ClientIp::peer()))
    })
}

fn bare() -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone {
    fn answer(_: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
        ready(Ok(Response::new(Body::empty())))
    }
    service_fn(answer)
}

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// Puts a shared value into the extensions of the request that is as large as the layer's.
fn inserting() -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible> {
    #[derive(Clone)]
    #[expect(dead_code, reason = "it takes room")]
    struct Held(Arc<[u8; size_of::<LimitAssessment>()]>, [usize; 2]);
    service_fn(|mut request: Request<Body>| {
        let held = Held(Arc::new(black_box([0; _])), black_box([0; 2]));
        request.extensions_mut().insert(held);
        ready(Ok(Response::new(Body::empty())))
    })
}

/// Adds the fields of an allowed request in the cheapest way known, with a text that is already written. The policy is
/// shared, because it is written only once.
fn with_fields() -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible> {
    let policy = HeaderValue::try_from(br#""requests";q=1000000000;w=1000"#.to_vec());
    let policy = policy.expect("it is ASCII");
    service_fn(move |_| {
        let mut response = Response::new(Body::empty());
        let headers = response.headers_mut();
        headers.append(RATELIMIT_POLICY, policy.clone());
        headers.append(RATELIMIT, written(br#""requests";r=999999999;t=1"#));
        ready(Ok(response))
    })
}

/// Refuses requests as the layer does, in the cheapest way known, with texts that are already written.
fn refusing() -> impl Service<Request<Body>, Response = Response<Bytes>, Error = Infallible> {
    let body = concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","#,
        r#""status":429,"detail":"too many requests (1 per 24h0m0s) from 203.0.113.7: retry in 86400 s","#,
        r#""violated-policies":["requests"]}"#
    );
    let policy = HeaderValue::try_from(br#""requests";q=1;w=86400"#.to_vec());
    let fields = [
        (
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        ),
        (RETRY_AFTER, HeaderValue::from_static("")),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (RATELIMIT_POLICY, policy.expect("it is ASCII")),
        (RATELIMIT, HeaderValue::from_static("")),
    ];
    let template: HeaderMap = fields.into_iter().collect();
    service_fn(move |_| {
        let mut headers = template.clone();
        let mut values = headers.values_mut();
        for (place, text) in [(1, &b"86400"[..]), (2, br#""requests";r=0;t=86400"#)] {
            *values.nth(place).expect("there are five") = written(text);
        }
        let mut response = Response::new(Bytes::copy_from_slice(black_box(body).as_bytes()));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        *response.headers_mut() = headers;
        ready(Ok(response))
    })
}

/// A value of its own, in one allocation of its size.
fn written(text: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(black_box(text)).expect("it is ASCII")
}

/// Answers with a content type, as most handlers do.
fn page() -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone {
    fn answer(_: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
        let mut response = Response::new(Body::empty());
        let html = HeaderValue::from_static("text/html; charset=utf-8");
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, html);
        ready(Ok(response))
    }
    service_fn(answer)
}

/// A request whose only extension is the peer's address.
fn request() -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let peer = SocketAddr::from(([203, 0, 113, 7], 50_000));
    request.extensions_mut().insert(ConnectInfo(peer));
    request
}

/// A request as a browser sends it through axum's router.
fn realistic() -> Request<Body> {
    #[derive(Clone)]
    #[expect(dead_code, reason = "it is as large as a matched path")]
    struct Path(Arc<str>);
    let mut request = request();
    request.extensions_mut().insert(Path("/users/{id}".into()));
    for (name, value) in [
        ("host", "example.com"),
        ("user-agent", "Mozilla/5.0 (X11; Linux x86_64)"),
        ("accept", "text/html"),
        ("accept-encoding", "gzip, br"),
        ("accept-language", "en"),
    ] {
        let value = HeaderValue::from_static(value);
        request.headers_mut().insert(name, value);
    }
    request
}

fn serve<S, B>(mut service: S, request: impl Fn() -> Request<Body>)
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
{
    for _ in 0..WARM_UP {
        black_box(poll(service.call(request())).is_ok());
    }
    let requests: Vec<_> = (0..RUNS).map(|_| request()).collect();
    measured_requests(&mut service, requests);
}

#[inline(never)]
fn measured_requests<S, B>(service: &mut S, requests: Vec<Request<Body>>)
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible>,
{
    for request in requests {
        let Ok(response) = poll(service.call(request));
        black_box(&response);
    }
}

fn poll<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here waits"),
    }
}

type Config = GovernorConfig<PeerIpKeyExtractor, governor::middleware::NoOpMiddleware>;

fn plain_peer() -> Config {
    let mut config = GovernorConfigBuilder::default();
    let config = config.per_nanosecond(1000).burst_size(1_000_000_000);
    config.finish().expect("period and burst are not 0")
}

fn peer(
    config: Config,
) -> GovernorLayer<PeerIpKeyExtractor, governor::middleware::NoOpMiddleware, Body> {
    GovernorLayer::new(config)
}

fn headers_peer()
-> GovernorLayer<PeerIpKeyExtractor, governor::middleware::StateInformationMiddleware, Body> {
    let mut config = GovernorConfigBuilder::default();
    let config = config.per_nanosecond(1000).burst_size(1_000_000_000);
    let config = config
        .use_headers()
        .finish()
        .expect("period and burst are not 0");
    GovernorLayer::new(config)
}

fn denied_peer() -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible> {
    let mut config = GovernorConfigBuilder::default();
    let config = config.per_second(86_400).burst_size(1);
    let config = config
        .use_headers()
        .finish()
        .expect("period and burst are not 0");
    let layer: GovernorLayer<PeerIpKeyExtractor, _, Body> = GovernorLayer::new(config);
    layer.layer(bare())
}

fn governor() {
    let rate = Quota::per_second(1_000_000.try_into().expect("it is not 0"));
    let quota = rate.allow_burst(1_000_000_000.try_into().expect("it is not 0"));
    let limiter = governor::RateLimiter::keyed(quota);
    let ip = IpAddr::from([203, 0, 113, 7]);
    repeat(|| {
        black_box(limiter.check_key(black_box(&ip)).is_ok());
    });
}

fn backend() {
    let backend = MemoryBackend::new();
    let limits = Limits::builder().limit("requests", large()).build();
    let limits = limits.expect("the limit is right");
    let requests = limits.get("requests").expect("it was just defined");
    let members = [Member::new(requests, "203.0.113.7", 1, Mode::CheckAndSpend)];
    let batch = Batch::new(Operation::Spend, &members);
    repeat(|| {
        black_box(
            backend
                .try_apply(
                    black_box(&batch),
                    &mut [tollgate::backend::custom::Answer::default(); 1],
                )
                .is_some(),
        );
    });
}

fn limiter(limit: Limit) -> Limiter {
    let limits = Limits::builder().limit("requests", limit);
    let limits = limits.build().expect("the name is good");
    Limiter::new(limits, MemoryBackend::new())
}

fn handle(limit: Limit) {
    let limiter = limiter(limit);
    let requests = limiter.limit("requests").expect("it was just defined");
    repeat(|| {
        black_box(requests.try_spend(black_box("203.0.113.7")).is_some());
    });
}

/// How many other clients have a permit.
const OTHERS: usize = 10_000;

fn permit() {
    let exports = limiter(permits());
    let exports = exports.limit("requests").expect("it was just defined");
    let enter = |id: &str| {
        let entered = poll(exports.enter(id));
        entered.expect("memory answers").expect("one is left")
    };
    // Without others, the memory of the first bucket would be allocated each time.
    let others: Vec<_> = (0..OTHERS).map(|id| enter(&id.to_string())).collect();
    repeat(|| drop(black_box(enter(black_box("203.0.113.7")))));
    drop(others);
}

fn permit_receipt() {
    let exports = limiter(permits());
    let exports = exports.limit("requests").expect("it was just defined");
    for id in 0..OTHERS {
        black_box(exports.try_spend(&id.to_string()).is_some());
    }
    repeat(|| {
        let id = black_box("203.0.113.7");
        let spent = exports.try_spend(id).expect("memory never waits");
        let receipt = spent.expect("memory answers").receipt();
        let refund = exports.refund_receipt(id, receipt.expect("one is left"));
        black_box(poll(refund).is_ok());
    });
}

fn name_of_limit() {
    let limiter = limiter(large());
    let transaction = Transaction::new("requests", "203.0.113.7");
    repeat(|| {
        black_box(limiter.try_spend(black_box(&transaction)).is_some());
    });
}

fn names(limits: usize) {
    let limiter = several(limits, large());
    let transaction = |name: &&'static str| Transaction::new(name, "203.0.113.7");
    let batch: Vec<_> = NAMES[..limits].iter().map(transaction).collect();
    repeat(|| {
        black_box(limiter.try_spend_batch(black_box(&batch)).is_some());
    });
}

#[inline(never)]
fn repeat(mut run: impl FnMut()) {
    run();
    measured(run);
}

#[inline(never)]
fn measured(mut run: impl FnMut()) {
    for _ in 0..RUNS {
        run();
    }
}
