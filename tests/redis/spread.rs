//! Batches over two slots of a cluster, with others in between.

use std::time::Duration;

use tokio::{task::JoinSet, time::timeout};
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    transaction::Mode::{CheckOnly, Debit, SpendOnly},
};

use crate::{CLUSTER, connect, load::wait_until};

const BURST: u32 = 20;

async fn limiter() -> Limiter {
    let limits = Limits::builder().limit("one", Limit::per_day(BURST));
    Limiter::new(limits.build().unwrap(), connect(CLUSTER.url()).await)
}

/// Two ids in slots of different masters.
pub(crate) fn pair(name: &str) -> [String; 2] {
    let owner = |id: &str| CLUSTER.owner(CLUSTER.slot_of(id)).id();
    let a = format!("{name}-a");
    let mut others = (0..).map(|number| format!("{name}-b{number}"));
    let b = others.find(|b| owner(b) != owner(&a)).unwrap();
    [a, b]
}

fn one(id: &str) -> Transaction<'_> {
    Transaction::new("one", id)
}

/// How much is taken from a bucket.
async fn taken(limiter: &Limiter, id: &str) -> u32 {
    let left = limiter.check(&one(id).cost(0)).await.unwrap().remaining();
    BURST - left.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_batches_and_singles_leave_the_burst_less_what_passed() {
    let (limiter, [a, b]) = (limiter().await, pair("storm"));
    let mut tasks = JoinSet::new();
    for number in 0..200 {
        let (limiter, a, b) = (limiter.clone(), a.clone(), b.clone());
        tasks.spawn(async move {
            match number % 4 {
                0 => (limiter.spend(&one(&a)).await.unwrap().allowed(), false),
                _ => {
                    let batch = [one(&a), one(&b)];
                    let passed = limiter.spend_batch(&batch).await.unwrap().allowed();
                    (passed, passed)
                }
            }
        });
    }
    let passed = tasks.join_all().await;
    let of_a = passed.iter().filter(|(a, _)| *a).count();
    let of_b = passed.iter().filter(|(_, b)| *b).count();
    assert!(of_a <= 20 && of_b <= 20, "{of_a} and {of_b}");
    // Nothing is held back once all have answered.
    let [of_a, of_b] = [of_a, of_b].map(|count| u32::try_from(count).unwrap());
    assert_eq!(
        (taken(&limiter, &a).await, taken(&limiter, &b).await),
        (of_a, of_b)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_race_denies_is_given_back_once() {
    let (limiter, [a, b]) = (limiter().await, pair("race"));
    limiter.spend(&one(&a).cost(5)).await.unwrap();
    limiter.spend(&one(&b).cost(BURST - 1)).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let (limiter, a, b) = (limiter.clone(), a.clone(), b.clone());
        tasks.spawn(async move {
            let batch = [one(&a).cost(3), one(&b)];
            limiter.spend_batch(&batch).await.unwrap().allowed()
        });
    }
    let passed = tasks.join_all().await.into_iter().filter(|passed| *passed);
    let passed = u32::try_from(passed.count()).unwrap();
    assert!(passed <= 1, "{passed}");
    // One that was given back twice would have less taken than it had before.
    assert_eq!(taken(&limiter, &a).await, 5 + 3 * passed);
    assert_eq!(taken(&limiter, &b).await, BURST - 1 + passed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_without_a_vote_are_charged_if_the_batch_has_passed() {
    for mode in [Debit, SpendOnly, CheckOnly] {
        let (limiter, [a, b]) = (limiter().await, pair(&format!("{mode:?}")));
        let mut tasks = JoinSet::new();
        for _ in 0..60 {
            let (limiter, a, b) = (limiter.clone(), a.clone(), b.clone());
            tasks.spawn(async move {
                let batch = [one(&a).cost(2), one(&b).mode(mode)];
                limiter.spend_batch(&batch).await.unwrap().allowed()
            });
        }
        let passed = tasks.join_all().await.into_iter().filter(|passed| *passed);
        let passed = u32::try_from(passed.count()).unwrap();
        assert_eq!(passed, BURST / 2, "{mode:?}");
        let charged = if mode == CheckOnly { 0 } else { passed };
        assert_eq!(taken(&limiter, &a).await, BURST, "{mode:?}");
        assert_eq!(taken(&limiter, &b).await, charged, "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_batch_is_charged_to_all_or_to_none() {
    let limiter = limiter().await;
    let mut spent = Vec::new();
    for number in 0..60 {
        let [a, b] = pair(&format!("dropped{number}"));
        // The debit follows once the vote is there.
        let batch = [one(&a), one(&b).mode(Debit)];
        let within = Duration::from_micros(50 * number);
        let answered = timeout(within, limiter.spend_batch(&batch)).await.is_ok();
        spent.push((answered, a, b));
    }
    wait_until("none is charged by half", async || {
        for (_, a, b) in &spent {
            if taken(&limiter, a).await != taken(&limiter, b).await {
                return false;
            }
        }
        true
    })
    .await;
    for (answered, a, _) in &spent {
        let taken = taken(&limiter, a).await;
        assert!((u32::from(*answered)..=1).contains(&taken), "{a}: {taken}");
    }
}
