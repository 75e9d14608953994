//! Prints how much of a limit of three per second an obedient client can use, on real connections and with the real
//! clock.
//!
//! `rates [seconds]` runs for that long, 30 seconds by default. Over HTTP, the client is wrapped in a `PaceLayer`. Over
//! gRPC, it waits for the pushback of a refusal and calls again, as in the standard retry policy.

use std::{
    convert::Infallible,
    error::Error,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::{body::Incoming, client, server};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Mutex,
    time::sleep,
};
use tollgate::{Limit, RateLimitLayer, key::Everyone, pace::PaceLayer};
use tollgate_benches::load;
use tonic::{
    Code, Status,
    transport::{Endpoint, Server, server::TcpIncoming},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::{Layer, ServiceExt, service_fn};

const PER_SECOND: u32 = 3;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn limited() -> RateLimitLayer {
    RateLimitLayer::new(Limit::per_second(PER_SECOND), Everyone)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).map(|text| text.parse::<u32>());
    let seconds = seconds.transpose()?.unwrap_or(30);
    let (http, grpc) = tokio::join!(over_http(seconds), over_grpc(seconds));
    let (http, grpc) = (http?, grpc?);
    println!("load {}", load());
    println!("HTTP, `PaceLayer`: {http}");
    println!("gRPC, standard retry policy: {grpc}");
    Ok(())
}

/// The requests that a client got, and the number of refusals.
fn share(began: Instant, seconds: u32, refused: u32) -> String {
    let got = f64::from(seconds) / began.elapsed().as_secs_f64();
    format!("{got:.3} of its rate, {refused} refusals")
}

/// Returns the number of requests in this time, including the burst.
fn requests(seconds: u32) -> u32 {
    PER_SECOND * (seconds + 1)
}

async fn over_http(seconds: u32) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let hello = service_fn(async |_: Request<Incoming>| {
            Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("hello")))
        });
        let service = TowerToHyperService::new(limited().layer(hello));
        let http = server::conn::http1::Builder::new();
        let served = http.serve_connection(TokioIo::new(stream), service);
        served.await.map_err(io::Error::other)
    });
    let stream = TokioIo::new(TcpStream::connect(address).await?);
    let (sender, connection) = client::conn::http1::handshake(stream).await?;
    tokio::spawn(connection);
    let sender = Arc::new(Mutex::new(sender));
    let client = PaceLayer::new().layer(service_fn(move |request: Request<Empty<Bytes>>| {
        let sender = Arc::clone(&sender);
        async move {
            let mut sender = sender.lock().await;
            sender.ready().await?;
            sender.send_request(request).await
        }
    }));
    let (began, mut refused, mut passed) = (Instant::now(), 0, 0);
    while passed < requests(seconds) {
        let request = Request::get("http://server/").body(Empty::new())?;
        let answer = client.clone().oneshot(request).await?;
        if answer.status().is_success() {
            passed += 1
        } else {
            refused += 1
        }
        answer.into_body().collect().await?;
    }
    Ok(share(began, seconds, refused))
}

async fn over_grpc(seconds: u32) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (reporter, health) = tonic_health::server::health_reporter();
    let serving = tonic_health::ServingStatus::Serving;
    reporter.set_service_status("", serving).await;
    let server = Server::builder().layer(limited()).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let channel = Endpoint::from_shared(format!("http://{address}"))?
        .connect()
        .await?;
    let mut client = HealthClient::new(channel);
    let (began, mut refused, mut passed) = (Instant::now(), 0, 0);
    while passed < requests(seconds) {
        match client.check(HealthCheckRequest::default()).await {
            Ok(_) => passed += 1,
            Err(status) if status.code() == Code::ResourceExhausted => {
                refused += 1;
                sleep(pushback(&status).ok_or(status)?).await;
            }
            Err(status) => return Err(status.into()),
        }
    }
    Ok(share(began, seconds, refused))
}

fn pushback(status: &Status) -> Option<Duration> {
    let ms = status.metadata().get("grpc-retry-pushback-ms")?;
    ms.to_str().ok()?.parse().ok().map(Duration::from_millis)
}
