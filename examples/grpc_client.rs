//! A gRPC client that comes back when the server has room: it asks the standard health service ten times.
//!
//! ```sh
//! cargo run --example tonic --features tonic &
//! cargo run --example grpc_client --features pace,tonic -- http://127.0.0.1:3000
//! ```

#[path = "shared/failure.rs"]
mod failure;

use std::time::Instant;

use clap::Parser;
use tollgate::pace::PaceLayer;
use tonic::{Code, transport::Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tower::ServiceBuilder;

use self::failure::Failure;

#[derive(Debug, Parser)]
struct Args {
    #[arg(default_value = "http://127.0.0.1:3000")]
    server: String,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let Args { server } = Args::parse();
    let channel = Endpoint::from_shared(server)?.connect().await?;
    // After a refusal, it holds all further calls back until the server has room.
    let channel = ServiceBuilder::new()
        .layer(PaceLayer::new())
        .service(channel);
    let mut health = HealthClient::new(channel);

    let began = Instant::now();
    let mut answered = 0;
    while answered < 10 {
        match health.check(HealthCheckRequest::default()).await {
            Ok(_) => answered += 1,
            // The body of a call can be sent only once, so the caller has to repeat the call.
            Err(status) if status.code() == Code::ResourceExhausted => {}
            Err(status) => return Err(status.into()),
        }
        println!("{answered} answers after {:?}", began.elapsed());
    }
    Ok(())
}
