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

/// Counts corrections in the background, for those who wait for their end.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub(crate) struct CorrectionsInFlight(tokio::sync::watch::Sender<usize>);

#[cfg(feature = "tokio")]
impl Default for CorrectionsInFlight {
    fn default() -> Self {
        Self(tokio::sync::watch::Sender::new(0))
    }
}

#[cfg(feature = "tokio")]
impl CorrectionsInFlight {
    /// Runs corrections as [`detach`] does, and counts them until they have ended or are dropped with their runtime.
    pub(crate) fn detach(&self, closing: Closing) {
        self.0.send_modify(|running| *running += 1);
        let counted = CorrectionInFlight(self.0.clone());
        detach(Box::pin(async move {
            let _counted = counted;
            closing.await;
        }));
    }

    /// Waits until nothing is running.
    pub(crate) async fn ended(&self) {
        let mut running = self.0.subscribe();
        // Its sender is borrowed, so it cannot be gone.
        let _ = running.wait_for(|running| *running == 0).await;
    }
}

/// Corrections that are running.
#[cfg(feature = "tokio")]
struct CorrectionInFlight(tokio::sync::watch::Sender<usize>);

#[cfg(feature = "tokio")]
impl Drop for CorrectionInFlight {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
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
