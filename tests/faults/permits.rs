//! Permits of processes on one store: what runs at once, and what becomes of the permits of a process that ends, is killed,
//! stands still or is cut off.

use std::{
    env,
    io::{BufRead, BufReader, Write, stdin},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
    thread,
    time::Duration,
};

use tokio::task::{JoinSet, spawn_blocking, yield_now};
use tollgate::{
    Limit, Limiter, Limits, RedisBackend,
    backend::{DenyCache, FailurePolicy},
    limiter::{LimitHandle, Permit},
};

use crate::{
    eventually::{PATIENCE, eventually, eventually_async},
    failover::replicated,
    redis_support::{Cluster, Proxy, Sentinels, Server},
    stack::connect,
};

/// How many pieces of work run at once.
const AT_ONCE: u32 = 5;
/// How many tasks each of two processes has.
const TASKS: usize = 300;
/// A short hold, and one that outlasts every test.
const SHORT: u64 = 2;
const LONG: u64 = 24 * 3600;

async fn limiter(url: &str, hold: u64) -> Limiter {
    let hold = Duration::from_secs(hold);
    // A permit that is due is renewed before the hold is over, even if a call waits for a server that is cut off.
    let timeout = (hold / 4).min(PATIENCE);
    Limiter::new(limits(hold), connect(url, timeout).await)
}

fn limits(hold: Duration) -> Limits {
    let limit = Limit::concurrent(AT_ONCE).hold(hold);
    Limits::builder().limit("work", limit).build().unwrap()
}

async fn enter(limit: &LimitHandle) -> Option<Permit> {
    limit.enter("all").await.unwrap().ok()
}

/// The program of a process of these tests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it is a process of the other tests"]
async fn process_with_permits() {
    let [does, url, hold] =
        ["PERMITS_DO", "PERMITS_URL", "PERMITS_HOLD"].map(|name| env::var(name).unwrap());
    let limiter = limiter(&url, hold.parse().unwrap()).await;
    match &*does {
        "crowd" => crowd(&limiter, &url).await,
        _ => holder(&limiter).await,
    }
}

/// Does work in many tasks, and counts beside the limiter what runs in all processes.
async fn crowd(limiter: &Limiter, url: &str) {
    let counter = redis::Client::open(url).unwrap();
    let counter = counter.get_connection().unwrap();
    let counter: &Mutex<_> = Box::leak(Box::new(Mutex::new(counter)));
    let count = |verb: &str, key: &str| {
        let mut counter = counter.lock().unwrap();
        redis::cmd(verb)
            .arg(key)
            .query::<u32>(&mut *counter)
            .unwrap()
    };
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let limit = limiter.limit("work").unwrap();
        tasks.spawn(async move {
            let permit = loop {
                match enter(&limit).await {
                    Some(permit) => break permit,
                    None => yield_now().await,
                }
            };
            let running = count("INCR", "running");
            assert!(running <= AT_ONCE, "{running} run at once");
            tokio::time::sleep(Duration::from_millis(1)).await;
            count("DECR", "running");
            count("INCR", "done");
            match task % 2 {
                0 => drop(permit),
                _ => assert!(permit.release().await.unwrap()),
            }
            running
        });
    }
    let most = tasks.join_all().await.into_iter().max();
    limiter.close().await.unwrap();
    println!("\nmost {}", most.unwrap());
}

/// Holds all permits, and obeys orders, line by line.
async fn holder(limiter: &Limiter) {
    let limit = limiter.limit("work").unwrap();
    let mut permits = Vec::new();
    for _ in 0..AT_ONCE {
        permits.push(enter(&limit).await.expect("one is left"));
    }
    println!("\nholds");
    loop {
        let order = spawn_blocking(|| stdin().lines().next().transpose().unwrap());
        match order.await.unwrap().as_deref() {
            Some("look") => {
                let held = permits.iter().filter(|permit| permit.is_held()).count();
                println!("held {held}");
            }
            Some("end") => {
                // After a failover, it may have to reach the store first.
                eventually_async("it reaches the store", async || {
                    limit.peek("all").await.is_ok()
                })
                .await;
                limiter.close().await.unwrap();
                println!("ended");
            }
            _ => return,
        }
    }
}

struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(does: &str, url: &str, hold: u64) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "permits::process_with_permits"])
            .args(["--ignored", "--nocapture"])
            .envs([("PERMITS_DO", does), ("PERMITS_URL", url)])
            .env("PERMITS_HOLD", hold.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let stdin = child.stdin.take().unwrap();
        Self {
            child,
            stdin,
            lines,
        }
    }

    /// Starts one that holds all permits.
    fn holding(url: &str, hold: u64) -> Self {
        let mut worker = Self::start("hold", url, hold);
        worker.line("holds");
        worker
    }

    /// Returns the text after a word, on the next line that begins with it.
    fn line(&mut self, word: &str) -> String {
        let found = self.lines.find_map(|line| {
            let line = line.unwrap();
            line.strip_prefix(word).map(|rest| rest.trim().to_owned())
        });
        found.unwrap_or_else(|| panic!("the process has not written `{word}`"))
    }

    fn order(&mut self, order: &str) {
        writeln!(self.stdin, "{order}").unwrap();
    }

    /// Returns the number of permits that the process holds, by its own account.
    fn held(&mut self) -> u32 {
        self.order("look");
        self.line("held").parse().unwrap()
    }

    /// Ends it with `close`.
    fn end(&mut self) {
        self.order("end");
        self.line("ended");
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status();
        assert!(status.unwrap().success(), "{kill}");
    }

    /// Stops it, and waits until it stands still.
    fn stop(&self) {
        self.signal("STOP");
        let stat = format!("/proc/{}/stat", self.child.id());
        eventually("the process stands still", || {
            let stat = std::fs::read_to_string(&stat).unwrap();
            let (_, state) = stat.rsplit_once(") ").unwrap();
            state.starts_with('T')
        });
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a server's clock has gone on by a hold, which is as slow as the machine is.
fn wait_for_hold(server: &Server, hold: u64) {
    let end = server.time() + hold * 1_000_000;
    eventually("the hold is over", || server.time() >= end);
}

/// Returns the number of permits that are left.
async fn left(limiter: &Limiter) -> u32 {
    let limit = limiter.limit("work").unwrap();
    let probe = limit.cost(0).check("all").await.unwrap();
    probe.remaining().unwrap()
}

#[test]
fn two_processes_with_600_tasks_never_run_more_than_the_limit() {
    let server = Server::start();
    let mut workers = [0; 2].map(|_| Worker::start("crowd", &server.url(), LONG));
    for worker in &mut workers {
        let most: u32 = worker.line("most").parse().unwrap();
        assert!((1..=AT_ONCE).contains(&most), "{most}");
        assert!(worker.child.wait().unwrap().success());
    }
    assert_eq!(server.query::<usize>(&["GET", "done"]), 2 * TASKS);
    assert_eq!(server.query::<usize>(&["GET", "running"]), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_closes_gives_its_permits_back_immediately() {
    let server = Server::start();
    let limiter = limiter(&server.url(), LONG).await;
    let mut worker = Worker::holding(&server.url(), LONG);
    assert_eq!((worker.held(), left(&limiter).await), (AT_ONCE, 0));
    worker.end();
    assert_eq!(left(&limiter).await, AT_ONCE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_of_a_killed_process_come_back_after_their_hold() {
    for hold in [SHORT, LONG] {
        let server = Server::start();
        let limiter = limiter(&server.url(), hold).await;
        let mut worker = Worker::holding(&server.url(), hold);
        worker.child.kill().unwrap();
        worker.child.wait().unwrap();
        if hold == LONG {
            assert_eq!(left(&limiter).await, 0);
        } else {
            wait_for_hold(&server, hold);
            assert_eq!(left(&limiter).await, AT_ONCE);
        }
    }
}

/// Lets others take all permits of a worker that was paused for longer than the hold: at most twice the limit runs then.
async fn assert_replaced(limiter: &Limiter, mut goes_on: impl FnMut() -> u32) {
    let limit = limiter.limit("work").unwrap();
    let mut others = Vec::new();
    while let Some(permit) = enter(&limit).await {
        others.push(permit);
    }
    // A slow machine could have lost some of these as well.
    assert!(others.len() >= AT_ONCE as usize);
    assert_eq!(goes_on(), 0, "the worker says that it holds none");
    drop(others);
    // The permits that the worker has lost are never given back to it.
    eventually_async("all are free", async || left(limiter).await == AT_ONCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_is_paused_for_longer_than_the_hold_knows_that_its_permits_are_lost() {
    let server = Server::start();
    let limiter = limiter(&server.url(), SHORT).await;
    let mut worker = Worker::holding(&server.url(), SHORT);
    worker.stop();
    wait_for_hold(&server, SHORT);
    assert_replaced(&limiter, || {
        worker.signal("CONT");
        worker.held()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_is_cut_off_for_longer_than_the_hold_knows_that_its_permits_are_lost() {
    let server = Server::start();
    let proxy = Proxy::start(server.addr()).await;
    let limiter = limiter(&server.url(), SHORT).await;
    let url = proxy.url();
    let mut worker = spawn_blocking(move || Worker::holding(&url, SHORT))
        .await
        .unwrap();
    proxy.refuse(true);
    proxy.close_all().await;
    wait_for_hold(&server, SHORT);
    assert_replaced(&limiter, || worker.held()).await;
    // It takes permits again once it reaches the store.
    proxy.refuse(false);
    worker.end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_outlive_a_failover() {
    let sentinels = Sentinels::start();
    let url = sentinels.url();
    let mut worker = Worker::holding(&url, LONG);
    replicated(sentinels.master());
    sentinels.fail_over();
    let limiter = limiter(&url, LONG).await;
    assert_eq!((worker.held(), left(&limiter).await), (AT_ONCE, 0));
    worker.end();
    assert_eq!(left(&limiter).await, AT_ONCE);
}

/// As services use it: with a short deadline, and local decisions beyond it.
async fn with_policy(url: String) -> Limiter {
    let redis = RedisBackend::new(url).unwrap();
    redis.connected(PATIENCE).await.unwrap();
    let limits = limits(Duration::from_secs(LONG));
    Limiter::new(limits, FailurePolicy::new(DenyCache::new(redis)))
}

/// Waits until the store has all permits of clients back.
async fn come_back(url: &str, clients: u32) {
    let direct = limiter(url, LONG).await;
    let limit = direct.limit("work").unwrap().cost(0);
    for client in 0..clients {
        let id = client.to_string();
        let what = format!("permits of {id} come back");
        eventually_async(&what, async || {
            limit.check(&id).await.unwrap().remaining() == Some(AT_ONCE)
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_come_back_however_late_the_store_is() {
    let server = Server::start();
    let limiter = with_policy(server.url()).await;
    let limit = limiter.limit("work").unwrap();
    let mut permits = Vec::new();
    for client in 0..8 {
        for _ in 0..2 {
            permits.push(limit.enter(&client.to_string()).await.unwrap().unwrap());
        }
    }
    server.pause();
    permits.truncate(8);
    // The store makes these charges after the process has decided alone.
    for client in 0..8 {
        drop(limit.enter(&client.to_string()).await.unwrap().unwrap());
    }
    drop(permits);
    server.resume();
    come_back(&server.url(), 8).await;
    limiter.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_end_in_a_failover_come_back() {
    let cluster = Cluster::start();
    let limiter = with_policy(cluster.url()).await;
    let limit = limiter.limit("work").unwrap();
    let mut permits = Vec::new();
    for client in 0..40 {
        permits.push(limit.enter(&client.to_string()).await.unwrap().unwrap());
    }
    let master = cluster.masters()[0];
    replicated(master);
    thread::scope(|scope| {
        scope.spawn(|| cluster.fail_over(master));
        eventually("the master is down", || !master.is_up());
        drop(permits);
    });
    come_back(&cluster.url(), 40).await;
}
