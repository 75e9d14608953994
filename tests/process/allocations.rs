//! A decision allocates nothing, and the layer allocates for its fields only.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    convert::Infallible,
    hint::black_box,
    net::SocketAddr,
    pin::pin,
    task::{Context, Poll, Waker},
};

use allocation_counter::measure;
use http::{Request, Response, StatusCode, request::Parts};
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
use tracing::subscriber::NoSubscriber;

use crate::support::id_formats;

fn limiter() -> Limiter {
    limiter_on(MemoryBackend::new())
}

fn limiter_on(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("requests", Limit::per_second(1).burst(1000))
        .limit("one", Limit::per_second(1))
        .limit("debits", Limit::per_second(1).burst(1000))
        .limit("others", Limit::per_second(1).burst(1000));
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

/// Returns the number of allocations after tables, thread locals and counters exist. A call that passes first and is denied later
/// is counted in both cases.
fn allocations<T>(mut run: impl FnMut() -> T) -> u64 {
    // Other tests listen to events, each of which has an id.
    let _silent = tracing::subscriber::set_default(NoSubscriber::default());
    let mut total = 0;
    drop(run());
    drop(run());
    for _ in 0..100 {
        total += measure(|| drop(black_box(run()))).count_total;
    }
    total
}

#[test]
fn allocation_counter_detects_allocations() {
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

/// Formats, with ids that are canonical as a whole or in part.
const IDS: &[(IdFormat, &[&str])] = &[
    (
        IdFormat::Opaque,
        &["a", "b", "a longer one, with all it takes"],
    ),
    (IdFormat::IpAddress, &["203.0.113.7", "2001:db8:1:2::"]),
    (
        IdFormat::Ipv6Range,
        &["2001:db8::/48", "ffff:ffff:ffff::/48"],
    ),
    (IdFormat::RegId, &["12345678", "18446744073709551615"]),
    (
        IdFormat::Domain,
        &["example.com", "www.example.com", "*.b.co.uk"],
    ),
    (
        IdFormat::DomainOrCidr,
        &["example.com", "203.0.113.7/32", "2001:db8:1:2::/64"],
    ),
    (IdFormat::RegIdDomain, &["12345678:example.com"]),
    (
        IdFormat::RegIdIdentValue,
        &["7:www.example.com", "7:2001:db8::1"],
    ),
];

#[test]
fn canonical_ids_allocate_nothing() {
    let known = id_formats();
    let ids = || IDS.iter().filter(|(format, _)| known.contains(format));
    let name = |format: &IdFormat| format!("l-{format}").replace(':', ".");
    let add = |builder: LimitsBuilder, (format, _): &(IdFormat, _)| {
        let name = LimitName::unnumbered(&name(format), *format);
        builder.limit(name, Limit::per_second(1).burst(1000))
    };
    let limits = ids().fold(Limits::builder(), add).build().unwrap();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(ManualClock::default());
    for (format, ids) in ids() {
        let name = name(format);
        for id in *ids {
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

/// Returns the number of allocations of a service in `call` and `poll`, without those for the request and the response.
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
    let limits = ["requests", "debits", "others"];
    for peer in ["203.0.113.7:4000", "[2001:db8:1:2::3]:4000"] {
        let plain = allocations_of(&mut service_fn(bare), peer, StatusCode::OK);
        for (applying, others) in [(1, 0), (2, 0), (3, 0), (0, 4), (1, 3)] {
            let mut layer = RateLimitLayer::with_limiter(limiter()).headers(Headers::None);
            for _ in 0..others {
                let rule = Rule::new("requests", ClientIp::peer());
                layer = layer.rule(rule.skip_if(|_: &Parts| true));
            }
            for limit in &limits[..applying] {
                layer = layer.rule(Rule::new(*limit, ClientIp::peer()));
            }
            let mut limited = layer.layer(service_fn(bare));
            let count = allocations_of(&mut limited, peer, StatusCode::OK);
            assert_eq!(count, plain, "{peer}: {applying} rules and {others} others");
        }
    }
}
