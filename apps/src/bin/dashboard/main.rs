//! A live page for operators: decisions of each limit, the most denied clients, the state of the store, and a form to look up and
//! reset buckets.
//!
//! ```sh
//! ADMIN_TOKEN=$(openssl rand -hex 32) && export ADMIN_TOKEN && echo "$ADMIN_TOKEN"
//! IMITATE_CLIENTS=1 cargo run -p tollgate-apps --bin dashboard
//! ```
//!
//! Then open <http://127.0.0.1:3001>, and enter the token. These variables change the rest:
//!
//! | | |
//! |---|---|
//! | `ADMIN_TOKEN` | the token, at least 16 characters; the app does not start without it |
//! | `ADDR` | the address of the server with the limits, by default `127.0.0.1:3000`; `curl -H 'x-account: alice'` it |
//! | `ADMIN_ADDR` | the address of the page, by default `127.0.0.1:3001` |
//! | `REDIS_URL` | keeps the buckets in Redis: stop it and start it again, and watch the page |
//! | `DEADLINE_MS` | how long Redis may take to answer, in milliseconds, by default 200 |
//! | `IMITATE_CLIENTS` | if set, made-up clients make requests |
//!
//! The page is protected like the routes of the app `inspect`, which it uses, so the same advice applies: keep it in a
//! private network, with TLS in front.
//!
//! The page adds no code to the path of decisions. The decisions are the counters of [`tollgate::metrics`], which `counters.rs`
//! keeps in memory. The denied clients come from the events that tollgate emits at level `DEBUG`, which `denied.rs` counts in
//! bounded memory. The state of the store is [`Limiter::stats`](tollgate::Limiter::stats). All figures are those of this process.
//! In a fleet, each process has its own page, and all share the buckets in Redis.
//!
//! To use it in your own server, copy this folder without `app.rs`, the folder `inspect`, and `shared`.

#[path = "../inspect/admin.rs"]
mod admin;
mod app;
#[path = "../inspect/block.rs"]
mod block;
#[path = "../../shared/bound.rs"]
mod bound;
#[path = "../inspect/bucket.rs"]
mod bucket;
#[path = "../../shared/client.rs"]
mod client;
mod counters;
mod denied;
#[path = "../../../../examples/shared/failure.rs"]
mod failure;
mod figures;
mod history;
#[path = "../../../../examples/shared/listen.rs"]
mod listen;
#[path = "../../shared/page.rs"]
mod page;
#[path = "../inspect/refusal.rs"]
mod refusal;
mod routes;
#[path = "../inspect/stream.rs"]
mod stream;
#[path = "../inspect/token.rs"]
mod token;

use std::{env, future::IntoFuture, io};

use tracing_subscriber::{
    Layer, filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt,
};

use self::{
    counters::Counters, denied::DeniedClients, failure::Failure, history::History, listen::listen,
    routes::Sources, token::Token,
};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let token = Token::from_env()?
        .ok_or("ADMIN_TOKEN is not set: make one, as by `openssl rand -hex 32`")?;
    let denied = DeniedClients::default();
    let log = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    tracing_subscriber::registry()
        .with(log.with_filter(LevelFilter::INFO))
        .with(denied.layer())
        .init();
    // Install the recorder before the limiter, whose counters start at 0.
    let counters = Counters::install()?;

    let limiter = app::limiter()?;
    let sources = Sources {
        limiter: limiter.clone(),
        counters: counters.clone(),
        history: History::default(),
        denied,
    };
    let app = app::app(limiter);
    tokio::spawn(sources.history.clone().follow(counters));
    if env::var_os("IMITATE_CLIENTS").is_some() {
        tokio::spawn(app::imitate_clients(app.clone()));
    }
    let listener = listen("ADDR", "127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let page = listen("ADMIN_ADDR", "127.0.0.1:3001").await?;
    println!("dashboard on http://{}", page.local_addr()?);
    let app = axum::serve(listener, app).into_future();
    let page = axum::serve(page, routes::router(sources, token)).into_future();
    tokio::try_join!(app, page)?;
    Ok(())
}
