//! Faults while processes hold tokens that they have charged in advance.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
};

use tokio::{task::JoinHandle, time::timeout};
use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::{DenyCache, FailurePolicy, Lease},
    limit::LimitName,
    transaction::OnFailure,
};

use crate::{
    redis_support::Server,
    stack::{LONG, PATIENCE},
};

/// Nothing comes back during a test.
const BURST: u32 = 20_000;
const PROCESSES: u32 = 4;
/// What a process may hold: one hundredth.
const HELD: u32 = BURST / 100;

/// One process of a fleet, which spends until it is told to stop, and refuses what the store cannot decide.
struct Process {
    limiter: Limiter,
    is_done: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Process {
    async fn start(server: &Server, admitted: &Arc<AtomicU32>) -> Self {
        let name = LimitName::from("hot").lease(1, 100);
        let limits = Limits::builder().limit(name, Limit::per_day(BURST));
        let redis = RedisBackend::builder(server.url()).timeout(LONG);
        let redis = redis.build().unwrap();
        redis.connected(PATIENCE).await.unwrap();
        let policy = FailurePolicy::new(Lease::new(DenyCache::new(redis), PROCESSES));
        let policy = policy.deadline(LONG).on_failure(OnFailure::Refuse);
        let limiter = Limiter::new(limits.build().unwrap(), policy);
        let is_done = Arc::<AtomicBool>::default();
        let spend = || {
            let (limiter, admitted) = (limiter.clone(), Arc::clone(admitted));
            let is_done = Arc::clone(&is_done);
            tokio::spawn(async move {
                while !is_done.load(SeqCst) {
                    let spent = limiter.spend(&Transaction::new("hot", "id")).await;
                    let passes = spent.is_ok_and(|spent| spent.allowed());
                    admitted.fetch_add(u32::from(passes), SeqCst);
                    tokio::task::yield_now().await;
                }
            })
        };
        let tasks = (0..4).map(|_| spend()).collect();
        Self {
            limiter,
            is_done,
            tasks,
        }
    }

    /// Ends it in the middle of what it does.
    fn kill(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    async fn stop(self) -> Limiter {
        self.is_done.store(true, SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.limiter
    }
}

async fn more(admitted: &AtomicU32, by: u32) {
    let enough = admitted.load(SeqCst) + by;
    let wait = async {
        while admitted.load(SeqCst) < enough {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fleet_admits_no_more_than_the_burst_though_a_process_dies_and_the_server_hangs() {
    let server = Server::start();
    let admitted = Arc::<AtomicU32>::default();
    let mut fleet = Vec::new();
    for _ in 0..PROCESSES {
        fleet.push(Process::start(&server, &admitted).await);
    }
    more(&admitted, 2000).await;
    fleet.swap_remove(0).kill();
    more(&admitted, 1000).await;
    server.pause();
    server.resume();
    more(&admitted, 1000).await;
    // Until all is spent, those that hold something have handed it out.
    let most = BURST - HELD * PROCESSES;
    let spent = async {
        while admitted.load(SeqCst) < most - HELD {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, spent).await.unwrap();
    for process in fleet {
        process.stop().await.close().await.unwrap();
    }
    let admitted = admitted.load(SeqCst);
    assert!(admitted <= BURST, "{admitted}");
}
