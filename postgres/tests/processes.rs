//! Several processes with one table. The others are this executable, with a test that is run only so.

use std::{
    env,
    io::Write,
    process::{Child, Command, Stdio},
    time::Duration,
};

use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;
use tollgate::{
    Limit, Limiter, Limits, Transaction,
    quota::Per,
    testing::{block_on, random::Random},
};
use tollgate_postgres::PostgresBackend;

use crate::{
    eventually::{PATIENCE, eventually_async},
    server::Server,
};

const QUOTA: u32 = 800;
const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

/// The address of the server and the table, for another process.
const CHILD: &str = "TOLLGATE_POSTGRES_CHILD";

/// How long a transaction of another process can be idle.
const DEADLINE: Duration = Duration::from_millis(500);

fn child(server: &Server, table: &str) -> Child {
    let mut command = Command::new(env::current_exe().expect("it runs"));
    command.args([
        "--exact",
        "processes::other_process",
        "--ignored",
        "--nocapture",
    ]);
    command.env(CHILD, format!("{} {table}", server.url()));
    command.stdout(Stdio::piped()).spawn().expect("it runs")
}

fn limiter(backend: PostgresBackend) -> Limiter {
    let limits = Limits::builder().limit("quota", Limit::quota(QUOTA, Per::Month));
    Limiter::new(limits.build().expect("it is right"), backend)
}

/// Spends for random clients in random order until each is denied. Returns the number admitted for each client.
async fn spend_all(limiter: &Limiter, seed: u64) -> [u32; KEYS.len()] {
    let mut callers = JoinSet::new();
    for caller in 0..16 {
        let limiter = limiter.clone();
        let mut random = Random(seed + caller);
        callers.spawn(async move {
            let mut admitted = [0; KEYS.len()];
            let mut denied = 0;
            while denied < 200 {
                let mut keys: Vec<_> = (0..KEYS.len()).collect();
                // Batches of half of the clients, and then one client at a time.
                let most = if denied < 50 { 4 } else { 1 };
                keys.sort_by_cached_key(|_| random.below(1000));
                keys.truncate(usize::try_from(random.below(most)).expect("it is small") + 1);
                let batch = keys.iter().map(|key| Transaction::new("quota", KEYS[*key]));
                let batch: Vec<_> = batch.collect();
                match limiter.spend_batch(&batch).await {
                    Ok(decided) if decided.allowed() => {
                        keys.iter().for_each(|key| admitted[*key] += 1);
                    }
                    Ok(_) => denied += 1,
                    // A process that was stopped has not charged it.
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            }
            admitted
        });
    }
    let all = callers.join_all().await.into_iter();
    all.fold([0; KEYS.len()], |sum, one| {
        std::array::from_fn(|key| sum[key] + one[key])
    })
}

#[test]
#[ignore = "it is another process of a test"]
fn other_process() {
    let Ok(text) = env::var(CHILD) else { return };
    let (url, table) = text.split_once(' ').expect("two words");
    block_on(async {
        let pool = PgPoolOptions::new()
            .max_connections(2)
            .acquire_timeout(PATIENCE);
        let pool = pool.connect_lazy(url).expect("it is a URL");
        let backend = PostgresBackend::new(pool).table(table).deadline(DEADLINE);
        let admitted = spend_all(&limiter(backend), 1000).await;
        let line = admitted.map(|n| n.to_string()).join(" ");
        writeln!(std::io::stdout(), "\nadmitted {line}").expect("it is read");
    });
}

fn admitted_by(child: Child) -> Vec<u32> {
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("admitted "));
    let numbers = line.unwrap_or_else(|| panic!("{text}")).split(' ');
    numbers.map(|n| n.parse().expect("a number")).collect()
}

#[test]
fn processes_admit_the_limit_together_without_deadlocks() {
    block_on(async {
        let server = Server::shared();
        let backend = server.backend("together").await;
        let other = child(server, "together");
        let limiter = limiter(backend);
        eventually_async("the other process has begun", async || {
            let one = limiter.peek(&Transaction::new("quota", "a")).await;
            one.is_ok_and(|left| left.remaining() < Some(QUOTA))
        })
        .await;
        let ours = spend_all(&limiter, 0).await;
        let theirs = admitted_by(other);
        for (ours, theirs) in ours.iter().zip(theirs) {
            assert_eq!(ours + theirs, QUOTA);
            assert!(*ours < QUOTA && theirs < QUOTA, "both have had a part");
        }
        assert!(!server.log().contains("deadlock"), "{}", server.log());
    });
}

#[test]
fn process_uses_two_connections_of_a_larger_pool() {
    const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pair'";
    block_on(async {
        let server = Server::shared();
        server.backend("pair").await;
        let url = format!("{}?application_name=pair", server.url());
        let pool = PgPoolOptions::new().acquire_timeout(PATIENCE);
        let backend = PostgresBackend::new(pool.connect_lazy(&url).unwrap());
        spend_all(&limiter(backend.table("pair").deadline(PATIENCE)), 0).await;
        // A slow login is tried beside the pool as well, to find its reason.
        eventually_async("two are open", async || server.number(OPEN).await == 2).await;
    });
}

/// A process that is paused in its transaction loses its locks.
#[test]
fn stopped_process_does_not_block_others() {
    const OPEN: &str = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%paused%'";
    block_on(async {
        let server = Server::shared();
        let backend = server.backend("paused").await;
        let other = child(server, "paused");
        let signal = |signal: &str| {
            let mut kill = Command::new("kill");
            let status = kill.args(["-s", signal, &other.id().to_string()]).status();
            assert!(status.expect("it runs").success());
        };
        // The server is asked twice, since what was on its way may still arrive.
        let is_in_transaction =
            async || server.number(OPEN).await > 0 && server.number(OPEN).await > 0;
        loop {
            signal("STOP");
            if is_in_transaction().await {
                break;
            }
            signal("CONT");
            tokio::task::yield_now().await;
        }
        let limiter = limiter(backend);
        let all: Vec<_> = KEYS.map(|key| Transaction::new("quota", key)).into();
        let decided = limiter.spend_batch(&all).await;
        let admitted = u32::from(decided.expect("it is decided").allowed());
        assert_eq!(
            server.number(OPEN).await,
            0,
            "the server has ended the transaction"
        );
        signal("CONT");
        let ours = spend_all(&limiter, 0).await;
        let theirs = admitted_by(other);
        for (ours, theirs) in ours.iter().zip(theirs) {
            let all = admitted + ours + theirs;
            assert!(all <= QUOTA, "{all}");
        }
    });
}
