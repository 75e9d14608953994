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
    use std::sync::atomic::AtomicUsize;

    use tracing::{
        Event, Metadata, Subscriber,
        span::{Attributes, Id, Record},
    };

    use super::*;

    /// Counts events.
    struct Counter(Arc<AtomicUsize>);

    impl Subscriber for Counter {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let ours = event.metadata().target() == "one_task";
            self.0.fetch_add(usize::from(ours), Ordering::Relaxed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[tokio::test]
    async fn task_logs_to_the_subscriber_of_whoever_began_it() {
        let (logged, task) = (Arc::new(AtomicUsize::new(0)), OneTask::default());
        let subscriber = Counter(Arc::clone(&logged));
        let begun = tracing::subscriber::with_default(subscriber, || {
            task.begin(|| async { tracing::error!(target: "one_task", "lost") })
        });
        assert!(begun);
        while task.is_running.load(Ordering::Acquire) {
            tokio::task::yield_now().await;
        }
        assert_eq!(logged.load(Ordering::Relaxed), 1);
    }
}
