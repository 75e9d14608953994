//! A client that keeps to two rates: its own, five requests per second to each host, and the server's.
//!
//! ```sh
//! cargo run --example quickstart &
//! cargo run --example client --features pace -- http://127.0.0.1:3000/
//! ```

#[path = "shared/failure.rs"]
mod failure;

use std::{
    env,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tollgate::{Limit, RateLimitLayer, key::Host, pace::PaceLayer};
use tower::{ServiceBuilder, ServiceExt};

use self::failure::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let uri = env::args().nth(1);
    let uri = uri.unwrap_or_else(|| "http://127.0.0.1:3000/".to_owned());

    // Our own rate: five per second to each host. Further requests wait for up to a minute.
    let ours = Limit::per_second(5).max_wait(Duration::from_secs(60));
    // The server's rate, from its responses. A refused request is sent again.
    let pace = PaceLayer::new().retry(3);
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let client = ServiceBuilder::new()
        .layer(RateLimitLayer::new(ours, Host))
        .layer(pace)
        .service(client);

    let began = Instant::now();
    for i in 1..=20 {
        let request = Request::get(&uri).body(Full::default())?;
        let response = client.clone().oneshot(request).await?;
        println!("{i}: {} after {:?}", response.status(), began.elapsed());
    }
    Ok(())
}
