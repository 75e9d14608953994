//! Runs work that continues even if its caller stops waiting.

use std::{
    cell::Cell,
    future::{self, Future},
    panic,
    pin::{Pin, pin},
    sync::Once,
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

use tokio::{runtime::Handle, task::unconstrained, time};
use tracing::{Instrument, instrument::WithSubscriber};

/// Work that can continue in a task.
pub(crate) type Background<T = ()> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Polls work once, so that it precedes the client's next request: in memory, it has ended then, and with a store, it is in the
/// queue of the link. It is polled without a waker, so the caller has to poll it again. It is also polled without tokio's
/// cooperative budget, so that a busy task does not put it off.
pub(crate) fn begin<T>(work: &mut Pin<Box<dyn Future<Output = T> + Send + '_>>) -> Poll<T> {
    let unconstrained = pin!(unconstrained(work.as_mut()));
    unconstrained.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs work to its end, even if its caller stops waiting. Without a runtime, the work depends on the caller.
pub(crate) async fn detached<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let mut work: Background<T> = Box::pin(work);
    // Work that ends at its first poll needs no task.
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

/// Returns the runtime of this thread. Fails, with the remedy, if there is none, or if it has no timer.
pub(crate) fn runtime_with_timer() -> Result<Handle, &'static str> {
    match Handle::try_current() {
        Ok(runtime) if has_timer() => Ok(runtime),
        Ok(_) => Err("the tokio runtime has no timer: build it with `enable_time` or `enable_all`"),
        Err(_) => Err("there is no tokio runtime: await this inside of one"),
    }
}

/// Returns whether the runtime of this thread has a timer. Only the panic of a new timer tells that. So this installs a panic hook
/// that ignores this panic and passes all others on.
fn has_timer() -> bool {
    thread_local!(static TRIES: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();

    // If panics abort the process, this one must be visible. While a thread panics, it cannot set a hook.
    if cfg!(panic = "abort") || thread::panicking() {
        return true;
    }
    HOOK.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !TRIES.get() {
                hook(panic);
            }
        }));
    });
    TRIES.set(true);
    let timer = panic::catch_unwind(|| drop(time::sleep(Duration::ZERO)));
    TRIES.set(false);
    timer.is_ok()
}
