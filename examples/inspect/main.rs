//! A look at limits and buckets from outside, for admins: which limits are in force, how a bucket stands, and giving a
//! client everything back.
//!
//! ```sh
//! ADMIN_TOKEN=$(openssl rand -hex 32) && export ADMIN_TOKEN
//! cargo run --example inspect &
//! curl http://127.0.0.1:3000/
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" http://127.0.0.1:3001/limits
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" http://127.0.0.1:3001/buckets/requests/127.0.0.1
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" http://127.0.0.1:3001/buckets/ranges/2001:db8::/48
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" -X DELETE http://127.0.0.1:3001/buckets/requests/127.0.0.1
//! ```
//!
//! Copy `admin.rs` and what it needs beside your own router. How to protect it:
//!
//! - It is off unless `ADMIN_TOKEN` is set, and does not start with a short one.
//! - It has a listener of its own, `ADMIN_ADDR`, by default on the loopback interface. On any other it belongs in a
//!   private network, with TLS in front: the token is sent with each request.
//! - Never nest it in the public router, nor behind a public proxy. Limits and overrides tell who your clients are, and
//!   what an attacker may do without being noticed.
//! - `DELETE` is a write. Whoever has the token can lift any limit, again and again. Each reset is logged.
//!
//! `GET /limits` is in the form of the files, and sent while it is written, a thread for each reader. An id is what comes after
//! the limit, slashes and colons included; write `%25`, `%3F` and `%23` for `%`, `?` and `#` in it, and let your
//! client keep paths as they are (`curl --path-as-is`) if an id has `/../`. It is taken as a request brings it:
//! `2001:db8::1` is in `2001:db8::/48`.
//!
//! A look at a bucket charges nothing. A bucket of tokens is asked whether a cost of 0 would pass, and shows what it holds. Tiers
//! cannot be asked for nothing: they are asked for one unit, which is not granted (`asked` is 1), and show what would be
//! after it.
//!
//! With a `RedisBackend`, the buckets are those of the whole fleet. A `DenyCache` in another process may deny a client for
//! five seconds after a reset.

mod admin;
#[path = "../shared/bound.rs"]
mod bound;
mod bucket;
#[path = "../shared/client.rs"]
mod client;
mod refusal;
mod stream;
mod token;

use std::{
    env::{self, VarError},
    error::Error,
    io::{self, Write},
    net::SocketAddr,
    process::ExitCode,
};

use axum::{Router, routing::get};
use tokio::net::TcpListener;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    id::IdFormat,
    key::Ipv6Range,
    limit::{LimitName, LimitsError},
    rule::OnMissing,
};

use self::token::Token;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be left to read it, and the exit code still counts.
            let _ = writeln!(io::stderr(), "inspect: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::new(limits()?, MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("requests", ClientIp::peer()))
        .rule(Rule::new("ranges", Ipv6Range::peer()).on_missing(OnMissing::Skip));
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(layer);

    let token = token()?;
    let listener = listen("ADDR", "127.0.0.1:3000").await?;
    if let Some(token) = token {
        let listener = listen("ADMIN_ADDR", "127.0.0.1:3001").await?;
        if !listener.local_addr()?.ip().is_loopback() {
            tracing::warn!(
                "ADMIN_ADDR can be reached from elsewhere: keep it in a private network"
            );
        }
        tokio::spawn(async { axum::serve(listener, admin::router(limiter, token)).await });
    }
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

fn limits() -> Result<Limits, LimitsError> {
    Limits::builder()
        .limit(
            LimitName::new("requests", 1, IdFormat::IpAddress),
            Limit::per_second(10).burst(20),
        )
        .limit(
            LimitName::new("ranges", 2, IdFormat::Ipv6Range),
            Limit::per_second(100),
        )
        .override_for("ranges", "2001:db8::/48", Limit::BLOCKED)
        .build()
}

/// The token, if there shall be routes for admins.
fn token() -> Result<Option<Token>, Box<dyn Error>> {
    match env::var("ADMIN_TOKEN") {
        Ok(secret) => Ok(Some(Token::new(&secret)?)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err("ADMIN_TOKEN is not UTF-8".into()),
    }
}

async fn listen(variable: &str, default: &str) -> Result<TcpListener, Box<dyn Error>> {
    let address = env::var(variable).unwrap_or_else(|_| default.to_owned());
    let listener = TcpListener::bind(&address).await;
    let listener =
        listener.map_err(|error| format!("{variable}: cannot listen on `{address}`: {error}"))?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(listener)
}
