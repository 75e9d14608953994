//! Two servers that share a table of PostgreSQL: a client has 20 requests per hour, whichever server it talks to.
//!
//! It needs a database, which `DATABASE_URL` names, and creates the table `tollgate` in it:
//!
//! ```sh
//! DATABASE_URL=postgres://app@localhost/app cargo run -p tollgate-postgres --example postgres
//! for i in $(seq 11); do curl -si http://127.0.0.1:3001/ http://127.0.0.1:3002/ | grep '^ratelimit:'; done
//! ```
//!
//! They run in one process so that one command starts them, but share nothing: each has its own limits, limiter and connections.

use std::{env, error::Error, net::SocketAddr};

use axum::{Router, routing::get};
use tokio::{net::TcpListener, task::JoinSet};
use tollgate::{ClientIp, Limit, Limiter, Limits, RateLimitLayer, Rule, backend::FailurePolicy};
use tollgate_postgres::PostgresBackend;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Ok(url) = env::var("DATABASE_URL") else {
        return Err("set DATABASE_URL, for example to postgres://app@localhost/app".into());
    };
    let mut servers = JoinSet::new();
    for address in ["127.0.0.1:3001", "127.0.0.1:3002"] {
        let app = app(&url).await?;
        let listener = TcpListener::bind(address).await?;
        println!("listening on http://{}", listener.local_addr()?);
        let service = app.into_make_service_with_connect_info::<SocketAddr>();
        servers.spawn(async { axum::serve(listener, service).await });
    }
    while let Some(ended) = servers.join_next().await {
        ended??;
    }
    Ok(())
}

/// The whole program of each server. It would be the same on several machines.
async fn app(url: &str) -> Result<Router, Box<dyn Error>> {
    let postgres = PostgresBackend::connect(url)?;
    postgres.create_table().await?;
    let limits = Limits::builder()
        .limit("requests", Limit::per_hour(20))
        .build()?;
    // While the server does not answer, each of the two decides with half of the limit.
    let limiter = Limiter::new(limits, FailurePolicy::new(postgres).fleet(2));
    let layer = RateLimitLayer::with_limiter(limiter).rule(Rule::new("requests", ClientIp::peer()));
    Ok(Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(layer))
}
