//! A background task that never runs twice at a time.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::runtime::Handle;
use tracing::instrument::WithSubscriber;

/// Runs one task at a time, in the runtime of the caller that starts it, and logs to that caller's subscriber.
#[derive(Debug, Default)]
pub(super) struct OneTask {
    is_running: Arc<AtomicBool>,
}

impl OneTask {
    /// Starts the task, unless it is running. Returns whether it is running now: it cannot start outside of a runtime.
    #[inline]
    pub(super) fn begin<F>(&self, make: impl FnOnce() -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.is_running.load(Ordering::Acquire) || self.start(make)
    }

    #[cold]
    fn start<F>(&self, make: impl FnOnce() -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Ok(runtime) = Handle::try_current() else {
            return false;
        };
        if !self.is_running.swap(true, Ordering::AcqRel) {
            // The turn is part of the future before it is spawned. A runtime that ends drops the future, polled or not,
            // and with it the turn.
            let (turn, task) = (TaskTurn(Arc::clone(&self.is_running)), make());
            let task = async move {
                let _turn = turn;
                task.await;
            };
            runtime.spawn(task.with_current_subscriber());
        }
        true
    }
}

/// Lets another task start when this one ends, also when its runtime ends.
struct TaskTurn(Arc<AtomicBool>);

impl Drop for TaskTurn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tracing::dispatcher::get_default;
    use tracing_subscriber::Registry;

    use super::*;

    #[tokio::test]
    async fn task_logs_to_the_subscriber_of_whoever_began_it() {
        let ((sender, logs_there), task) = (oneshot::channel(), OneTask::default());
        let begun = tracing::subscriber::with_default(Registry::default(), || {
            task.begin(|| async {
                let _ = sender.send(get_default(|own| own.is::<Registry>()));
            })
        });
        assert!(begun && logs_there.await.unwrap());
    }
}
