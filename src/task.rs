//! Work that goes on even if its caller stops waiting.

use std::{
    future::{self, Future},
    panic,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use tokio::{runtime::Handle, task::unconstrained};
use tracing::{Instrument, instrument::WithSubscriber};

/// Work that can go on in a task.
pub(crate) type Background<T = ()> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls work once, before whatever comes next: in memory, it has ended then, and a store's link has it in its queue. Without a
/// waker, so whoever has the rest has to poll it again. A task that has done a lot does not wait for others here, or what the client
/// sends next would be ahead.
pub(crate) fn begin<T>(work: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Poll<T> {
    let unconstrained = pin!(unconstrained(work.as_mut()));
    unconstrained.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs work to its end, even if nobody waits for it any more. Outside of a runtime, its caller has to wait.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut work: Background<T> = Box::pin(work);
    // What has to wait for nothing needs no task.
    if let Poll::Ready(value) = begin(&mut work) {
        return value;
    }
    let Ok(runtime) = Handle::try_current() else {
        return work.await;
    };
    let task = runtime.spawn(work.in_current_span().with_current_subscriber());
    match task.await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => panic::resume_unwind(panic),
            // The runtime is shutting down, and will drop this future.
            Err(_) => future::pending().await,
        },
    }
}
