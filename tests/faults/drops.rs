//! Requests whose callers have stopped waiting.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::timeout};
use tollgate::{Transaction, testing::random::Random};

use crate::{
    eventually::{PATIENCE, eventually},
    load::id_of,
    redis_support::{Cluster, Proxy, Server},
    stack::{Answer, BURST, Stack, charged, connections, spend},
};

/// The results of the calls of one id.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    admitted: u32,
    dropped: u32,
}

type Sums = BTreeMap<usize, Sum>;

/// Spends with ten tasks, each of them with a tenth of the ids, and gives calls up after up to five milliseconds.
async fn give_up(stack: &Stack, ids: usize, calls: usize) -> Sums {
    let mut tasks = JoinSet::new();
    for task in 0..10 {
        let limiter = stack.limiter.clone();
        tasks.spawn(async move {
            let mut random = Random(task as u64);
            let mut sums = Sums::new();
            for call in 0..calls / 10 {
                let id = (task + 10 * call) % ids;
                let patience = Duration::from_micros(random.below(5000));
                let answer = timeout(patience, spend(&limiter, "refuse", &id_of(id))).await;
                let sum = sums.entry(id).or_default();
                match answer {
                    Ok(Answer::Allowed) => sum.admitted += 1,
                    Ok(Answer::Denied) => {}
                    Ok(Answer::AllowedLocally | Answer::Without) => panic!("the store is there"),
                    Err(_) => sum.dropped += 1,
                }
            }
            sums
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_dropped_are_charged_at_most_once_and_hold_no_place() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let stack = Stack::with_deadline(proxy.url(), PATIENCE).await;
    proxy.delay(Duration::from_millis(2));
    let sums = give_up(&stack, 200, 6000).await;
    proxy.delay(Duration::ZERO);
    // Earlier calls are done before this one is answered.
    spend(&stack.limiter, "refuse", "last").await;
    let (mut admitted, mut dropped, mut all) = (0, 0, 0);
    for (id, sum) in sums {
        let charged = charged(&server, "refuse", &id_of(id));
        let range = sum.admitted..=(sum.admitted + sum.dropped).min(BURST);
        assert!(range.contains(&charged), "{id}: {charged} for {sum:?}");
        admitted += sum.admitted;
        dropped += sum.dropped;
        all += charged;
    }
    println!("{admitted} admitted and {dropped} dropped: {all} charged");
    assert!(dropped > 500, "{dropped}");
    stack.assert_never_opened();
    eventually("there is one connection", || connections(&server) == 1);
    stack.end([&server]);
}

/// Spends batches over two of 50 ids. Each is given up after up to twice the time of the first one, so about half of them are.
async fn give_up_batches(stack: &Stack, first: usize, random: &mut Random, sums: &mut Sums) {
    let mut usual = PATIENCE;
    for call in 0..500 {
        let pair = [first + call % 50, first + (call + 1) % 50];
        let ids = pair.map(id_of);
        let batch = [0, 1].map(|index| Transaction::new("refuse", &ids[index]));
        let patience = match call {
            0 => PATIENCE,
            _ => usual * random.units(0, 5000) / 2500,
        };
        let begun = Instant::now();
        let answer = timeout(patience, stack.limiter.spend_batch(&batch)).await;
        if call == 0 {
            usual = begun.elapsed();
        }
        for id in pair {
            let sum = sums.entry(id).or_default();
            match &answer {
                Ok(decided) => sum.admitted += u32::from(decided.as_ref().unwrap().allowed()),
                Err(_) => sum.dropped += 1,
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_slots_that_are_dropped_are_kept_or_given_back() {
    let cluster = Cluster::start();
    let stack = Stack::with_deadline(cluster.url(), PATIENCE).await;
    let (mut sums, mut random) = (Sums::new(), Random(0));
    // Ids that have spent all are denied at once, and their batches never dropped: there are others in each round.
    for round in 0.. {
        give_up_batches(&stack, 50 * round, &mut random, &mut sums).await;
        let [dropped, admitted] = [|sum: &Sum| sum.dropped, |sum: &Sum| sum.admitted]
            .map(|count| sums.values().map(count).sum::<u32>());
        println!("round {round}: {dropped} dropped, {admitted} admitted");
        if round >= 2 && dropped > 100 && admitted > 100 {
            break;
        }
    }
    // Afterwards, all calls that had begun are done.
    stack.end(cluster.masters().iter().map(|node| &***node));
    for (id, sum) in sums {
        let owner = cluster.owner(cluster.slot_of_client(&id_of(id)));
        let charged = charged(owner, "refuse", &id_of(id));
        let range = sum.admitted..=(sum.admitted + sum.dropped).min(BURST);
        assert!(range.contains(&charged), "{id}: {charged} for {sum:?}");
    }
}
