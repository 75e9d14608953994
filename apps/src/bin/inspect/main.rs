//! Limits and buckets over HTTP, for administrators: show the limits in force, look up a bucket and reset it, and block a client
//! for a time.
//!
//! ```sh
//! ADMIN_TOKEN=$(openssl rand -hex 32) && export ADMIN_TOKEN
//! cargo run -p tollgate-apps --bin inspect &
//! curl http://127.0.0.1:3000/
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" http://127.0.0.1:3001/limits
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" http://127.0.0.1:3001/buckets/requests/127.0.0.1
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" http://127.0.0.1:3001/buckets/ranges/2001:db8::/48
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" -X DELETE http://127.0.0.1:3001/buckets/requests/127.0.0.1
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" -X DELETE http://127.0.0.1:3001/clients/127.0.0.1
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" -X PUT http://127.0.0.1:3001/blocks/abuse/127.0.0.1?for=1h
//! curl -H "Authorization: Bearer $ADMIN_TOKEN" -X DELETE http://127.0.0.1:3001/blocks/abuse/127.0.0.1
//! ```
//!
//! Copy `admin.rs` and the files it uses into your own server. It is protected like this:
//!
//! - It is off unless `ADMIN_TOKEN` is set, and does not start with a short token.
//! - It has its own listener, `ADMIN_ADDR`, by default on the loopback interface. Any other address should be in a
//!   private network, with TLS in front, because each request contains the token.
//! - Never nest it in the public router, or put it behind a public proxy. Limits and overrides reveal who your
//!   clients are, and what an attacker can do without being noticed.
//! - `DELETE` is a write. Anyone with the token can lift any limit, repeatedly. Each reset is logged.
//!
//! `GET /limits` returns the format of limit files, and streams it with one thread per reader. The id is everything
//! after the limit, including slashes and colons. Write `%25`, `%3F` and `%23` for `%`, `?` and `#`, and let your
//! client keep paths unchanged (`curl --path-as-is`) if an id contains `/../`. Ids are read as from requests:
//! `2001:db8::1` is in `2001:db8::/48`.
//!
//! The log contains hashes of ids, because an id can be a secret, such as an API key. The paths of requests contain the ids
//! themselves, so keep these requests out of access logs.
//!
//! Looking up a bucket charges nothing, and shows what it holds. `passes` and `next_after_us` are about a request at a cost
//! of 1. A reset answers `"reset": false`, with the reason, if it changed nothing: a blocked client stays blocked.
//! `DELETE /clients/{id}` resets the buckets of a client under every limit, such as all plans of an account, and names the
//! limits that were not full.
//!
//! `PUT /blocks/{limit}/{id}?for=24h` blocks a client for a time, and `DELETE` lifts the block. The limit is a list of blocked
//! clients ([`LimitsBuilder::block`](tollgate::limit::LimitsBuilder::block)), which has the reason for its clients.
//! `GET /blocks` shows the lists and their reasons, and `GET /blocks/{limit}/{id}` whether a client is blocked, and for how long.
//! Blocks and lifts are logged. `DELETE /clients/{id}` lifts no block.
//!
//! With a `RedisBackend`, the buckets and the blocks are those of the whole fleet. The `DenyCache` of another process may deny
//! a client for up to five seconds after a reset or a lift.

mod admin;
mod block;
#[path = "../../shared/bound.rs"]
mod bound;
mod bucket;
#[path = "../../shared/client.rs"]
mod client;
#[path = "../../../../examples/shared/listen.rs"]
mod listen;
mod refusal;
mod stream;
mod token;

use std::{
    error::Error,
    io::{self, Write},
    net::SocketAddr,
    process::ExitCode,
};

use axum::{Router, routing::get};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule,
    id::IdFormat,
    key::Ipv6Range,
    limit::{LimitName, LimitsError},
    rule::OnMissing,
};

use self::{listen::listen, token::Token};

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(io::stderr).init();
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error may be closed, so ignore errors. The exit code still reports the failure.
            let _ = writeln!(io::stderr(), "inspect: {error}");
            ExitCode::from(2)
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::new(limits()?, MemoryBackend::new());
    let layer = RateLimitLayer::with_limiter(limiter.clone())
        .rule(Rule::new("abuse", ClientIp::peer()))
        .rule(Rule::new("requests", ClientIp::peer()))
        .rule(Rule::new("ranges", Ipv6Range::peer()).on_missing(OnMissing::Skip));
    let app = Router::new()
        .route("/", get(|| async { "hello" }))
        .layer(layer);

    let token = Token::from_env()?;
    let listener = listen("ADDR", "127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    if let Some(token) = token {
        let listener = listen("ADMIN_ADDR", "127.0.0.1:3001").await?;
        println!("listening on http://{}", listener.local_addr()?);
        if !listener.local_addr()?.ip().is_loopback() {
            tracing::warn!(
                "ADMIN_ADDR can be reached from elsewhere: keep it in a private network"
            );
        }
        let router = admin::router(limiter, token);
        tokio::spawn(async { axum::serve(listener, router).await });
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
        .block(
            LimitName::new("abuse", 3, IdFormat::IpAddress),
            "this address is paused after reports of abuse",
        )
        .build()
}
