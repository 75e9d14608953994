//! The time of one decision: for one client again and again, and for a million clients on two threads.

use std::{
    array,
    hint::black_box,
    net::IpAddr,
    sync::{Barrier, Once},
    thread,
    time::{Duration, Instant},
};

use criterion::{BenchmarkGroup, Criterion, SamplingMode, Throughput, measurement::WallTime};
use tollgate::{
    Limiter, MemoryBackend, Transaction,
    backend::{
        Backend,
        custom::{Batch, Member, Operation},
    },
    transaction::Mode,
};
use tollgate_peers::{LIMIT, Rate, client, poll_once, spend};

const CLIENTS: u32 = 1_000_000;
const THREADS: usize = 2;
/// Above the number of clients, so that no client is evicted.
const MAX_BUCKETS: usize = 2_000_000;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    hot(&mut criterion, "hot/allowed", Rate::ENDLESS);
    hot(&mut criterion, "hot/denied", Rate::ONCE);
    many(&mut criterion);
    criterion.final_summary();
}

/// One client, one thread. The row `backend` is comparable to governor, which has no named limits.
fn hot(criterion: &mut Criterion, name: &str, rate: Rate) {
    let ip = IpAddr::from([203, 0, 113, 7]);
    let allowed = rate.burst > 1;
    let mut group = criterion.benchmark_group(name);

    let governor = rate.governor();
    let _ = governor.check_key(&ip);
    assert_eq!(governor.check_key(&ip).is_ok(), allowed);
    group.bench_function("governor", |b| {
        b.iter(|| black_box(governor.check_key(black_box(&ip)).is_ok()));
    });

    let backend = MemoryBackend::new();
    let limits = rate.limits();
    let limit = limits.get(LIMIT).expect("it has this limit");
    let member = [Member::new(limit, "203.0.113.7", 1, Mode::CheckAndSpend)];
    let batch = Batch::new(Operation::Spend, &member);
    let _ = backend.try_apply(
        &batch,
        &mut [tollgate::backend::custom::Answer::default(); 1],
    );
    assert_eq!(spend(&backend, limit, "203.0.113.7"), allowed);
    group.bench_function("backend", |b| {
        b.iter(|| {
            black_box(&backend.try_apply(
                black_box(&batch),
                &mut [tollgate::backend::custom::Answer::default(); 1],
            ))
            .is_some()
        });
    });

    let limiter = Limiter::new(rate.limits(), MemoryBackend::new());
    let transaction = || Transaction::new(LIMIT, "203.0.113.7");
    let _ = limiter.try_spend(&transaction());
    // As in an application: each call has a transaction of its own, and takes the decision out of its result.
    group.bench_function("limiter", |b| {
        b.iter(|| {
            let decided = black_box(limiter.try_spend(black_box(&transaction())));
            decided
                .expect("memory never waits")
                .expect("the limit is known")
        });
    });
    group.bench_function("limiter-async", |b| {
        b.iter(|| {
            let decided = black_box(poll_once(limiter.spend(black_box(&transaction()))));
            decided.expect("the limit is known")
        });
    });
    group.finish();
}

/// A million clients in random order, all of them known, on two threads.
fn many(criterion: &mut Criterion) {
    let orders = orders();
    let ips = in_order(&orders, client);
    let ids = in_order(&orders, |n| client(n).to_string());
    let mut group = criterion.benchmark_group("many");
    group
        .throughput(Throughput::Elements(THREADS as u64))
        .sampling_mode(SamplingMode::Flat)
        .sample_size(20);

    let governor = Rate::LONG.governor();
    threads(&mut group, "governor", &ips, |ip| {
        governor.check_key(ip).is_ok()
    });

    let backend = MemoryBackend::with_max_buckets(MAX_BUCKETS);
    let limits = Rate::LONG.limits();
    let limit = limits.get(LIMIT).expect("it has this limit");
    threads(&mut group, "backend", &ids, |id| spend(&backend, limit, id));

    let backend = MemoryBackend::with_max_buckets(MAX_BUCKETS);
    let limiter = Limiter::new(Rate::LONG.limits(), backend);
    threads(&mut group, "limiter", &ids, |id| {
        let decision = limiter.try_spend(&Transaction::new(LIMIT, id));
        decision
            .and_then(Result::ok)
            .is_some_and(|decision| decision.allowed())
    });
    group.finish();
}

/// Returns all clients for each thread, in a different order.
fn orders() -> [Vec<u32>; THREADS] {
    let mut rng = fastrand::Rng::with_seed(1);
    [(); THREADS].map(|()| {
        let mut order: Vec<_> = (0..CLIENTS).collect();
        rng.shuffle(&mut order);
        order
    })
}

/// Returns the keys of the clients in the order of their use, so that reading them costs next to nothing.
fn in_order<K>(orders: &[Vec<u32>; THREADS], key: impl Fn(u32) -> K) -> [Vec<K>; THREADS] {
    orders
        .each_ref()
        .map(|order| order.iter().map(|n| key(*n)).collect())
}

/// Times `decide` on all threads at once. Each sample continues where the last one stopped. If it started again, its
/// clients would still be in the cache.
fn threads<K: Sync>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    keys: &[Vec<K>; THREADS],
    decide: impl Fn(&K) -> bool + Sync,
) {
    let (filled, mut start) = (Once::new(), 0);
    group.bench_function(name, |b| {
        filled.call_once(|| assert!(keys[0].iter().all(&decide), "a new client is allowed"));
        b.iter_custom(|iterations| {
            let count = usize::try_from(iterations).expect("64 bits");
            let elapsed = in_parallel(|thread| {
                let key = |i: &usize| &keys[thread][i % CLIENTS as usize];
                (start..start + count).filter(|i| !decide(key(i))).count()
            });
            start = (start + count) % CLIENTS as usize;
            elapsed
        });
    });
}

/// Returns the time from the start of the first thread to the end of the last one.
fn in_parallel(work: impl Fn(usize) -> usize + Sync) -> Duration {
    let barrier = Barrier::new(THREADS);
    let timed = &|thread| {
        barrier.wait();
        let begun = Instant::now();
        assert_eq!(work(thread), 0, "nothing is denied");
        (begun, Instant::now())
    };
    thread::scope(|scope| {
        let threads: [_; THREADS] = array::from_fn(|i| scope.spawn(move || timed(i)));
        let times = threads.map(|thread| thread.join().expect("it does not panic"));
        let begun = times.map(|(begun, _)| begun).into_iter().min();
        let done = times.map(|(_, done)| done).into_iter().max();
        begun
            .zip(done)
            .map_or(Duration::ZERO, |(begun, done)| done - begun)
    })
}
