//! Prints the cost of a decision on Redis, next to raw commands of the same client on the same server, and the cost and
//! benefit of the wrappers.
//!
//! `redis [url] [side…]`: without a URL, the program starts a `redis-server` on a free port, and ends it afterwards. All
//! sides use the same client crate with one connection each, and take turns. Last, it starts three masters of a cluster. With names of
//! sides, as in `redis Tollgate Wrapped`, it only measures their throughput.

mod callers;
mod latency;
mod server;
mod sides;
mod statistics;
mod throughput;
mod wrappers;

use std::{sync::Arc, time::Duration};

use fred::{clients::Client, error::Error, interfaces::ClientLike, types::config::Config};
use tokio::time::sleep;
use tollgate::{RedisBackend, Transaction};
use tollgate_benches::load;

use self::{
    callers::CALLERS,
    latency::latency,
    server::{Cluster, Server},
    sides::{PATIENCE, Sides, bare, limiter, spend},
    statistics::median,
    throughput::{CALLS, TURNS, tail, throughput},
    wrappers::{flood, leased, open_breaker},
};

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.expect("there is a runtime");
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (urls, names): (Vec<_>, Vec<_>) =
        arguments.into_iter().partition(|text| text.contains("://"));
    let server = urls.is_empty().then(Server::start);
    let url = server.as_ref().map_or_else(|| urls.concat(), Server::url);
    println!("load {}", load());
    runtime
        .block_on(measure(&url, &names))
        .expect("Redis answers");
    drop(server);
    if names.is_empty() {
        runtime.block_on(three_masters());
    }
    println!("load {}", load());
}

async fn measure(url: &str, names: &[String]) -> Result<(), Error> {
    let client = Client::new(Config::from_url(url)?, None, None, None);
    let _task = client.init().await?;
    let sides = Arc::new(Sides::new(client, url).await?);
    let get = throughput(&sides, names).await;
    if !names.is_empty() {
        return Ok(());
    }
    tail(&sides).await;
    leased(bare(url), get).await;
    latency(&sides).await;
    flood(|| bare(url)).await;
    open_breaker().await;
    Ok(())
}

/// The callers on a cluster of three masters, all on this machine.
async fn three_masters() {
    let cluster = Cluster::start();
    let backend = RedisBackend::builder(cluster.url())
        .timeout(PATIENCE)
        .build();
    let backend = backend.expect("the URL is one");
    backend
        .connected(PATIENCE)
        .await
        .expect("the cluster answers");
    let limiter = limiter(backend);
    // Each node decides a moment after the cluster is created, once it has heard of all slots.
    for id in 0..100 {
        let id = id.to_string();
        while limiter
            .spend(&Transaction::new("requests", &id))
            .await
            .is_err()
        {
            sleep(Duration::from_millis(100)).await;
        }
    }
    let mut rates = Vec::new();
    for _ in 0..TURNS {
        let rate = callers::rate(CALLS, |caller| {
            let limiter = limiter.clone();
            async move {
                for call in 0..callers::each(CALLS) {
                    let id = (caller + call * CALLERS * 7) % sides::KEYS;
                    let id = format!("10.0.{}.{}", id / 256, id % 256);
                    spend(&limiter, "requests", &id).await;
                }
            }
        });
        rates.push(rate.await);
    }
    println!(
        "three masters on this machine, {CALLERS} callers: {:.0} decisions per second",
        median(&rates)
    );
}
