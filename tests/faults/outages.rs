//! Many callers and many outages: no admission is charged twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::time::sleep;
use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::{DenyCache, FailurePolicy},
    decision::Source,
};

use crate::{
    load::{id_of, until},
    redis_support::{Proxy, Server},
    stack::{PATIENCE, ahead},
    support::scale::scaled,
};

const CALLERS: usize = 300;
const OUTAGES: u64 = 8;
const IDS: usize = 10;

/// Nothing comes back during a test, and nobody is ever denied.
const HOUR: u64 = 3_600_000_000;
const BURST: u32 = 500_000;

/// What the calls for one id have come to.
#[derive(Debug, Default)]
struct Tally {
    by_store: AtomicU64,
    locally: AtomicU64,
}

#[derive(Debug, Default)]
struct Crowd {
    tallies: [Tally; IDS],
    /// The calls in a row that the store has decided last.
    in_a_row: AtomicUsize,
    stop: AtomicBool,
}

impl Crowd {
    async fn spend(self: Arc<Self>, limiter: Limiter, caller: usize) {
        let id = id_of(caller % IDS);
        let tally = &self.tallies[caller % IDS];
        while !self.stop.load(SeqCst) {
            let spent = limiter.spend(&Transaction::new("requests", &id)).await;
            let spent = spent.unwrap();
            assert!(spent.allowed(), "{spent:?}");
            match spent.source() {
                Source::Local => {
                    tally.locally.fetch_add(1, SeqCst);
                    self.in_a_row.store(0, SeqCst);
                }
                _ => {
                    tally.by_store.fetch_add(1, SeqCst);
                    self.in_a_row.fetch_add(1, SeqCst);
                }
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn locally(&self) -> u64 {
        let tallies = self.tallies.iter();
        tallies.map(|tally| tally.locally.load(SeqCst)).sum()
    }

    async fn more_locally(&self, calls: usize) {
        let enough = self.locally() + u64::try_from(calls).unwrap();
        until("more is decided locally", || self.locally() >= enough).await;
    }

    async fn more_by_store(&self, calls: usize) {
        self.in_a_row.store(0, SeqCst);
        let decides = || self.in_a_row.load(SeqCst) >= calls;
        until("the store decides again", decides).await;
    }
}

async fn connect(url: String) -> Limiter {
    // Longer than the default, so that a slow machine does not fail all the time.
    let deadline = Duration::from_millis(500);
    let backend = RedisBackend::builder(url).timeout(deadline);
    let backend = backend.build().unwrap();
    backend.connected(PATIENCE).await.unwrap();
    let policy = FailurePolicy::new(DenyCache::new(backend)).deadline(deadline);
    let limits = Limits::builder().limit("requests", Limit::per_hour(1).burst(BURST));
    Limiter::new(limits.build().unwrap(), policy)
}

/// Breaks all connections, or lets the server hang, and ends that once some calls were decided locally.
async fn outage(server: &Server, proxy: &Proxy, crowd: &Crowd, hangs: bool) {
    match hangs {
        true => server.pause(),
        false => {
            proxy.refuse(true);
            proxy.close_all().await;
        }
    }
    crowd.more_locally(scaled(1000)).await;
    match hangs {
        true => server.resume(),
        false => proxy.refuse(false),
    }
    crowd.more_by_store(1000).await;
}

/// The answers to debits are overtaken by those to decisions, because so many callers keep several connections busy. A
/// call with an unknown outcome was admitted locally, and is owed by nobody, so the store has charged it once or not at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_and_outages_are_never_charged_twice() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let limiter = connect(proxy.url()).await;
    let crowd = Arc::<Crowd>::default();
    let callers =
        (0..CALLERS).map(|caller| tokio::spawn(Arc::clone(&crowd).spend(limiter.clone(), caller)));
    let callers: Vec<_> = callers.collect();
    crowd.more_by_store(1000).await;
    for round in 0..OUTAGES {
        outage(&server, &proxy, &crowd, round % 2 == 1).await;
    }
    crowd.stop.store(true, SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    limiter.close().await.unwrap();
    let (mut all_charged, mut all_by_store) = (0, 0);
    for (number, tally) in crowd.tallies.iter().enumerate() {
        let charged = ahead(&server, "requests", &id_of(number)).div_ceil(HOUR);
        let by_store = tally.by_store.load(SeqCst);
        let admitted = by_store + tally.locally.load(SeqCst);
        // A debit is rounded up to a token.
        let range = by_store..=admitted + OUTAGES;
        println!("{charged} charged of {admitted} admitted, {by_store} by the store");
        assert!(range.contains(&charged), "{charged} charged: {tally:?}");
        (all_charged, all_by_store) = (all_charged + charged, all_by_store + by_store);
    }
    let owed = crowd.locally();
    println!("{all_charged} charged, {all_by_store} by the store, {owed} locally");
    assert!(all_charged > all_by_store, "nothing was paid back");
}
