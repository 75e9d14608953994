//! Faults while processes hold tokens that they have charged in advance.

use tokio::time::timeout;
use tollgate::{
    Decision, Limit, Limiter, Limits, Transaction,
    backend::{DenyCache, FailurePolicy, Lease},
    decision::Source,
    limit::LimitName,
    transaction::OnFailure,
};

use crate::{
    eventually::PATIENCE,
    failover::replicated,
    redis_support::{Sentinels, Server},
    stack::connect,
};

/// One comes back in an hour, and so none during a test.
const BURST: u32 = 20_000;
const PROCESSES: u32 = 4;
/// The units that a process may hold: one hundredth.
const HELD: u32 = BURST / 100;

/// A process that refuses what the store cannot decide.
async fn limiter(url: &str) -> Limiter {
    let redis = connect(url, PATIENCE).await;
    let policy = FailurePolicy::new(Lease::new(DenyCache::new(redis), PROCESSES));
    let policy = policy.deadline(PATIENCE).on_failure(OnFailure::Refuse);
    let name = LimitName::from("hot").lease(1, 100);
    let limits = Limits::builder().limit(name, Limit::per_hour(1).burst(BURST));
    Limiter::new(limits.build().unwrap(), policy)
}

/// Processes that spend in turn, so that nothing is on its way when a fault begins.
struct Fleet(Vec<Limiter>);

impl Fleet {
    async fn start(url: &str) -> Self {
        let mut all = Vec::new();
        for _ in 0..PROCESSES {
            all.push(limiter(url).await);
        }
        Self(all)
    }

    /// Spends once in each process. A process that could not decide is left out.
    async fn round(&self) -> Vec<Decision> {
        let mut all = Vec::new();
        for process in &self.0 {
            all.extend(process.spend(&Transaction::new("hot", "id")).await);
        }
        all
    }

    /// Spends until each process holds half of its most units, and returns the number admitted.
    async fn begin(&self) -> u32 {
        let mut admitted = 0;
        let spending = async {
            loop {
                let round = self.round().await;
                admitted += passed(&round);
                let holds = |decision| held(decision).is_some_and(|held| held >= HELD / 2);
                if round.iter().filter(|decision| holds(decision)).count() == self.0.len() {
                    break;
                }
            }
        };
        timeout(PATIENCE, spending).await.unwrap();
        admitted
    }

    /// Spends until at least this number of units is admitted, and then until each process is denied. Returns the number of
    /// admitted units.
    async fn exhaust(&self, at_least: u32) -> u32 {
        let mut admitted = 0;
        let spending = async {
            loop {
                let round = self.round().await;
                admitted += passed(&round);
                let is_over = round.len() == self.0.len() && passed(&round) == 0;
                if is_over && admitted >= at_least {
                    break;
                }
                tokio::task::yield_now().await;
            }
        };
        let ended = timeout(PATIENCE, spending).await;
        assert!(ended.is_ok(), "{admitted} of {at_least}");
        admitted
    }
}

fn passed(round: &[Decision]) -> u32 {
    let passed = round.iter().filter(|decision| decision.allowed());
    u32::try_from(passed.count()).unwrap()
}

/// The units that a process still holds after a decision from memory.
fn held(decision: &Decision) -> Option<u32> {
    let is_leased = decision.source() == Source::Lease;
    decision.remaining().filter(|_| is_leased)
}

/// The units that all processes together may hold.
const ALL_HELD: u32 = HELD * PROCESSES;

/// In a runtime of one thread, nothing is given back between the last decision of a process and its end.
#[tokio::test]
async fn units_of_a_process_that_dies_stay_charged_and_those_of_one_that_ends_come_back_once() {
    let server = Server::start();
    let mut fleet = Fleet::start(&server.url()).await;
    let mut admitted = fleet.begin().await;
    fleet.0.remove(1).close().await.unwrap();
    let dead = fleet.0.remove(0);
    let lost = loop {
        let spent = dead.spend(&Transaction::new("hot", "id")).await.unwrap();
        admitted += u32::from(spent.allowed());
        if let Some(held) = held(&spent) {
            break held;
        }
    };
    drop(dead);
    // The others use up what the store has left, and all that they hold.
    let left = BURST - ALL_HELD - lost - admitted;
    assert_eq!(fleet.exhaust(left).await, left);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_empty_server_with_leases_admits_one_burst_more() {
    let server = Server::start();
    let fleet = Fleet::start(&server.url()).await;
    assert!(fleet.begin().await <= BURST);
    server.kill();
    server.restart();
    // The store's part of the burst is new, and what processes hold is that which they charged before.
    let again = fleet.exhaust(BURST - 2 * ALL_HELD).await;
    assert!(again <= BURST, "{again}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failover_with_leases_out_admits_no_more_than_the_burst() {
    let sentinels = Sentinels::start();
    let fleet = Fleet::start(&sentinels.url()).await;
    let before = fleet.begin().await;
    replicated(sentinels.master());
    sentinels.fail_over();
    let all = before + fleet.exhaust(BURST - 2 * ALL_HELD - before).await;
    assert!(all <= BURST, "{all}");
}
