//! Lines that are kept in Redis: by several processes, and left by callers that give up.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::{task::JoinSet, time};
use tollgate::{
    Limit, Limiter, Limits,
    backend::{DenyCache, FailurePolicy},
    limiter::LimitHandle,
    transaction::Mode,
};

use crate::{CLUSTER, PATIENCE, SERVER, TIMEOUT, connect};

const HOUR: Duration = Duration::from_secs(3600);

/// An id that no other test and no other run has.
fn id() -> String {
    static IDS: AtomicU32 = AtomicU32::new(0);
    let number = IDS.fetch_add(1, Ordering::Relaxed);
    format!("waiting-{}-{number}", std::process::id())
}

async fn line(url: String, limit: Limit) -> LimitHandle {
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    let backend = FailurePolicy::new(DenyCache::new(connect(url).await)).deadline(TIMEOUT);
    Limiter::new(limits, backend).limit("l").unwrap()
}

/// In how many hours the bucket is full, rounded up.
async fn hours_taken(limit: &LimitHandle, id: &str) -> u64 {
    let probe = limit.cost(0).mode(Mode::CheckOnly).check(id).await;
    probe
        .unwrap()
        .reset_after()
        .as_secs()
        .div_ceil(HOUR.as_secs())
}

/// Callers that give up a little later each time: before, during and after the store's answer. The bucket has another two
/// hours to go whenever one is in line.
async fn callers_that_give_up_are_refunded(url: String) {
    let burst = Limit::per_hour(1).burst(2);
    let limit = line(url, burst.max_wait(1000 * HOUR)).await;
    let id = id();
    assert!(limit.cost(2).spend(&id).await.unwrap().allowed());
    for round in 0..60_u32 {
        let waits = limit.acquire(&id);
        let patience = Duration::from_micros(100) * (round % 30);
        assert!(time::timeout(patience, waits).await.is_err(), "it waits");
        let back = async {
            while hours_taken(&limit, &id).await > 2 {
                tokio::task::yield_now().await;
            }
        };
        time::timeout(PATIENCE, back).await.unwrap();
    }
    // Whoever comes next is the first in line, so nobody was refunded too much either.
    let next = limit.spend(&id).await.unwrap();
    let delay = next.delay();
    assert!(delay > HOUR - PATIENCE && delay <= HOUR, "{delay:?}");
}

#[tokio::test]
async fn callers_that_give_up_are_refunded_by_a_server() {
    callers_that_give_up_are_refunded(SERVER.url()).await;
}

#[tokio::test]
async fn callers_that_give_up_are_refunded_by_a_cluster() {
    callers_that_give_up_are_refunded(CLUSTER.url()).await;
}

const WAITERS: u32 = 500;
const BURST: u64 = 10;
/// T is a millisecond.
const INTERVAL_US: u64 = 1000;

fn thousand_per_second() -> Limit {
    let burst = u32::try_from(BURST).unwrap();
    Limit::per_second(1000)
        .burst(burst)
        .max_wait(60 * Duration::from_secs(1))
}

/// A process that waits so often, as soon as it is told to, and writes when each of its callers started by Redis's clock.
#[tokio::test]
#[ignore = "it is run by another test"]
async fn process_with_waiters() {
    let (url, id) = (env::var("WAITING_URL"), env::var("WAITING_ID").unwrap());
    let limit = line(url.unwrap(), thousand_per_second()).await;
    println!("\nready");
    let told = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    told.await.unwrap().unwrap();
    let mut waiters = JoinSet::new();
    for _ in 0..WAITERS {
        let (limit, id) = (limit.clone(), id.clone());
        waiters.spawn(async move {
            let began = time::Instant::now();
            let decision = limit.acquire(&id).await.unwrap();
            assert!(decision.allowed());
            assert!(began.elapsed() >= decision.delay(), "it starts early");
            let delay = u64::try_from(decision.delay().as_micros()).unwrap();
            decision.decided_at().unwrap().as_micros() + delay
        });
    }
    for start in waiters.join_all().await {
        println!("start {start}");
    }
}

struct Process {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Process {
    fn start(id: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "waiting::process_with_waiters"])
            .args(["--ignored", "--nocapture"])
            .envs([("WAITING_URL", &*SERVER.url()), ("WAITING_ID", id)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut process = Self { child, lines };
        process.line("ready");
        process
    }

    /// What follows a word, on the next line that begins with it.
    fn line(&mut self, word: &str) -> String {
        let found = self.lines.find_map(|line| {
            let line = line.unwrap();
            line.strip_prefix(word).map(|rest| rest.trim().to_owned())
        });
        found.unwrap_or_else(|| panic!("the process has not written `{word}`"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn thousand_waiters_in_two_processes_keep_to_the_rate_and_nobody_starves() {
    let id = id();
    let mut processes = [0; 2].map(|_| Process::start(&id));
    for process in &mut processes {
        let mut stdin = process.child.stdin.take().unwrap();
        stdin.write_all(b"go\n").unwrap();
    }
    let mut starts = Vec::new();
    for process in &mut processes {
        for _ in 0..WAITERS {
            starts.push(process.line("start").parse::<u64>().unwrap());
        }
    }
    starts.sort_unstable();
    for (i, first) in starts.iter().enumerate() {
        for (started, last) in (1..).zip(&starts[i..]) {
            let most = BURST + (last - first) / INTERVAL_US;
            assert!(started <= most, "{started} within {} us", last - first);
        }
    }
}

/// The buckets are on several servers, each of which tells their times by a clock of its own.
#[tokio::test]
async fn batch_over_several_slots_leaves_each_of_its_lines() {
    let burst = Limit::per_hour(1).burst(2).max_wait(1000 * HOUR);
    let limits = Limits::builder()
        .limit("l", burst)
        .limit("window", Limit::window(3, 10 * HOUR))
        .build();
    let backend = connect(CLUSTER.url()).await;
    let limiter = Limiter::new(limits.unwrap(), backend);
    let limit = limiter.limit("l").unwrap();
    let ids = [0; 8].map(|_| id());
    for id in &ids {
        assert!(limit.cost(2).spend(id).await.unwrap().allowed());
    }
    let lines = ids.iter().map(|id| limit.transaction(id));
    let mut batch: Vec<_> = lines.collect();
    batch.push(tollgate::Transaction::new("window", &ids[0]));
    for _ in 0..3 {
        let waits = limiter.spend_batch(&batch).await.unwrap();
        assert!(waits.allowed());
        let delay = waits.delay();
        assert!(delay > HOUR - PATIENCE && delay <= HOUR, "{delay:?}");
        for (member, decision) in batch.iter().zip(waits.members()) {
            let receipt = decision.receipt().unwrap();
            let limit = limiter.limit(member.limit.as_str()).unwrap();
            let refunded = limit.refund_receipt(member.id, receipt).await.unwrap();
            assert!(refunded.refunded(), "{member:?}");
        }
        for id in &ids {
            assert_eq!(hours_taken(&limit, id).await, 2);
        }
    }
}
