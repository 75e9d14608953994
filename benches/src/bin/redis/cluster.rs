//! Three masters beside one server, all on this machine.

use std::{collections::HashMap, time::Duration};

use fred::util::redis_keyslot;
use tokio::time::sleep;
use tollgate::{Limiter, Transaction};

use crate::{
    callers,
    server::{Cluster, Server},
    sides::{KEYS, PATIENCE, Side, Sides, bare, limiter, spend},
    statistics::{median, ratio},
    throughput::own_time,
};

const TURNS: usize = 5;

/// The decisions in a turn.
const CALLS: u32 = 60_000;

/// The calls that travel alone in a turn.
const LONE_CALLS: u32 = 2_000;

const SLOTS: usize = 1 << 14;

/// The figures of each turn: decisions per second, and the processor time of a decision, in microseconds.
#[derive(Default)]
struct Measured {
    rates: Vec<f64>,
    client: Vec<f64>,
    servers: Vec<f64>,
}

/// Limiters and their servers, which take turns.
struct Compared<'a> {
    limiter: Limiter,
    servers: &'a [Server],
}

impl<'a> Compared<'a> {
    async fn new(url: &str, servers: &'a [Server]) -> Self {
        let backend = bare(url);
        let connected = backend.connected(PATIENCE).await;
        connected.expect("the servers answer");
        let limiter = limiter(backend);
        // Each node of a cluster decides a moment after that is created, once it has heard of all slots.
        for id in 0..100 {
            let id = id.to_string();
            let request = Transaction::new("requests", &id);
            while limiter.spend(&request).await.is_err() {
                sleep(Duration::from_millis(100)).await;
            }
        }
        Self { limiter, servers }
    }

    fn servers_time(&self) -> f64 {
        let times = self.servers.iter().map(|server| {
            let used = |name| server.info("cpu", name).parse::<f64>().unwrap_or(f64::NAN);
            used("used_cpu_sys:") + used("used_cpu_user:")
        });
        times.sum::<f64>() * 1e6
    }

    async fn measure(&self, count: u32, measured: &mut Measured) {
        let servers = self.servers_time();
        let client = own_time();
        let rate = callers::rate_of(count, CALLS, |caller| {
            let limiter = self.limiter.clone();
            async move {
                for call in 0..CALLS / count {
                    spend(&limiter, "requests", &id(caller + call * count * 7)).await;
                }
            }
        });
        let rate = rate.await;
        let calls = f64::from(CALLS / count * count);
        measured.rates.push(rate);
        measured.client.push((own_time() - client) / calls);
        measured
            .servers
            .push((self.servers_time() - servers) / calls);
    }
}

fn id(number: u32) -> String {
    let number = number % KEYS;
    format!("10.0.{}.{}", number / 256, number % 256)
}

/// Measures and prints everything about a cluster.
pub(crate) async fn cluster() {
    let server = [Server::start()];
    let masters = Cluster::start();
    let one = Compared::new(&server[0].url(), &server).await;
    let three = Compared::new(&masters.url(), masters.nodes()).await;
    lone(&server[0]).await;
    println!(
        "one server, and three masters on this machine, {KEYS} keys, medians of {TURNS} turns:"
    );
    for count in [256, 1024, 4096] {
        let mut all = [Measured::default(), Measured::default()];
        for _ in 0..TURNS {
            for (side, measured) in [&one, &three].into_iter().zip(&mut all) {
                side.measure(count, measured).await;
            }
        }
        let [of_one, of_three] = &all;
        println!(
            "  {count} callers: {:.0} and {:.0} decisions per second, which is {:.2} of one server",
            median(&of_one.rates),
            median(&of_three.rates),
            ratio(&of_three.rates, &of_one.rates)
        );
        for (name, measured) in [("one server", of_one), ("three masters", of_three)] {
            println!(
                "    {name}: processor time of a decision: client {:.2} us, servers {:.2} us",
                median(&measured.client),
                median(&measured.servers)
            );
        }
    }
    shares(&server[0]);
}

/// Calls that travel alone, by the server's own count, beside those of a plain script.
async fn lone(server: &Server) {
    let sides = Sides::connect(&server.url()).await;
    let sides = sides.expect("the server answers");
    let mut plain = Vec::new();
    let mut ours = Vec::new();
    for turn in 0..TURNS as u32 {
        for (side, times) in [(Side::Plain, &mut plain), (Side::Tollgate, &mut ours)] {
            server.command(&["CONFIG", "RESETSTAT"]);
            for call in 0..LONE_CALLS {
                sides.call(side, turn * LONE_CALLS + call).await;
            }
            times.push(time_of_a_script(server));
        }
    }
    println!(
        "a call that travels alone takes {:.2} us of the server, and a plain script {:.2} us: {:.2} of it",
        median(&ours),
        median(&plain),
        ratio(&ours, &plain)
    );
}

/// Returns the microseconds that a script has taken on average.
fn time_of_a_script(server: &Server) -> f64 {
    let figures = server.info("commandstats", "cmdstat_evalsha:");
    let figure = figures
        .split(',')
        .find_map(|figure| figure.strip_prefix("usec_per_call="));
    figure.and_then(|us| us.parse().ok()).unwrap_or(f64::NAN)
}

/// How evenly the keys are spread, if each master has the same number of slots.
fn shares(server: &Server) {
    let keys = server.command(&["KEYS", "*"]);
    let keys: Vec<_> = keys.lines().collect();
    println!("the largest share of the keys, in shares of a master:");
    for masters in [3, 5, 7, 16] {
        let mut tags = HashMap::<_, HashMap<_, usize>>::new();
        for key in &keys {
            let slot = redis_keyslot(key.as_bytes());
            let master = usize::from(slot) * masters / SLOTS;
            *tags.entry(master).or_default().entry(slot).or_default() += 1;
        }
        let slots: usize = tags.values().map(HashMap::len).sum();
        let most_tags = tags.values().map(HashMap::len).max().unwrap_or(0);
        let most_keys = tags.values().map(|tags| tags.values().sum::<usize>()).max();
        let of = |most: usize, all: usize| (most * masters) as f64 / all as f64;
        println!(
            "  {masters} masters: {:.2}; of the {slots} tags: {:.2}",
            of(most_keys.unwrap_or(0), keys.len()),
            of(most_tags, slots)
        );
    }
}
