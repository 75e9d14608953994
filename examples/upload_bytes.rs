//! Uploads that are charged by their size: a mebibyte per day for each client IP, counted in kibibytes.
//!
//! ```sh
//! cargo run --example upload_bytes
//! head -c 300K /dev/zero | curl -i --data-binary @- http://127.0.0.1:3000/upload                          # 300
//! head -c 200K /dev/zero | curl -i -H 'transfer-encoding: chunked' -T - -X POST http://127.0.0.1:3000/upload # 200
//! head -c 300K /dev/zero | curl -i -H 'transfer-encoding: chunked' -T - -X POST http://127.0.0.1:3000/upload # 413
//! ```
//!
//! The size of an upload is only known at its end. So each request **reserves** its `Content-Length` or, if it has
//! none, 256 KiB. Concurrent uploads therefore never get more than the limit has left. A client that announces more
//! than the whole limit gets a 413 before anything is read, and one that sends more than it reserved gets a 413 at
//! that point.
//!
//! Afterwards, the request is **settled**: it costs what was actually read. The client can disconnect at any time,
//! which also drops the handler. So the counter is an extension of the request, which `Rule::settle_by` finds however
//! the request ends.

#[path = "shared/failure.rs"]
mod failure;

use std::{
    env,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Extension, Router,
    body::Body,
    extract::Request,
    http::{StatusCode, header::CONTENT_LENGTH, request::Parts},
    middleware::map_request,
    routing::post,
};
use futures_util::TryStreamExt;
use tokio::net::TcpListener;
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, layer::Assessment,
    limit::LimitsError, rule::RequestEnd,
};

use self::failure::Failure;

const KIB: u64 = 1024;

/// The reservation for an upload without a length, in KiB.
const RESERVE: u32 = 256;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    tracing_subscriber::fmt().init();
    let address = env::args().nth(1).unwrap_or("127.0.0.1:3000".into());
    let app = app()?.into_make_service_with_connect_info::<SocketAddr>();
    let listener = TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

pub(crate) fn app() -> Result<Router, LimitsError> {
    let limits = Limits::builder()
        .limit("upload", Limit::per_day(1024))
        .build()?;
    // For several servers with shared limits: `RedisBackend::new("redis://127.0.0.1:6379")?`, feature `redis`.
    let limiter = Limiter::new(limits, MemoryBackend::new());
    let rule = Rule::new("upload", ClientIp::peer()).cost_by(reservation);
    let layer = RateLimitLayer::with_limiter(limiter).rule(rule.settle_by(read));
    // Around the handler only: requests that the router refuses are not charged. The layer added last is the outermost.
    let upload = post(upload)
        .route_layer(layer)
        .route_layer(map_request(counted));
    Ok(Router::new().route("/upload", upload))
}

/// The number of bytes read from a request's body.
#[derive(Clone, Default)]
struct Read(Arc<AtomicU64>);

async fn counted(mut request: Request) -> Request {
    request.extensions_mut().insert(Read::default());
    request
}

/// The final cost of a request.
fn read(ending: &RequestEnd<'_>) -> Option<u32> {
    let Read(bytes) = ending.request_extensions().get()?;
    Some(kib(bytes.load(Ordering::Relaxed)))
}

/// The reservation of a request, in KiB. It is at least 1, because a rule with a cost of 0 is skipped, even if the limit
/// is exhausted.
fn reservation(request: &Parts) -> u32 {
    let length = request.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    length.map_or(RESERVE, |bytes| kib(bytes).max(1))
}

/// Stands for the storage of the upload.
async fn upload(
    Extension(assessment): Extension<Assessment>,
    Extension(Read(read)): Extension<Read>,
    body: Body,
) -> Result<String, StatusCode> {
    let reserved = assessment.of("upload").map_or(0, |upload| upload.cost);
    let most = u64::from(reserved) * KIB;
    let mut body = body.into_data_stream();
    while let Some(bytes) = body.try_next().await.map_err(|_| StatusCode::BAD_REQUEST)? {
        let bytes = bytes.len() as u64;
        if read.fetch_add(bytes, Ordering::Relaxed) + bytes > most {
            read.store(most, Ordering::Relaxed);
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
    }
    Ok(format!(
        "charged {} KiB\n",
        kib(read.load(Ordering::Relaxed))
    ))
}

fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX)
}
