//! A backend around any backend: it remembers denials, so that clients who keep retrying do not reach the store.
//!
//! ```sh
//! cargo run --example custom_wrapper
//! ```

#[path = "shared/failure.rs"]
mod failure;
#[path = "custom_wrapper/remembering.rs"]
mod remembering;

use tollgate::{Limit, Limiter, Limits, MemoryBackend, Transaction};

use self::{failure::Failure, remembering::Remembering};

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let limits = Limits::builder()
        .limit("uploads", Limit::per_hour(100).burst(3))
        .build()?;
    let limiter = Limiter::new(limits, Remembering::new(MemoryBackend::new()));
    let upload = Transaction::new("uploads", "alice");
    for attempt in 1..=6 {
        let decision = limiter.spend(&upload).await?;
        let (allowed, source) = (decision.allowed(), decision.source());
        println!("upload {attempt}: allowed: {allowed}, decided by: {source:?}");
    }
    limiter.refund(&upload).await?;
    let allowed = limiter.spend(&upload).await?.allowed();
    println!("after a refund: allowed: {allowed}");
    Ok(())
}
