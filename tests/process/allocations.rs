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
use http::{Request, Response, StatusCode, request::Parts};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, Transaction,
    backend::Backend,
    check::Checks,
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

/// Without the checks, which examine and mark the first 10,000 requests.
#[test]
fn layer_adds_no_allocation() {
    for peer in ["203.0.113.7:4000", "[2001:db8:1:2::3]:4000"] {
        let plain = allocations_of(&mut service_fn(bare), peer, StatusCode::OK);
        let mut limited = RateLimitLayer::with_limiter(limiter())
            .rule(Rule::new("requests", ClientIp::peer()))
            .headers(Headers::None)
            .checks(Checks::none())
            .layer(service_fn(bare));
        assert_eq!(
            allocations_of(&mut limited, peer, StatusCode::OK),
            plain,
            "{peer}"
        );
    }
}

#[test]
fn layer_with_several_rules_adds_no_allocation() {
    let peer = "203.0.113.7:4000";
    let plain = allocations_of(&mut service_fn(bare), peer, StatusCode::OK);
    let applying = [
        ("requests", Mode::CheckAndSpend),
        ("debits", Mode::Debit),
        ("one", Mode::SpendOnly),
    ];
    for (applying, others) in
        [(2, 0), (3, 0), (0, 6), (1, 6), (3, 6)].map(|(count, others)| (&applying[..count], others))
    {
        let mut layer = RateLimitLayer::with_limiter(limiter())
            .headers(Headers::None)
            .checks(Checks::none());
        for _ in 0..others {
            layer = layer.rule(Rule::new("requests", ClientIp::peer()).skip_if(|_: &Parts| true));
        }
        for (limit, mode) in applying {
            layer = layer.rule(Rule::new(*limit, ClientIp::peer()).mode(*mode));
        }
        let mut limited = layer.layer(service_fn(bare));
        let count = allocations_of(&mut limited, peer, StatusCode::OK);
        assert_eq!(count, plain, "{applying:?} and {others} others");
    }
}

/// Stacks of wrappers around a store whose decisions have to be waited for.
#[cfg(feature = "failure-policy")]
mod stacks {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use tokio::{runtime, time::Duration};
    use tollgate::{
        Limit, Limiter, Limits, MemoryBackend, Transaction,
        backend::{Backend, BackendError, DenyCache, FailurePolicy, Lease, async_trait},
        decision::{Outcome, Source},
        limit::LimitName,
        transaction::Batch,
    };

    use super::{allocations, now};

    /// A store that decides in memory, but in a future, and counts how often it is asked.
    #[derive(Clone, Debug, Default)]
    struct Awaited(Arc<Counted>);

    #[derive(Debug, Default)]
    struct Counted {
        memory: MemoryBackend,
        tried: AtomicU64,
        applied: AtomicU64,
    }

    #[async_trait]
    impl Backend for Awaited {
        async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
            self.0.applied.fetch_add(1, Ordering::Relaxed);
            let decided = self.0.memory.try_apply(batch);
            decided.expect("memory never waits")
        }

        fn try_apply(&self, _: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
            self.0.tried.fetch_add(1, Ordering::Relaxed);
            None
        }
    }

    impl Awaited {
        /// Returns how often it was tried and asked since the last call of this.
        fn asked(&self) -> (u64, u64) {
            let take = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
            (take(&self.0.tried), take(&self.0.applied))
        }
    }

    /// A wrapper that changes nothing, as one outside of this crate.
    #[derive(Debug)]
    struct Outsider<B>(B);

    #[async_trait]
    impl<B: Backend> Backend for Outsider<B> {
        async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
            self.0.apply(batch).await
        }

        fn try_apply(&self, batch: &Batch<'_>) -> Option<Result<Outcome, BackendError>> {
            self.0.try_apply(batch)
        }

        fn wrapped(&self) -> Option<&dyn Backend> {
            Some(&self.0)
        }
    }

    fn limiter(backend: impl Backend) -> Limiter {
        let limit = || Limit::per_second(1).burst(100_000);
        let limits = Limits::builder()
            .limit("requests", limit())
            .limit("others", limit())
            .limit(LimitName::from("leased").lease(1, 2), limit());
        Limiter::new(limits.build().unwrap(), backend)
    }

    /// A policy whose store may take as long as it likes.
    fn policy<B: Backend>(store: B) -> FailurePolicy<B> {
        FailurePolicy::new(store).deadline(Duration::from_secs(3600))
    }

    /// The name of a stack, its limiter, and the boxes that it adds to the one of the store.
    type Stack = (&'static str, Limiter, u64);

    fn stacks(store: &Awaited) -> Vec<Stack> {
        let store = || store.clone();
        let cache = || DenyCache::new(store());
        let lease = || Lease::new(cache(), 4);
        let of_any_type: Arc<dyn Backend> = Arc::new(policy(lease()));
        vec![
            ("store", limiter(store()), 0),
            ("cache", limiter(cache()), 1),
            ("lease", limiter(Lease::new(store(), 4)), 1),
            ("lease, cache", limiter(lease()), 1),
            ("policy", limiter(policy(store())), 1),
            ("policy, cache", limiter(policy(cache())), 1),
            ("policy, lease", limiter(policy(Lease::new(store(), 4))), 1),
            ("policy, lease, cache", limiter(policy(lease())), 1),
            ("policy, lease, cache, of any type", limiter(of_any_type), 1),
        ]
    }

    fn in_runtime(test: impl FnOnce()) {
        let runtime = runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.unwrap();
        let _entered = runtime.enter();
        test();
    }

    /// Asks for a decision several times. Each time, the store must be tried once and asked once, so that no wrapper has
    /// looked at the batch twice. Checks the number of boxes.
    fn asks_once(name: &str, store: &Awaited, boxes: u64, mut decide: impl FnMut()) {
        // Until lists have grown.
        (0..100).for_each(|_| decide());
        store.asked();
        let mut decisions = 0;
        let count = allocations(|| {
            decide();
            decisions += 1;
        });
        assert_eq!(store.asked(), (decisions, decisions), "{name}");
        assert_eq!(count, 100 * (1 + boxes), "{name}: in 100 decisions");
    }

    #[test]
    fn every_stack_looks_once_at_a_batch_and_adds_one_box() {
        in_runtime(|| {
            let store = Awaited::default();
            let one = Transaction::new("requests", "203.0.113.7");
            let two = [one, Transaction::new("others", "203.0.113.7")];
            for (name, limiter, boxes) in stacks(&store) {
                asks_once(name, &store, boxes, || {
                    assert!(now(limiter.spend(&one)).unwrap().allowed());
                });
                asks_once(name, &store, boxes, || {
                    assert!(now(limiter.refund(&one)).unwrap().allowed());
                });
                asks_once(name, &store, boxes, || {
                    assert!(now(limiter.spend_batch(&two)).unwrap().allowed());
                });
            }
        });
    }

    #[test]
    fn leased_limit_is_decided_in_memory_or_by_one_look_at_the_store() {
        in_runtime(|| {
            let store = Awaited::default();
            // A probe needs the store.
            let probe = Transaction::new("leased", "203.0.113.7").cost(0);
            let one = probe.cost(1);
            for (name, limiter, boxes) in stacks(&store) {
                // The future of a leased limit is in a box of its own, to keep that of others small.
                let has_lease = name.contains("lease");
                let boxes = boxes + u64::from(has_lease);
                asks_once(name, &store, boxes, || {
                    assert!(now(limiter.check(&probe)).unwrap().allowed());
                });
                if !has_lease {
                    continue;
                }
                for _ in 0..10 {
                    now(limiter.spend(&one)).unwrap();
                }
                store.asked();
                let (mut calls, mut leased) = (0, 0);
                let count = allocations(|| {
                    let spent = now(limiter.spend(&one)).unwrap();
                    calls += 1;
                    leased += u64::from(spent.source() == Source::Lease);
                });
                let (tried, applied) = store.asked();
                assert_eq!((tried, applied), (calls - leased, calls - leased), "{name}");
                assert!(leased > 90, "{name}: {leased}");
                assert!(count <= 100 * (1 + boxes), "{name}");
            }
        });
    }

    #[test]
    fn wrapper_of_others_does_not_hide_the_leases_inside_it() {
        in_runtime(|| {
            let store = Awaited::default();
            let limiter = limiter(Outsider(Lease::new(store.clone(), 4)));
            let one = Transaction::new("leased", "203.0.113.7");
            let all = now(limiter.spend(&one.cost(100_000)));
            let error = all.unwrap_err().to_string();
            assert!(error.contains("leases reserve"), "{error}");
        });
    }
}
