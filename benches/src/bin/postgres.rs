//! A decision on PostgreSQL beside what services without a limiter write, and beside `SELECT 1`, through pools of the same size.
//!
//! `DATABASE_URL=postgres://... cargo run --release -p tollgate-benches --bin postgres [SECONDS ROUNDS]` takes about a minute and a half.
//! It creates the tables `tollgate` and `naive`, and needs an idle machine and a server that does nothing else.

use std::{
    env,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::task::JoinSet;
use tollgate::{Limit, Limiter, Limits, Transaction, backend::FailurePolicy};
use tollgate_postgres::PostgresBackend;

/// The connections of each pool. The backend uses two of them.
const POOL: u32 = 8;

const KEYS: u64 = 10_000;

/// A fixed window in one statement, as services write it.
const NAIVE: &str = "INSERT INTO naive VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET used = naive.used + 1 RETURNING used";

/// The ways to decide, the naive one first.
const WAYS: [&str; 4] = [
    "naive statement",
    "SELECT 1",
    "tollgate",
    "with FailurePolicy",
];

/// Callers, and keys from which each draws.
const LOADS: [(usize, u64); 3] = [(256, KEYS), (256, 1), (1, KEYS)];

/// The decisions and times of one way in one round.
#[derive(Clone, Copy)]
struct Round {
    per_second: f64,
    /// In microseconds.
    median: f64,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let Ok(url) = env::var("DATABASE_URL") else {
        return Err("set DATABASE_URL to a server that does nothing else, such as postgres://postgres@localhost/postgres".into());
    };
    let mut args = env::args().skip(1);
    let seconds = args.next().map_or(Ok(1.0), |text| text.parse())?;
    let rounds = args.next().map_or(Ok(5), |text| text.parse::<usize>())?;
    let setup = pool(&url, 1).await?;
    let table =
        "CREATE UNLOGGED TABLE IF NOT EXISTS naive (key text PRIMARY KEY, used bigint NOT NULL)";
    sqlx::query(table).execute(&setup).await?;
    PostgresBackend::new(setup.clone()).create_table().await?;
    let length = Duration::from_secs_f64(seconds);
    for (callers, keys) in LOADS {
        let mut all = vec![Vec::new(); WAYS.len()];
        for _ in 0..rounds {
            for (way, rounds) in all.iter_mut().enumerate() {
                let asker = Asker::new(way, &url).await?;
                rounds.push(load(asker, callers, keys, length).await);
            }
        }
        println!("{callers} callers, {keys} keys, medians of {rounds} rounds");
        let naive = medians(&all[0]);
        for (way, rounds) in WAYS.iter().zip(&all) {
            let Round { per_second, median } = medians(rounds);
            let rate = per_second / naive.per_second;
            let latency = median / naive.median;
            println!(
                "  {way:20} {per_second:9.0}/s {rate:6.2}  median {median:7.0} us {latency:6.2}"
            );
        }
    }
    Ok(())
}

fn medians(rounds: &[Round]) -> Round {
    let median = |of: fn(&Round) -> f64| {
        let mut values: Vec<_> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Round {
        per_second: median(|round| round.per_second),
        median: median(|round| round.median),
    }
}

async fn pool(url: &str, connections: u32) -> Result<PgPool, sqlx::Error> {
    let options = PgPoolOptions::new().max_connections(connections);
    options.connect(url).await
}

/// A way to decide, with its own pool.
enum Asker {
    Naive(PgPool),
    Ping(PgPool),
    Limiter(Limiter),
}

impl Asker {
    async fn new(way: usize, url: &str) -> Result<Self, Box<dyn Error>> {
        let pool = pool(url, POOL).await?;
        let limits = || {
            Limits::builder()
                .limit("limit", Limit::per_second(100).burst(100))
                .build()
        };
        // Without a policy, a slow decision is no error here.
        let patient = |pool| PostgresBackend::new(pool).deadline(Duration::from_secs(5));
        match way {
            0 => Ok(Self::Naive(pool)),
            1 => Ok(Self::Ping(pool)),
            2 => Ok(Self::Limiter(Limiter::new(limits()?, patient(pool)))),
            _ => {
                let backend = FailurePolicy::new(PostgresBackend::new(pool));
                Ok(Self::Limiter(Limiter::new(limits()?, backend)))
            }
        }
    }

    async fn ask(&self, key: u64) {
        let id = format!("10.{}.{}.{}", key / 2500, key / 50 % 50, key % 50);
        match self {
            Self::Naive(pool) => {
                let used = sqlx::query_scalar::<_, i64>(NAIVE)
                    .bind(id)
                    .fetch_one(pool)
                    .await;
                used.expect("it is counted");
            }
            Self::Ping(pool) => {
                let answered = sqlx::query("SELECT 1").execute(pool).await;
                answered.expect("it answers");
            }
            Self::Limiter(limiter) => {
                let decision = limiter.spend(&Transaction::new("limit", &id)).await;
                decision.expect("it is decided");
            }
        }
    }
}

/// Lets callers ask for random keys, each one question after the other.
async fn load(asker: Asker, callers: usize, keys: u64, length: Duration) -> Round {
    let asker = Arc::new(asker);
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let asker = Arc::clone(&asker);
        let mut random = (caller as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        tasks.spawn(async move {
            let mut took = Vec::new();
            while begun.elapsed() < length {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let asked = Instant::now();
                asker.ask(random % keys).await;
                took.push(asked.elapsed());
                // A decision that is made in this process never waits.
                tokio::task::yield_now().await;
            }
            took
        });
    }
    let mut all = tasks.join_all().await.concat();
    let elapsed = begun.elapsed();
    all.sort_unstable();
    Round {
        per_second: all.len() as f64 / elapsed.as_secs_f64(),
        median: all[all.len() / 2].as_secs_f64() * 1e6,
    }
}
