//! A certificate authority with the limits of Let's Encrypt: on addresses and their ranges for `POST /new-account`,
//! and on accounts, registered domains or addresses, and sets of names for `POST /new-order`.
//!
//! ```sh
//! cargo run --example acme --all-features
//! curl -i http://127.0.0.1:3000/new-account --data ''
//! curl -i http://127.0.0.1:3000/new-order -H 'x-account-id: 12345678' \
//!     --json '{"identifiers": ["example.com", "www.example.com", "203.0.113.7"]}'
//! ```
//!
//! The values are in `examples/config/`, and are reloaded when they change. Behind a proxy, set its addresses, so
//! that its `X-Forwarded-For` is trusted: `PROXIES=10.0.0.0/8,127.0.0.1`.

mod app;
#[path = "../shared/failure.rs"]
mod failure;
mod order;

use std::{env, error::Error, net::SocketAddr, path::Path, time::Duration};

use tokio::net::TcpListener;
use tollgate::{
    ClientIp, Limiter, MemoryBackend,
    key::{Ipv6Range, Proxies, ProxyHeader},
    reload::Reloader,
};

use self::{app::Clients, failure::Failure};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().init();
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/config");
    let recipe = app::limits()
        .defaults_file(config.join("defaults.yml"))
        .overrides_file(config.join("overrides.yml"));
    let limiter = Limiter::new(recipe.build()?, MemoryBackend::new());
    tokio::spawn(
        Reloader::new(limiter.clone(), recipe)
            .every(Duration::from_secs(2))
            .run(),
    );

    let app = app::router(&limiter, clients()?);
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

/// The client's address: the peer's or, behind a trusted proxy, the one that the proxy names.
fn clients() -> Result<Clients, Box<dyn Error>> {
    let Ok(ranges) = env::var("PROXIES") else {
        return Ok(Clients {
            address: ClientIp::peer().exact(),
            range: Ipv6Range::peer(),
        });
    };
    let proxies = Proxies::trusted(ranges.split(',').map(str::trim), ProxyHeader::XForwardedFor)?;
    Ok(Clients {
        address: ClientIp::behind(proxies.clone()).exact(),
        range: Ipv6Range::behind(proxies),
    })
}
