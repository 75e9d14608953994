//! A decision allocates nothing, and neither does the layer beyond what it is asked for.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    convert::Infallible,
    hint::black_box,
    net::SocketAddr,
    pin::pin,
    task::{Context, Poll, Waker},
};

use allocation_counter::measure;
use http::{Request, Response, StatusCode};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::Backend,
    clock::ManualClock,
    id::IdFormat,
    limit::{LimitName, LimitsBuilder},
    response::Headers,
    transaction::Mode,
};
use tower::{Layer, Service, service_fn};

use crate::support::id_formats;

fn limiter() -> Limiter {
    limiter_on(MemoryBackend::new())
}

fn limiter_on(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("requests", Limit::per_second(1).burst(1000))
        .limit("one", Limit::per_second(1))
        .limit("debits", Limit::per_second(1));
    Limiter::new(limits.build().unwrap(), backend).with_clock(ManualClock::default())
}

/// The value of a future that is ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory never waits"),
    }
}

/// How often it allocates once tables, thread locals and counters are there: of what passes first, and is denied then, too.
fn allocations<T>(mut run: impl FnMut() -> T) -> u64 {
    let mut total = 0;
    drop(run());
    drop(run());
    for _ in 0..100 {
        total += measure(|| drop(black_box(run()))).count_total;
    }
    total
}

#[test]
fn counting_counts() {
    assert_eq!(allocations(|| Box::new(1)), 100);
}

#[test]
fn allowed_spend_allocates_nothing() {
    let limiter = limiter();
    let one = Transaction::new("requests", "203.0.113.7");
    let count = allocations(|| assert!(now(limiter.spend(&one)).unwrap().allowed()));
    assert_eq!(count, 0);
    let count = allocations(|| assert!(limiter.try_spend(&one).unwrap().unwrap().allowed()));
    assert_eq!(count, 0);
}

#[test]
fn denied_spend_allocates_nothing() {
    let limiter = limiter();
    let one = Transaction::new("one", "203.0.113.7");
    assert!(now(limiter.spend(&one)).unwrap().allowed());
    let count = allocations(|| assert!(!now(limiter.spend(&one)).unwrap().allowed()));
    assert_eq!(count, 0);
}

#[test]
fn check_and_refund_allocate_nothing() {
    let limiter = limiter();
    let one = Transaction::new("requests", "203.0.113.7");
    now(limiter.spend(&one.cost(500))).unwrap();
    let count = allocations(|| {
        assert!(now(limiter.check(&one)).unwrap().allowed());
        assert!(now(limiter.refund(&one)).unwrap().allowed());
    });
    assert_eq!(count, 0);
}

#[test]
fn batch_of_three_allocates_nothing() {
    let limiter = limiter();
    let id = "2001:db8:1:2::/64";
    let batch = [
        Transaction::new("requests", id),
        Transaction::new("one", id).mode(Mode::SpendOnly),
        Transaction::new("debits", id).mode(Mode::Debit),
    ];
    let count = allocations(|| assert!(now(limiter.spend_batch(&batch)).unwrap().allowed()));
    assert_eq!(count, 0);
    let denied = [batch[0], batch[2], Transaction::new("one", id)];
    let count = allocations(|| assert!(!now(limiter.spend_batch(&denied)).unwrap().allowed()));
    assert_eq!(count, 0);
}

/// A format, the id of a client with a limit of its own, and ids that requests bring: canonical ones,
/// and others that are folded, of that client and of others.
const IDS: &[(IdFormat, &str, &[&str])] = &[
    (
        IdFormat::Opaque,
        "a",
        &["a", "b", "a longer one, with all it takes"],
    ),
    (
        IdFormat::IpAddress,
        "2001:db8::1",
        &[
            "203.0.113.7",
            "2001:db8::1",
            "2001:0db8::1",
            "::FFFF:203.0.113.7",
            "fe80::1%eth0",
        ],
    ),
    (
        IdFormat::Ipv6Range,
        "2001:db8::/48",
        &["2001:db8::/48", "2001:0db8::1", "2001:db8:1:2:3:4:5:6"],
    ),
    (
        IdFormat::RegId,
        "12345678",
        &["12345678", "18446744073709551615"],
    ),
    (
        IdFormat::Domain,
        "example.com",
        &[
            "example.com",
            "www.example.com",
            "WWW.Example.ORG.",
            "*.b.co.uk",
        ],
    ),
    (
        IdFormat::FqdnSet,
        "example.com,example.org",
        &[
            "example.org,example.com",
            "a.com,B.com,c.com,d.com,e.com,f.com,2001:DB8::1,10.0.0.1",
        ],
    ),
    (
        IdFormat::RegIdDomain,
        "12345678:example.com",
        &[
            "12345678:example.com",
            "12345678:www.Example.com",
            "7:a.b.co.uk",
        ],
    ),
    (
        IdFormat::RegIdFqdnSet,
        "12345678:example.com,example.org",
        &[
            "12345678:example.com,example.org",
            "18446744073709551615:A.com,b.com",
        ],
    ),
];

#[test]
fn ids_in_every_format_allocate_nothing() {
    let default = Limit::per_second(1).burst(1000);
    let own = Limit::per_second(2).burst(2000);
    let add = |builder: LimitsBuilder, (format, id, _): &(IdFormat, &str, _)| {
        let name = format!("l-{}", format.name().replace(':', "."));
        builder
            .limit(LimitName::unnumbered(&name, *format), default.clone())
            .override_for(&name, id, own.clone())
    };
    let known = id_formats();
    let ids = || IDS.iter().filter(|(format, ..)| known.contains(format));
    let limits = ids().fold(Limits::builder(), add).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
    assert_eq!(IDS.len(), IdFormat::ALL.len());
    for (format, own, ids) in ids() {
        let name = format!("l-{}", format.name().replace(':', "."));
        for id in ids.iter().chain([own]) {
            let one = Transaction::new(&name, id);
            let count =
                allocations(|| assert!(limiter.try_spend(&one).unwrap().unwrap().allowed()));
            assert_eq!(count, 0, "{format} {id}");
        }
    }
}

type Answer = Result<Response<String>, Infallible>;

async fn bare(request: Request<String>) -> Answer {
    Ok(Response::new(request.into_body()))
}

fn request(peer: &str) -> Request<String> {
    let mut request = Request::new(String::from("a body"));
    let peer: SocketAddr = peer.parse().unwrap();
    request.extensions_mut().insert(peer);
    request
}

/// How often a service allocates in `call` and `poll`, the request and the response aside.
fn allocations_of<S, B>(service: &mut S, peer: &str, status: StatusCode) -> u64
where
    S: Service<Request<String>, Response = Response<B>, Error = Infallible>,
{
    let mut requests: Vec<_> = (0..102).map(|_| request(peer)).collect();
    let mut responses = Vec::with_capacity(102);
    let count = allocations(|| {
        let response = now(service.call(requests.pop().unwrap())).unwrap();
        assert_eq!(response.status(), status);
        responses.push(response);
    });
    assert_eq!(responses.len(), 102);
    count
}

#[test]
fn layer_adds_no_allocation() {
    for peer in ["203.0.113.7:4000", "[2001:db8:1:2::3]:4000"] {
        let plain = allocations_of(&mut service_fn(bare), peer, StatusCode::OK);
        let mut limited = RateLimitLayer::with_limiter(limiter())
            .rule(Rule::new("requests", ClientIp::peer()))
            .headers(Headers::None)
            .extensions(false)
            .layer(service_fn(bare));
        assert_eq!(
            allocations_of(&mut limited, peer, StatusCode::OK),
            plain,
            "{peer}"
        );
    }
}

#[test]
fn layer_with_two_rules_adds_no_allocation() {
    let peer = "203.0.113.7:4000";
    let plain = allocations_of(&mut service_fn(bare), peer, StatusCode::OK);
    let mut limited = RateLimitLayer::with_limiter(limiter())
        .rule(Rule::new("requests", ClientIp::peer()))
        .rule(Rule::new("debits", ClientIp::peer()).mode(Mode::Debit))
        .headers(Headers::None)
        .extensions(false)
        .layer(service_fn(bare));
    assert_eq!(allocations_of(&mut limited, peer, StatusCode::OK), plain);
}

#[test]
fn layer_with_three_rules_adds_no_allocation() {
    let peer = "203.0.113.7:4000";
    let plain = allocations_of(&mut service_fn(bare), peer, StatusCode::OK);
    let mut limited = RateLimitLayer::with_limiter(limiter())
        .rule(Rule::new("requests", ClientIp::peer()))
        .rule(Rule::new("debits", ClientIp::peer()).mode(Mode::Debit))
        .rule(Rule::new("one", ClientIp::peer()).mode(Mode::SpendOnly))
        .headers(Headers::None)
        .extensions(false)
        .layer(service_fn(bare));
    assert_eq!(allocations_of(&mut limited, peer, StatusCode::OK), plain);
}

/// A store that decides in memory, but in a future.
#[cfg(feature = "failure-policy")]
#[derive(Debug)]
struct Awaited(MemoryBackend);

#[cfg(feature = "failure-policy")]
#[tollgate::backend::async_trait]
impl Backend for Awaited {
    async fn apply(
        &self,
        batch: &tollgate::transaction::Batch<'_>,
    ) -> Result<tollgate::decision::Outcome, tollgate::backend::BackendError> {
        self.0.try_apply(batch).expect("memory never waits")
    }
}

#[cfg(feature = "failure-policy")]
#[test]
fn wrappers_add_one_box_to_a_store_that_has_to_be_waited_for() {
    use tollgate::backend::{DenyCache, FailurePolicy};

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.unwrap();
    let _entered = runtime.enter();
    let store = || Awaited(MemoryBackend::new());
    let bare = limiter_on(store());
    let wrapped = limiter_on(FailurePolicy::new(DenyCache::new(store())));
    let one = Transaction::new("requests", "203.0.113.7");
    for (limiter, boxes) in [(&bare, 100), (&wrapped, 200)] {
        let count = allocations(|| assert!(now(limiter.spend(&one)).unwrap().allowed()));
        assert_eq!(count, boxes, "in 100 decisions");
    }
}
