//! Prints the cost of a decision on Redis, next to raw commands of the same client on the same server, and the cost and
//! benefit of the wrappers.
//!
//! `redis [url] [side…]`: without a URL, the program starts a `redis-server` on a free port, and ends it afterwards. All
//! sides use the same client crate with one connection each, and take turns. Last, it compares one server with three masters of a
//! cluster. With names of sides, as in `redis Tollgate Wrapped`, it only measures their throughput, and with `cluster` only the
//! servers.

mod callers;
mod cluster;
mod latency;
mod server;
mod sides;
mod statistics;
mod throughput;
mod wrappers;

use std::sync::Arc;

use fred::error::Error;
use tollgate_benches::load;

use self::{
    latency::latency,
    server::Server,
    sides::{Sides, bare},
    throughput::{tail, throughput},
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
    println!("load {}", load());
    let is_cluster = names == ["cluster"];
    if !is_cluster {
        let server = urls.is_empty().then(Server::start);
        let url = server.as_ref().map_or_else(|| urls.concat(), Server::url);
        let measured = runtime.block_on(measure(&url, &names));
        measured.expect("Redis answers");
    }
    if is_cluster || names.is_empty() {
        runtime.block_on(cluster::cluster());
    }
    println!("load {}", load());
}

async fn measure(url: &str, names: &[String]) -> Result<(), Error> {
    let sides = Arc::new(Sides::connect(url).await?);
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
