//! A client that keeps to two rates: its own, five requests per second to each host, and the server's.
//!
//! ```sh
//! cargo run --example quickstart &
//! cargo run --example client --features pace -- http://127.0.0.1:3000/
//! ```

#[path = "shared/failure.rs"]
mod failure;

use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use http::Request;
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tollgate::{Limit, RateLimitLayer, key::Host, pace::PaceLayer, response::Headers};
use tower::{ServiceBuilder, ServiceExt};

use self::failure::Failure;

#[derive(Debug, Parser)]
struct Args {
    /// The server.
    #[arg(default_value = "http://127.0.0.1:3000/")]
    uri: String,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Args { uri } = Args::parse();

    // Our own rate: five per second to each host. Further requests wait for up to a minute.
    let ours = Limit::per_second(5).max_wait(Duration::from_secs(60));
    // Inside of `PaceLayer`, it also counts the requests that this sends again. Its own fields would hide the server's.
    let ours = RateLimitLayer::new(ours, Host).headers(Headers::None);
    // The server's rate, from its responses. A refused request is sent again.
    let pace = PaceLayer::new().retry(3);
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let client = ServiceBuilder::new()
        .layer(pace)
        .layer(ours)
        .service(client);

    let began = Instant::now();
    for i in 1..=20 {
        let request = Request::get(&uri).body(Full::default())?;
        let response = client.clone().oneshot(request).await?;
        println!("{i}: {} after {:?}", response.status(), began.elapsed());
    }
    Ok(())
}
