//! Burst tiers to watch: choose tiers, make requests, and see what is granted, beside a GCRA limit that gets the same requests.
//!
//! ```sh
//! cargo run --example simulator
//! ```
//!
//! Then open <http://127.0.0.1:3000>. `ADDR` names another address. A configuration is in the page's address, and can be
//! shared: `/?tiers=5,1,1,0,50,5,5,15&gcra=50,5,1` has four numbers for each tier, the lowest first (limit, window, active,
//! cooldown), and three for the other limit (burst, count, period); times are in seconds.
//!
//! The page only draws. All decisions are made here, by [`tollgate::tiers`] and [`tollgate::gcra`], at the simulated
//! instants that the page names. So the same requests are always granted the same.

mod app;
mod config;
#[path = "../shared/failure.rs"]
mod failure;
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
