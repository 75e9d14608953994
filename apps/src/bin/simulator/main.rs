//! A web page to watch burst tiers: choose tiers, make requests, and see which are granted, next to a GCRA limit, a window,
//! a quota and a concurrency limit with the same requests.
//!
//! ```sh
//! cargo run -p tollgate-apps --bin simulator
//! ```
//!
//! Then open <http://127.0.0.1:3000>. `ADDR` sets another address. The configuration is part of the page's address,
//! and can be shared: `/?tiers=5,1,1,0,50,5,5,15&gcra=50,5,1&window=50,10&quota=50,10&concurrent=5,2` has four numbers for
//! each tier, lowest first (limit, window, active, cooldown), three for the GCRA limit (burst, count, period), and two each
//! for the window (limit, window), the quota (quota, and a period that starts with the first request) and the concurrency
//! limit (limit, and the time that the work of a request lasts, at most a day). Times are in seconds.
//!
//! The page only draws. The server makes all decisions, with a [`Limiter`](tollgate::Limiter) whose clock is a
//! [`ManualClock`](tollgate::clock::ManualClock), at the simulated times that the page sends. So the same requests always get the
//! same decisions.

mod app;
mod buckets;
mod config;
#[path = "../../../../examples/shared/failure.rs"]
mod failure;
#[path = "../../shared/page.rs"]
mod page;
mod patterns;
mod refusal;
mod sessions;
mod simulation;

use std::env;

use tokio::net::TcpListener;

use self::failure::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app::router()).await?;
    Ok(())
}
