//! The sides of the comparisons, which take turns. Each has one connection.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{ClusterHash, CustomCommand, Value, config::Config},
};
use tollgate::{
    Limit, Limiter, Limits, RedisBackend, Transaction,
    backend::{Backend, DenyCache, FailurePolicy},
    quota::Per,
};
use tollgate_benches::penalties;

use crate::callers::{self, CALLERS};

pub(crate) const KEYS: u32 = 10_000;

/// No decision takes this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

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

/// Limits. `requests`, `open`, `second` and `third` deny nothing here, and `denied` allows one request. The buckets of most
/// are not full again before the next decision, as in an application that limits anybody.
pub(crate) fn limiter(backend: impl Backend) -> Limiter {
    let limits = Limits::builder()
        .limit("requests", slow())
        .limit("open", Limit::per_second(u32::MAX))
        .limit("second", slow())
        .limit("third", slow())
        .limit("denied", Limit::per_day(1))
        .limit("tiers", penalties())
        .limit("window", Limit::window(5, Duration::from_millis(100)))
        .limit("permits", Limit::concurrent(5))
        .limit("quota", Limit::quota(u32::MAX, Per::Month));
    Limiter::new(limits.build().expect("the limits are some"), backend)
}

/// The limit of [`PLAIN`].
fn slow() -> Limit {
    Limit::per_day(100_000).burst(1_000_000)
}

/// A backend with its own connection.
pub(crate) fn bare(url: &str) -> RedisBackend {
    let backend = RedisBackend::builder(url).timeout(PATIENCE);
    backend.build().expect("the URL is one")
}

/// Everything that the sides need.
pub(crate) struct Sides {
    client: Client,
    sha: String,
    limiter: Limiter,
    wrapped: Limiter,
    ids: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Side {
    Get,
    Plain,
    Tollgate,
    /// Through `FailurePolicy` and `DenyCache`.
    Wrapped,
    /// All callers spend from ten buckets.
    Hot,
    Tiers,
    Window,
    Quota,
    /// A permit that is taken and given back.
    Permit,
    /// Four limits of one client in a batch.
    Four,
}

impl Sides {
    pub(crate) async fn connect(url: &str) -> Result<Self, Error> {
        let client = Client::new(Config::from_url(url)?, None, None, None);
        let _task = client.init().await?;
        let load = vec!["LOAD", PLAIN];
        let sha: String = client.custom(command("SCRIPT"), load).await?;
        let wrapped = FailurePolicy::new(DenyCache::new(bare(url))).deadline(PATIENCE);
        Ok(Self {
            limiter: limiter(bare(url)),
            wrapped: limiter(wrapped),
            client,
            sha,
            ids: (0..KEYS)
                .map(|n| format!("10.0.{}.{}", n / 256, n % 256))
                .collect(),
        })
    }

    pub(crate) async fn call(&self, side: Side, n: u32) {
        let id = &self.ids[(n % KEYS) as usize];
        match side {
            Side::Get => {
                let arguments = vec![format!("get:{id}")];
                let got: Result<Value, _> = self.client.custom(command("GET"), arguments).await;
                got.expect("Redis answers");
            }
            Side::Plain => {
                let key = format!("plain:{id}");
                let arguments = [&*self.sha, "1", &key, "1000000", "100000", "86400", "1"];
                let arguments = arguments.map(str::to_owned).to_vec();
                let spent: Result<Value, _> =
                    self.client.custom(command("EVALSHA"), arguments).await;
                spent.expect("Redis answers");
            }
            Side::Tollgate => spend(&self.limiter, "requests", id).await,
            Side::Wrapped => spend(&self.wrapped, "requests", id).await,
            Side::Hot => spend(&self.limiter, "requests", &self.ids[n as usize % 10]).await,
            Side::Tiers => ask(&self.limiter, "tiers", id).await,
            Side::Window => ask(&self.limiter, "window", id).await,
            Side::Permit => {
                let permits = self.limiter.limit("permits").expect("it is defined");
                let permit = permits.enter(id).await.expect("Redis answers");
                if let Ok(permit) = permit {
                    permit.release().await.expect("Redis answers");
                }
            }
            Side::Quota => spend(&self.limiter, "quota", id).await,
            Side::Four => {
                let batch = ["requests", "open", "second", "third"];
                let batch = batch.map(|limit| Transaction::new(limit, id));
                let spent = self.limiter.spend_batch(&batch).await;
                assert!(spent.expect("Redis answers").allowed());
            }
        }
    }

    /// Returns the number of calls per second that all callers make together on one side.
    pub(crate) async fn rate(self: &Arc<Self>, side: Side, calls: u32) -> f64 {
        callers::rate(calls, |caller| {
            let sides = Arc::clone(self);
            async move {
                for call in 0..callers::each(calls) {
                    sides.call(side, caller + call * CALLERS * 7).await;
                }
            }
        })
        .await
    }

    /// Returns the durations of calls that all callers make together on one side, in microseconds.
    pub(crate) async fn durations(self: &Arc<Self>, side: Side, calls: u32) -> Vec<f64> {
        let durations = callers::all(|caller| {
            let sides = Arc::clone(self);
            async move {
                let mut durations = Vec::new();
                for call in 0..callers::each(calls) {
                    let begun = Instant::now();
                    sides.call(side, caller + call * CALLERS * 7).await;
                    durations.push(begun.elapsed().as_secs_f64() * 1e6);
                }
                durations
            }
        });
        durations.await.concat()
    }

    /// Returns the processor time that the server has used since its start, in microseconds.
    pub(crate) async fn server_time(&self) -> f64 {
        let info: Result<String, _> = self.client.custom(command("INFO"), vec!["cpu"]).await;
        let info = info.expect("Redis answers");
        let seconds = ["used_cpu_sys:", "used_cpu_user:"].map(|name| {
            let mut lines = info.lines();
            let value = lines.find_map(|line| line.strip_prefix(name));
            value.and_then(|value| value.trim().parse::<f64>().ok())
        });
        let seconds: Option<f64> = seconds.into_iter().sum();
        seconds.expect("the server counts its processor time") * 1e6
    }
}

pub(crate) async fn spend(limiter: &Limiter, limit: &str, id: &str) {
    let spent = limiter.spend(&Transaction::new(limit, id)).await;
    assert!(spent.expect("Redis answers").allowed());
}

async fn ask(limiter: &Limiter, limit: &str, id: &str) {
    let asked = limiter.spend(&Transaction::new(limit, id)).await;
    asked.expect("Redis answers");
}

fn command(name: &'static str) -> CustomCommand {
    CustomCommand::new_static(name, ClusterHash::FirstKey, false)
}
