//! A task in the background, of which there is one at a time.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::runtime::Handle;

/// Runs one task at a time, in the runtime of whoever begins it.
#[derive(Debug, Default)]
pub(super) struct OneTask {
    is_running: Arc<AtomicBool>,
}

impl OneTask {
    /// Begins the task, unless it runs already. Returns whether it runs now: it cannot begin outside of a runtime.
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
            let (turn, task) = (Turn(Arc::clone(&self.is_running)), make());
            runtime.spawn(async move {
                let _turn = turn;
                task.await;
            });
        }
        true
    }
}

/// At its end, even that of the runtime, another task may begin.
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
