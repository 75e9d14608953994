//! Prints the cost of a decision on Redis, next to raw commands of the same client on the same server, and the cost and
//! benefit of the wrappers.
//!
//! `redis [url]`: without a URL, the program starts a `redis-server` on a free port, and ends it afterwards. All sides
//! use one client with one connection, and take turns.

use std::{
    future::Future,
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, RedisBackend, Transaction,
    backend::{
        Backend, BackendError, DenyCache, FailurePolicy, Lease, async_trait,
        redis::fred::{
            clients::Client,
            error::Error,
            interfaces::ClientLike,
            types::{ClusterHash, CustomCommand, Value, config::Config},
        },
    },
    decision::Outcome,
    limit::LimitName,
    quota::Per,
    transaction::Batch,
};
use tollgate_benches::penalties;

/// The number of turns of each side, and the number of calls in a turn.
const TURNS: usize = 9;
const CALLS: u32 = 40_000;
const CALLERS: u32 = 256;
const KEYS: u32 = 10_000;
const LATENCIES: usize = 4_000;

/// A typical script of other limiters on Redis: seconds as floating-point numbers, the server's time, and figures as
/// text.
const PLAIN: &str = r"
local burst, rate, period, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local interval = period / rate
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local new_tat = tat + interval * cost
local room = now + interval * burst - new_tat
if room < 0 then
  return {0, 0, tostring(-room), tostring(tat - now)}
end
redis.call('SET', KEYS[1], tostring(new_tat), 'EX', math.ceil(new_tat - now))
return {1, math.floor(room / interval), tostring(-1), tostring(new_tat - now)}
";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("there is a runtime");
    let (url, _server) = match std::env::args().nth(1) {
        Some(url) => (url, None),
        None => Server::start(),
    };
    runtime.block_on(measure(&url)).expect("Redis answers");
}

/// No decision takes this long.
const PATIENCE: Duration = Duration::from_secs(5);

/// The number of ports to try.
const ATTEMPTS: usize = 10;

struct Server(Child);

impl Server {
    fn start() -> (String, Option<Self>) {
        let mut started = (0..ATTEMPTS).filter_map(|_| Self::try_start());
        let (url, server) = started.next().expect("redis-server starts");
        (url, Some(server))
    }

    /// Starts a server on a free port. Returns `None` if another program takes the port in the meantime.
    fn try_start() -> Option<(String, Self)> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("there is a free port");
        let port = address.port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]);
        let child = command.stdout(Stdio::null()).spawn();
        let mut server = Self(child.expect("redis-server is installed"));
        while std::net::TcpStream::connect(address).is_err() {
            if !matches!(server.0.try_wait(), Ok(None)) {
                return None;
            }
        }
        Some((format!("redis://{address}"), server))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn measure(url: &str) -> Result<(), Error> {
    let client = Client::new(Config::from_url(url)?, None, None, None);
    let _task = client.init().await?;
    let load = vec!["LOAD", PLAIN];
    let sha: String = client.custom(command("SCRIPT"), load).await?;
    let bare = || {
        let backend = RedisBackend::builder(client.clone()).timeout(PATIENCE);
        Arc::new(backend.build().expect("the client is one"))
    };
    let wrapped = FailurePolicy::new(DenyCache::new(bare())).deadline(PATIENCE);
    let sides = Arc::new(Sides {
        limiter: limiter(bare()),
        wrapped: limiter(wrapped),
        client: client.clone(),
        sha,
        ids: (0..KEYS)
            .map(|n| format!("10.0.{}.{}", n / 256, n % 256))
            .collect(),
    });
    let get = throughput(&sides).await;
    leased(bare(), get).await;
    latency(&sides).await;
    flood(bare).await;
    open_breaker().await;
    Ok(())
}

/// The limits `requests` and `open`, which deny nothing here, and `denied`, which allows one request.
fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("requests", Limit::per_second(1_000_000).burst(1_000_000))
        .limit("open", Limit::per_second(u32::MAX))
        .limit("denied", Limit::per_day(1))
        .limit("tiers", penalties())
        .limit("window", Limit::window(5, Duration::from_millis(100)))
        .limit("quota", Limit::quota(u32::MAX, Per::Month));
    Limiter::new(limits.build().expect("the limits are some"), backend)
}

struct Sides {
    client: Client,
    sha: String,
    limiter: Limiter,
    wrapped: Limiter,
    ids: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Get,
    Plain,
    Tollgate,
    Wrapped,
    /// All callers spend from ten buckets.
    Hot,
    Tiers,
    Window,
    Quota,
}

const SIDES: [Side; 8] = [
    Side::Get,
    Side::Plain,
    Side::Tollgate,
    Side::Wrapped,
    Side::Hot,
    Side::Tiers,
    Side::Window,
    Side::Quota,
];

impl Sides {
    async fn call(&self, side: Side, n: u32) {
        let id = &self.ids[(n % KEYS) as usize];
        match side {
            Side::Get => {
                let arguments = vec![format!("get:{id}")];
                let got: Result<Value, _> = self.client.custom(command("GET"), arguments).await;
                got.expect("Redis answers");
            }
            Side::Plain => {
                let key = format!("plain:{id}");
                let arguments = [&*self.sha, "1", &key, "1000000", "1000000", "1", "1"];
                let arguments = arguments.map(str::to_owned).to_vec();
                let spent: Result<Value, _> =
                    self.client.custom(command("EVALSHA"), arguments).await;
                spent.expect("Redis answers");
            }
            Side::Tollgate => spend(&self.limiter, "requests", id).await,
            Side::Wrapped => spend(&self.wrapped, "requests", id).await,
            Side::Hot => spend(&self.limiter, "requests", &self.ids[n as usize % 10]).await,
            Side::Tiers | Side::Window => {
                let limit = if side == Side::Tiers {
                    "tiers"
                } else {
                    "window"
                };
                let spent = self.limiter.spend(&Transaction::new(limit, id)).await;
                spent.expect("Redis answers");
            }
            Side::Quota => spend(&self.limiter, "quota", id).await,
        }
    }
}

async fn spend(limiter: &Limiter, limit: &str, id: &str) {
    let spent = limiter.spend(&Transaction::new(limit, id)).await;
    assert!(spent.expect("Redis answers").allowed());
}

fn command(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::FirstKey, false)
}

/// Measures all sides, and returns the number of `GET`s per second.
async fn throughput(sides: &Arc<Sides>) -> f64 {
    let mut rates = [const { Vec::new() }; SIDES.len()];
    for _ in 0..TURNS {
        for (side, rates) in SIDES.into_iter().zip(&mut rates) {
            let begun = Instant::now();
            let callers = (0..CALLERS).map(|caller| {
                let sides = Arc::clone(sides);
                tokio::spawn(async move {
                    for call in 0..CALLS / CALLERS {
                        sides.call(side, caller + call * CALLERS * 7).await;
                    }
                })
            });
            for caller in callers.collect::<Vec<_>>() {
                caller.await.expect("no call fails");
            }
            rates.push(f64::from(CALLS / CALLERS * CALLERS) / begun.elapsed().as_secs_f64());
        }
    }
    let [get, plain, tollgate, wrapped, hot, tiers, window, quota] = rates.map(median);
    println!("{CALLERS} callers, {KEYS} keys, calls per second:");
    println!(
        "  GET {get:.0}, plain script {plain:.0}, tollgate {tollgate:.0}, wrapped {wrapped:.0}, tiers {tiers:.0}"
    );
    println!("  10 hot keys {hot:.0}, a window of 5 {window:.0}, a quota {quota:.0}");
    println!(
        "  tollgate is {:.2} of the plain script, {:.2} of GET, and with 10 hot keys {:.2} of GET",
        tollgate / plain,
        tollgate / get,
        hot / get
    );
    println!(
        "  wrapped is {:.2} of tollgate, tiers {:.2}, a window of 5 {:.2}, a quota {:.2}",
        wrapped / tollgate,
        tiers / tollgate,
        window / tollgate,
        quota / tollgate
    );
    get
}

/// Counts the calls that reach a store.
#[derive(Debug)]
struct Counted<B>(B, AtomicU64);

#[async_trait]
impl<B: Backend> Backend for Counted<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.apply(batch).await
    }
}

/// One limit with leases, which all callers share and which denies nothing.
async fn leased(store: impl Backend, get: f64) {
    const DECISIONS: u32 = CALLS * 100;
    let name = LimitName::from("leased").lease(1, 20);
    let limit = Limit::per_second(1_000_000_000).burst(1_000_000);
    let limits = Limits::builder().limit(name, limit).build();
    let store = Arc::new(Counted(store, AtomicU64::new(0)));
    let lease = Lease::new(DenyCache::new(Arc::clone(&store)), 4);
    let policy = FailurePolicy::new(lease).deadline(PATIENCE);
    let limiter = Limiter::new(limits.expect("the limit is one"), policy);
    let (mut rates, mut decisions) = (Vec::new(), 0);
    for _ in 0..TURNS {
        let begun = Instant::now();
        let callers = (0..CALLERS).map(|_| {
            let limiter = limiter.clone();
            tokio::spawn(async move {
                for _ in 0..DECISIONS / CALLERS {
                    spend(&limiter, "leased", "everyone").await;
                }
            })
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("no call fails");
        }
        decisions += u64::from(DECISIONS / CALLERS * CALLERS);
        rates.push(f64::from(DECISIONS / CALLERS * CALLERS) / begun.elapsed().as_secs_f64());
    }
    let (rate, calls) = (median(rates), store.1.load(Ordering::Relaxed));
    println!("one leased limit, {CALLERS} callers, decisions per second:");
    println!(
        "  {rate:.0}, which is {:.1} of GET; {calls} of {decisions} decisions reached the store",
        rate / get
    );
}

async fn latency(sides: &Sides) {
    let mut latencies = [const { Vec::new() }; SIDES.len()];
    for n in 0..LATENCIES as u32 {
        for (side, latencies) in SIDES.into_iter().zip(&mut latencies) {
            let took = timed(sides.call(side, n)).await;
            latencies.push(took.as_secs_f64() * 1e6);
        }
    }
    let [get, plain, tollgate, wrapped, _, tiers, window, quota] = latencies.map(median);
    println!("one caller, p50 in microseconds:");
    println!(
        "  GET {get:.0}, plain script {plain:.0}, tollgate {tollgate:.0}, wrapped {wrapped:.0}, tiers {tiers:.0}"
    );
    println!(
        "  tollgate is {:.2} of GET, wrapped is {:.2} of tollgate, tiers {:.2}, a window of 5 {:.2}, a quota {:.2}",
        tollgate / get,
        wrapped / tollgate,
        tiers / tollgate,
        window / tollgate,
        quota / tollgate
    );
}

/// Requests of clients whose buckets are empty, with the cache and without.
async fn flood(bare: impl Fn() -> Arc<RedisBackend>) {
    const CLIENTS: u32 = 1_000;
    let sides = [limiter(bare()), limiter(DenyCache::new(bare()))];
    let ids: Arc<Vec<_>> = Arc::new((0..CLIENTS).map(|n| format!("denied-{n}")).collect());
    for id in &*ids {
        for limiter in sides.iter().chain(&sides) {
            let _ = limiter.spend(&Transaction::new("denied", id)).await;
        }
    }
    let mut rates = [const { Vec::new() }; 2];
    for _ in 0..TURNS {
        for ((limiter, rates), calls) in sides.iter().zip(&mut rates).zip([CALLS, CALLS * 20]) {
            let begun = Instant::now();
            let callers = (0..CALLERS).map(|caller| {
                let (limiter, ids) = (limiter.clone(), Arc::clone(&ids));
                tokio::spawn(async move {
                    for call in 0..calls / CALLERS {
                        let id = &ids[((caller + call * 7) % CLIENTS) as usize];
                        let denied = limiter.spend(&Transaction::new("denied", id)).await;
                        assert!(!denied.expect("Redis answers").allowed());
                    }
                })
            });
            for caller in callers.collect::<Vec<_>>() {
                caller.await.expect("no call fails");
            }
            rates.push(f64::from(calls / CALLERS * CALLERS) / begun.elapsed().as_secs_f64());
        }
    }
    let [bare, cached] = rates.map(median);
    println!("a flood of {CLIENTS} denied clients, requests per second:");
    println!(
        "  bare {bare:.0}, deny cache {cached:.0}, which is {:.0} times as many",
        cached / bare
    );
}

/// A store that is not there.
#[derive(Debug)]
struct Lost;

#[async_trait]
impl Backend for Lost {
    async fn apply(&self, _: &Batch<'_>) -> Result<Outcome, BackendError> {
        Err(BackendError::unavailable("it is not there"))
    }
}

/// Decisions while the breaker is open, beside those of memory alone.
async fn open_breaker() {
    let sides = [
        limiter(MemoryBackend::new()),
        limiter(FailurePolicy::new(DenyCache::new(Lost))),
    ];
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..TURNS * 5 {
        for (limiter, times) in sides.iter().zip(&mut times) {
            let begun = Instant::now();
            for _ in 0..CALLS {
                spend(limiter, "open", "client").await;
            }
            times.push(begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
        }
    }
    let [memory, open] = times.map(median);
    println!("one caller while the breaker is open, nanoseconds:");
    println!(
        "  memory {memory:.0}, policy {open:.0}, which is {:.2} of memory",
        open / memory
    );
}

async fn timed(call: impl Future<Output = ()>) -> Duration {
    let begun = Instant::now();
    call.await;
    begun.elapsed()
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
