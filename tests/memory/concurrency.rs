//! Many at once: nobody too many, nothing by halves, no deadlock, and no more memory than agreed.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{Clock, ManualClock, SystemClock},
    testing::cases::history::Random,
    transaction::Mode,
};

const CALLS: usize = 10_000;
const THREADS: usize = 8;

/// A limiter on a backend that can be looked at, and their clock.
fn limited(limit: Limit, max_buckets: usize) -> (Limiter, Arc<MemoryBackend>, ManualClock) {
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    let backend = Arc::new(MemoryBackend::with_max_buckets(max_buckets));
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, Arc::clone(&backend)).with_clock(clock.clone());
    (limiter, backend, clock)
}

fn passes(limiter: &Limiter, transaction: &Transaction<'_>) -> bool {
    limiter.try_spend(transaction).unwrap().unwrap().allowed()
}

fn held(limiter: &Limiter, id: &str) -> u32 {
    let probe = Transaction::new("l", id).cost(0);
    let decision = limiter.try_spend(&probe).unwrap().unwrap();
    decision.remaining().unwrap()
}

fn admitted_by_threads(limiter: &Limiter) -> usize {
    let spend = || {
        let one = Transaction::new("l", "shared");
        let calls = 0..CALLS / THREADS;
        calls.filter(|_| passes(limiter, &one)).count()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(spend)).collect();
        let admitted = threads.into_iter().map(|thread| thread.join().unwrap());
        admitted.sum()
    })
}

#[test]
fn threads_admit_exactly_the_burst() {
    for _ in 0..5 {
        let (limiter, ..) = limited(Limit::per_second(20), 1000);
        assert_eq!(admitted_by_threads(&limiter), 20);
    }
}

#[test]
fn backends_own_clock_admits_no_more_than_burst_and_rate() {
    let limits = Limits::builder().limit("l", Limit::per_hour(100).burst(20));
    let limiter = Limiter::new(limits.build().unwrap(), MemoryBackend::new());
    let start = SystemClock::new().now();
    let admitted = admitted_by_threads(&limiter);
    let end = SystemClock::new().now();
    let refilled = (end.as_micros() - start.as_micros()) / 36_000_000;
    assert!(
        (20..=21 + refilled).contains(&(admitted as u64)),
        "{admitted}"
    );
}

#[test]
fn overlapping_batches_are_charged_whole_or_not_at_all() {
    const BURST: u32 = 50_000;
    const IDS: usize = 12;
    let (limiter, ..) = limited(Limit::per_hour(1).burst(BURST), 1_000_000);
    let ids: Vec<_> = (0..IDS).map(|i| i.to_string()).collect();
    let charged: Vec<_> = (0..IDS).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (limiter, ids, charged) = (&limiter, &ids, &charged);
            scope.spawn(move || {
                let mut random = Random(thread);
                for _ in 0..2000 {
                    charge_a_run(limiter, ids, charged, &mut random);
                }
            });
        }
    });
    for (id, charged) in ids.iter().zip(&charged) {
        let charged = u32::try_from(charged.load(Ordering::SeqCst)).unwrap();
        assert_eq!(held(&limiter, id), BURST - charged, "{id}");
    }
    let denied = charged
        .iter()
        .filter(|n| n.load(Ordering::SeqCst) > u64::from(BURST) - 100);
    assert!(denied.count() > 0, "some must have run dry");
}

/// Charges a run of ids, forwards or backwards, and books what passed. Sometimes it gives it back.
fn charge_a_run(limiter: &Limiter, ids: &[String], charged: &[AtomicU64], random: &mut Random) {
    let (first, len) = (random.cost(12) as usize, 2 + random.cost(5) as usize);
    let cost = random.cost(40);
    let mut run: Vec<_> = (first..first + len).map(|i| i % ids.len()).collect();
    if random.cost(2) == 0 {
        run.reverse();
    }
    let batch: Vec<_> = run
        .iter()
        .map(|i| Transaction::new("l", &ids[*i]).cost(cost))
        .collect();
    if !limiter.try_spend_batch(&batch).unwrap().unwrap().allowed() {
        return;
    }
    let back = random.cost(8) == 0;
    if back {
        let refunded = now(limiter.refund_batch(&batch)).unwrap();
        assert_eq!(refunded.refunded(), cost > 0);
    }
    for i in run {
        charged[i].fetch_add(if back { 0 } else { cost.into() }, Ordering::SeqCst);
    }
}

/// The value of a future that is ready at once, as all of memory's are.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory never waits"),
    }
}

#[test]
fn readers_never_see_half_a_batch() {
    let (limiter, ..) = limited(Limit::per_hour(1).burst(20_000), 1_000_000);
    let pair = ["left", "right"].map(|id| Transaction::new("l", id));
    let look = pair.map(|one| one.cost(0).mode(Mode::CheckOnly));
    thread::scope(|scope| {
        for order in [pair, [pair[1], pair[0]]] {
            let limiter = &limiter;
            scope.spawn(move || {
                for _ in 0..CALLS {
                    assert!(limiter.try_spend_batch(&order).unwrap().unwrap().allowed());
                }
            });
        }
        for _ in 0..CALLS {
            let seen = limiter.try_spend_batch(&look).unwrap().unwrap();
            let [left, right] = seen.members() else {
                panic!("two members")
            };
            assert_eq!(left.remaining(), right.remaining());
        }
    });
    assert_eq!((held(&limiter, "left"), held(&limiter, "right")), (0, 0));
}

/// Fills a part of the cap with drained buckets, lets them all become full, and so on. Returns how
/// many of them were forgotten before their time.
fn lost(per_cent: usize) -> usize {
    const CAP: usize = 4000;
    let (limiter, backend, clock) = limited(Limit::per_second(20), CAP);
    let mut lost = 0;
    for generation in 0..10 {
        let ids: Vec<_> = (0..CAP * per_cent / 100)
            .map(|i| format!("{generation}-{i}"))
            .collect();
        for id in &ids {
            assert!(passes(&limiter, &Transaction::new("l", id).cost(20)));
        }
        lost += ids.iter().filter(|id| held(&limiter, id) > 0).count();
        assert!(backend.buckets() <= CAP);
        clock.advance(Duration::from_secs(1));
    }
    lost
}

#[test]
fn no_live_bucket_is_evicted_while_full_ones_are_there() {
    assert_eq!(lost(80), 0);
}

#[test]
fn one_bucket_is_enough_to_work_with() {
    let (limiter, backend, _) = limited(Limit::per_second(20), 1);
    for i in 0..100 {
        let id = i.to_string();
        let decision = now(limiter.spend(&Transaction::new("l", &id))).unwrap();
        assert_eq!((decision.allowed(), decision.remaining()), (true, Some(19)));
    }
    assert_eq!(backend.buckets(), 1);
}
