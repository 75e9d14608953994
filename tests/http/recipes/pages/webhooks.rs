use std::time::Duration;

use tollgate::{
    Limit, Limits,
    limit::LimitsError,
    limiter::{LimitHandle, LimiterError},
};

fn limits() -> Result<Limits, LimitsError> {
    // At most five in any second to each receiver, 200 ms apart. A delivery waits for up to a minute.
    let webhooks = Limit::per_second(5)
        .burst(1)
        .max_wait(Duration::from_secs(60));
    Limits::builder().limit("webhooks", webhooks).build()
}

/// The result of a delivery.
#[derive(Debug, PartialEq)]
enum Delivery {
    Sent,
    /// The receiver's line is full: put the delivery back at the front of the queue, and take no other one for this
    /// receiver before so long.
    Later(Duration),
}

/// Sends a webhook when it is the receiver's turn.
async fn deliver(
    webhooks: &LimitHandle,
    receiver: &str,
    send: impl Future<Output = ()>,
) -> Result<Delivery, LimiterError> {
    let decision = webhooks.acquire(receiver).await?;
    if !decision.allowed() {
        return Ok(Delivery::Later(decision.retry_after()));
    }
    send.await;
    Ok(Delivery::Sent)
}
