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
    clock::ManualClock, transaction::Mode,
};
use tower::{Layer, Service, service_fn};

fn limiter() -> Limiter {
    let limits = Limits::builder()
        .limit("requests", Limit::per_second(1).burst(1000))
        .limit("one", Limit::per_second(1))
        .limit("debits", Limit::per_second(1));
    Limiter::new(limits.build().unwrap(), MemoryBackend::new()).with_clock(ManualClock::default())
}

/// The value of a future that is ready at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory never waits"),
    }
}

/// How often it allocates once tables and thread locals are there.
fn allocations<T>(mut run: impl FnMut() -> T) -> u64 {
    let mut total = 0;
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
    let mut requests: Vec<_> = (0..101).map(|_| request(peer)).collect();
    let mut responses = Vec::with_capacity(101);
    let count = allocations(|| {
        let response = now(service.call(requests.pop().unwrap())).unwrap();
        assert_eq!(response.status(), status);
        responses.push(response);
    });
    assert_eq!(responses.len(), 101);
    count
}

#[test]
fn layer_adds_no_allocation() {
    for peer in ["203.0.113.7:4000", "[2001:db8:1:2::3]:4000"] {
        let plain = allocations_of(&mut service_fn(bare), peer, StatusCode::OK);
        let mut limited = RateLimitLayer::new(limiter())
            .rule(Rule::new("requests", ClientIp::peer()))
            .headers(false)
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
    let mut limited = RateLimitLayer::new(limiter())
        .rule(Rule::new("requests", ClientIp::peer()))
        .rule(Rule::new("debits", ClientIp::peer()).mode(Mode::Debit))
        .headers(false)
        .extensions(false)
        .layer(service_fn(bare));
    assert_eq!(allocations_of(&mut limited, peer, StatusCode::OK), plain);
}

#[test]
fn layer_with_three_rules_adds_no_allocation() {
    let peer = "203.0.113.7:4000";
    let plain = allocations_of(&mut service_fn(bare), peer, StatusCode::OK);
    let mut limited = RateLimitLayer::new(limiter())
        .rule(Rule::new("requests", ClientIp::peer()))
        .rule(Rule::new("debits", ClientIp::peer()).mode(Mode::Debit))
        .rule(Rule::new("one", ClientIp::peer()).mode(Mode::SpendOnly))
        .headers(false)
        .extensions(false)
        .layer(service_fn(bare));
    assert_eq!(allocations_of(&mut limited, peer, StatusCode::OK), plain);
}
