//! A hyper server without a framework, which lets each client IP make 10 requests per second, 20 of them at once.
//!
//! ```sh
//! cargo run --example hyper
//! curl -s -o /dev/null -w '%{http_code} ' 'http://127.0.0.1:3000/?[1-30]'
//! ```

#[path = "shared/failure.rs"]
mod failure;

use std::{
    convert::Infallible,
    env,
    future::{Ready, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::net::TcpListener;
use tollgate::{ClientIp, Limit, RateLimitLayer};
use tower::{ServiceBuilder, service_fn};

use self::failure::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // One layer for all connections, because each layer has buckets of its own.
    let layer = RateLimitLayer::new(Limit::per_second(10).burst(20), ClientIp::peer());

    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".into());
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        let service = ServiceBuilder::new()
            // `ClientIp::peer` finds the address in the request's extensions.
            .map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(peer);
                request
            })
            .layer(layer.clone())
            .service(service_fn(hello));
        let service = TowerToHyperService::new(service);
        tokio::spawn(async move {
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
}

fn hello(_: Request<Incoming>) -> Ready<Result<Response<Full<Bytes>>, Infallible>> {
    ready(Ok(Response::new(Full::from("hello\n"))))
}
