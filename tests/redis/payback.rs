//! What servers are charged after an outage for windows and quotas: what they would have charged without it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, BackendError, FailurePolicy, async_trait},
    clock::ManualClock,
    decision::{Outcome, Source},
    quota::Per,
    testing::cases::history::Random,
    transaction::Batch,
};

use crate::{PATIENCE, SERVER, TIMEOUT, connect};

const SECOND: Duration = Duration::from_secs(1);

/// A store that is away on order.
#[derive(Clone, Debug)]
struct Store(Arc<dyn Backend>, Arc<AtomicBool>);

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        match self.1.load(Ordering::Relaxed) {
            true => Err(BackendError::not_done("away")),
            false => self.0.apply(batch).await,
        }
    }
}

/// One bucket of small windows, of one that is reported by a few of its units, and of a quota.
const NAMES: [&str; 3] = ["five", "forty", "quota"];

fn limits() -> Limits {
    let limits = Limits::builder()
        .limit("five", Limit::window(5, 60 * SECOND))
        .limit("forty", Limit::window(40, 60 * SECOND))
        .limit("quota", Limit::quota(40, Per::Hour));
    limits.build().unwrap()
}

/// A process, what its server has, and a memory that was never away, at the same time.
struct World {
    clock: ManualClock,
    is_away: Arc<AtomicBool>,
    process: Limiter,
    direct: Limiter,
    uncut: Limiter,
    id: String,
}

impl World {
    fn new(store: Arc<dyn Backend>, id: String) -> Self {
        let (clock, is_away) = (ManualClock::default(), Arc::default());
        let flaky = Store(Arc::clone(&store), Arc::clone(&is_away));
        let policy = FailurePolicy::new(flaky).deadline(TIMEOUT);
        let limiter =
            |backend: Arc<dyn Backend>| Limiter::new(limits(), backend).with_clock(clock.clone());
        Self {
            process: limiter(Arc::new(policy)),
            direct: limiter(store),
            uncut: limiter(Arc::new(MemoryBackend::new())),
            clock,
            is_away,
            id,
        }
    }

    async fn spend(&self, name: &str, cost: u32) {
        let spend = Transaction::new(name, &self.id).cost(cost);
        let spent = self.process.spend(&spend).await.unwrap();
        let expected = self.uncut.spend(&spend).await.unwrap();
        assert_eq!(spent.allowed(), expected.allowed(), "{name}");
    }

    /// All that a limiter tells of the buckets.
    async fn figures(&self, limiter: &Limiter) -> Vec<Decision> {
        let mut figures = Vec::new();
        for name in NAMES {
            for cost in 0..=5 {
                let probe = Transaction::new(name, &self.id).cost(cost);
                figures.push(limiter.check(&probe).await.unwrap());
            }
        }
        figures
    }

    /// Ends an outage, and waits until it is paid back.
    async fn end(&self) {
        self.is_away.store(false, Ordering::Relaxed);
        let expected = self.figures(&self.uncut).await;
        let begun = Instant::now();
        loop {
            let nobody = Transaction::new("five", "nobody");
            let asked = self.process.check(&nobody).await.unwrap();
            let found = self.figures(&self.direct).await;
            if asked.source() == Source::Store && found == expected {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{found:?} for {expected:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_comes_to_what_it_would_have_without_outages() {
    let store = Arc::new(connect(SERVER.url()).await);
    let mut random = Random(3);
    for round in 0..6 {
        let world = World::new(
            Arc::clone(&store) as Arc<dyn Backend>,
            format!("payback{round}"),
        );
        for _ in 0..4 {
            world.is_away.store(true, Ordering::Relaxed);
            for _ in 0..12 {
                world
                    .clock
                    .advance(Duration::from_micros(random.below(9_000_000)));
                let name = NAMES[usize::try_from(random.below(3)).unwrap()];
                world.spend(name, 1 + random.cost(3)).await;
            }
            world.end().await;
            for _ in 0..4 {
                world
                    .clock
                    .advance(Duration::from_micros(random.below(9_000_000)));
                world.spend("forty", 4).await;
            }
        }
    }
}
