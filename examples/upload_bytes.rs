//! Uploads that are charged by their size: a mebibyte per day for each client IP, counted in kibibytes.
//!
//! ```sh
//! cargo run --example upload_bytes
//! head -c 300K /dev/zero | curl -i --data-binary @- http://127.0.0.1:3000/upload                          # 300
//! head -c 200K /dev/zero | curl -i -H 'transfer-encoding: chunked' -T - -X POST http://127.0.0.1:3000/upload # 200
//! head -c 300K /dev/zero | curl -i -H 'transfer-encoding: chunked' -T - -X POST http://127.0.0.1:3000/upload # 413
//! ```
//!
//! How large an upload is, nobody knows before it is over. So a request **reserves**: what its `Content-Length` says or, if it
//! has none, 256 KiB. Uploads on their way at the same time thus never get more than the limit has left. Whoever
//! announces more than the whole limit gets a 413 before anything is read, and whoever sends more than was reserved gets it then.
//!
//! Afterwards, the request is **settled**: it costs what was really read. A client may go away at any time. Then the handler
//! is either told by an error of the body, or dropped where it stands. So what was read is in a guard, which settles when
//! it is dropped. `Rule::settle_by` is not the tool for this: where there is no response, its closure learns only
//! that the request was abandoned, and not how much of it came in. It is the tool for what is sent, as in `token_budget`.

use std::{env, error::Error, net::SocketAddr};

use axum::{
    Extension, Router,
    body::Body,
    http::{StatusCode, header::CONTENT_LENGTH, request::Parts},
    routing::post,
};
use futures_util::TryStreamExt;
use tokio::{net::TcpListener, task::JoinHandle};
use tollgate::{
    ClientIp, Limit, Limiter, Limits, MemoryBackend, RateLimitLayer, Rule, layer::Assessment,
    limit::LimitsError,
};

const KIB: u64 = 1024;

/// What is reserved for an upload that does not say how long it is, in KiB.
const RESERVE: u32 = 256;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
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
    // For several servers that count together: `RedisBackend::new("redis://127.0.0.1:6379")?`, feature `redis`.
    let limiter = Limiter::new(limits, MemoryBackend::new());
    let rule = Rule::new("upload", ClientIp::peer()).cost_by(reservation);
    let layer = RateLimitLayer::new(limiter).rule(rule);
    // Around the handler alone: what the router refuses, such as another method, would reserve and never settle.
    Ok(Router::new().route("/upload", post(upload).route_layer(layer)))
}

/// What a request reserves, in KiB. It is at least 1, because a rule that costs nothing is skipped, be the limit
/// exhausted or not.
fn reservation(request: &Parts) -> u32 {
    let length = request.headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    length.map_or(RESERVE, |bytes| kib(bytes).max(1))
}

async fn upload(
    Extension(assessment): Extension<Assessment>,
    body: Body,
) -> Result<String, StatusCode> {
    let mut meter = Meter::new(assessment);
    let read = read(body, &mut meter).await;
    // The client is to be answered when its upload is counted. Of errors, the task tells.
    let _ = meter.settle().await;
    read.map(|()| format!("charged {} KiB\n", kib(meter.read)))
}

/// Where the upload would be stored.
async fn read(body: Body, meter: &mut Meter) -> Result<(), StatusCode> {
    let mut body = body.into_data_stream();
    while let Some(bytes) = body.try_next().await.map_err(|_| StatusCode::BAD_REQUEST)? {
        meter.count(bytes.len() as u64)?;
    }
    Ok(())
}

/// Counts what is read of an upload, and charges it, also if it is dropped before its end.
struct Meter {
    assessment: Assessment,
    reserved: u64,
    read: u64,
}

impl Meter {
    fn new(assessment: Assessment) -> Self {
        let reserved = assessment.of("upload").map_or(0, |upload| upload.cost);
        Self {
            assessment,
            reserved: u64::from(reserved) * KIB,
            read: 0,
        }
    }

    fn count(&mut self, bytes: u64) -> Result<(), StatusCode> {
        let read = self.read + bytes;
        self.read = read.min(self.reserved);
        match read > self.reserved {
            true => Err(StatusCode::PAYLOAD_TOO_LARGE),
            false => Ok(()),
        }
    }

    /// Charges what was read so far. It is done in a task, which goes on when the client is gone.
    fn settle(&self) -> JoinHandle<()> {
        let (assessment, read) = (self.assessment.clone(), kib(self.read));
        tokio::spawn(async move {
            let Some(upload) = assessment.of("upload") else {
                return;
            };
            // Then what was reserved stays charged.
            if let Err(error) = upload.settle(read).await {
                tracing::warn!(%error, "an upload could not be settled");
            }
        })
    }
}

/// What was settled before is not settled twice.
impl Drop for Meter {
    fn drop(&mut self) {
        self.settle();
    }
}

fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(KIB)).unwrap_or(u32::MAX)
}
