//! Work that continues even if its caller stops waiting.

use std::{future::Future, pin::Pin};

#[cfg(feature = "tokio")]
use tracing::{Instrument, instrument::WithSubscriber};

/// Corrections that have to be waited for.
pub(crate) type Closing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs corrections to their end in the background.
pub(crate) fn detach(closing: Closing) {
    #[cfg(feature = "tokio")]
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(closing.in_current_span().with_current_subscriber());
        return;
    }
    drop(closing);
    tracing::warn!("the charge of a request is not corrected: run it inside a tokio runtime");
}

/// Runs a future to its end, even if nobody waits for it any more.
pub(crate) fn detached<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    #[cfg(feature = "tokio")]
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let task = runtime.spawn(future.in_current_span().with_current_subscriber());
        return Box::pin(async move {
            match task.await {
                Ok(value) => value,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // The runtime is shutting down, and will drop this future.
                    Err(_) => std::future::pending().await,
                },
            }
        });
    }
    Box::pin(future)
}
