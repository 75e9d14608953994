//! Batches over two slots of a cluster, with others in between.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    backend::BackendError,
    limiter::LimiterError,
    quota::Per,
    tiers::Tier,
    transaction::Mode::{self, CheckAndSpend, CheckOnly, Debit, SpendOnly},
};

use crate::{CLUSTER, connect, redis_support::Cluster};

const BURST: u32 = 20;

async fn limiter(cluster: &Cluster) -> Limiter {
    let limits = Limits::builder().limit("one", Limit::per_day(BURST));
    Limiter::new(limits.build().unwrap(), connect(cluster.url()).await)
}

/// Two ids in slots of different masters.
pub(crate) fn pair(name: &str) -> [String; 2] {
    pair_on(&CLUSTER, name)
}

fn pair_on(cluster: &Cluster, name: &str) -> [String; 2] {
    let owner = |id: &str| cluster.owner(cluster.slot_of_client(id)).id();
    let a = format!("{name}-a");
    let mut others = (0..).map(|number| format!("{name}-b{number}"));
    let b = others.find(|b| owner(b) != owner(&a)).unwrap();
    [a, b]
}

fn one(id: &str) -> Transaction<'_> {
    Transaction::new("one", id)
}

/// Spends from two ids this often at once, and returns how often that has passed.
async fn race(times: usize, limiter: &Limiter, ids: &[String; 2], cost: u32, mode: Mode) -> u32 {
    let mut tasks = JoinSet::new();
    for _ in 0..times {
        let limiter = limiter.clone();
        let ids = ids.clone();
        tasks.spawn(async move {
            let [a, b] = ids.each_ref().map(|id| one(id));
            let batch = [a.cost(cost), b.mode(mode)];
            limiter.spend_batch(&batch).await.unwrap().allowed()
        });
    }
    let passed = tasks.join_all().await.into_iter();
    passed.map(u32::from).sum()
}

/// Returns the units that are taken from a bucket.
async fn taken(limiter: &Limiter, id: &str) -> u32 {
    let left = limiter.check(&one(id).cost(0)).await.unwrap().remaining();
    BURST - left.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_are_not_asked() {
    let limiter = limiter(&CLUSTER).await;
    for number in 0..100 {
        let id = format!("replicas-{number}");
        let decided = limiter.spend_batch(&[one(&id), one("replicas")]).await;
        assert_eq!(decided.unwrap().allowed(), number < BURST);
        limiter.check(&one(&id)).await.unwrap();
    }
    let replicas = CLUSTER.replicas();
    assert_eq!(replicas.len(), 3);
    for command in ["cmdstat_evalsha", "cmdstat_eval", "cmdstat_get"] {
        // The backend tries all nodes that it knows, and replicas refuse its script.
        let mut asked = replicas.iter().map(|replica| replica.info(command));
        let is_refused = |stat: String| stat.is_empty() || stat.starts_with("calls=0,");
        assert!(asked.all(is_refused), "{command}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denial_in_a_race_is_refunded_once() {
    let limiter = limiter(&CLUSTER).await;
    let ids = pair("race");
    let [a, b] = &ids;
    limiter.spend(&one(a).cost(5)).await.unwrap();
    limiter.spend(&one(b).cost(BURST - 1)).await.unwrap();
    let passed = race(100, &limiter, &ids, 3, CheckAndSpend).await;
    assert!(passed <= 1, "{passed}");
    // One that was given back twice would have less taken than it had before.
    assert_eq!(taken(&limiter, a).await, 5 + 3 * passed);
    assert_eq!(taken(&limiter, b).await, BURST - 1 + passed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_without_a_vote_are_charged_if_the_batch_has_passed() {
    for mode in [Debit, SpendOnly, CheckOnly] {
        let limiter = limiter(&CLUSTER).await;
        let ids = pair(&format!("{mode:?}"));
        let [a, b] = &ids;
        let passed = race(60, &limiter, &ids, 2, mode).await;
        assert_eq!(passed, BURST / 2, "{mode:?}");
        let charged = if mode == CheckOnly { 0 } else { passed };
        assert_eq!(taken(&limiter, a).await, BURST, "{mode:?}");
        assert_eq!(taken(&limiter, b).await, charged, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_that_one_slot_refuses_charges_nothing_in_the_other() {
    let cluster = Cluster::start();
    let hour = Duration::from_secs(3600);
    let tiers = Limit::tiers([Tier::new(BURST, hour), Tier::new(1, hour).active(hour)]).unwrap();
    let limits = Limits::builder()
        .limit("one", Limit::per_day(BURST))
        .limit("window", Limit::window(BURST, hour))
        .limit("quota", Limit::quota(BURST, Per::Day))
        .limit("tiers", tiers)
        .build()
        .unwrap();
    let limiter = Limiter::new(limits, connect(cluster.url()).await);
    let [a, b] = pair_on(&cluster, "refused");
    let full = cluster.owner(cluster.slot_of_client(&b));
    full.configure("maxmemory", "1");
    for limit in ["one", "window", "quota", "tiers"] {
        for mode in [CheckAndSpend, SpendOnly, Debit] {
            let of_a = Transaction::new(limit, &a);
            let of_b = Transaction::new("one", &b).mode(mode);
            for _ in 0..3 {
                let before = limiter.check(&of_a).await.unwrap().remaining();
                let error = limiter.spend_batch(&[of_a, of_b]).await.unwrap_err();
                let after = limiter.check(&of_a).await.unwrap().remaining();
                let is_not_done = matches!(error, LimiterError::Backend(BackendError::NotDone(_)));
                // A grant of tiers cannot be given back, so it is made last.
                assert!(is_not_done, "{limit}, {mode:?}: {error:?}");
                assert_eq!(before, after, "{limit}, {mode:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refund_that_only_one_slot_makes_may_have_been_made() {
    let cluster = Cluster::start();
    let limiter = limiter(&cluster).await;
    let [a, b] = pair_on(&cluster, "refunded");
    limiter
        .spend_batch(&[one(&a).cost(9), one(&b).cost(9)])
        .await
        .unwrap();
    let both = [one(&a).cost(5), one(&b).cost(5)];
    let full = cluster.owner(cluster.slot_of_client(&b));
    full.configure("maxmemory", "1");
    let error = limiter.refund_batch(&both).await.unwrap_err();
    let is_unknown = matches!(error, LimiterError::Backend(BackendError::Unavailable(_)));
    assert!(is_unknown, "{error:?}");
    assert_eq!(taken(&limiter, &a).await, 4);
}
