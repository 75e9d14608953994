//! Background tasks of a backend, which is often built outside of the runtime that uses it.

use std::{fmt, pin::Pin};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::JoinHandle};

use super::error::RedisError;

/// A task that runs from its first use until this value is dropped. It runs in the runtime of its first use. If that
/// runtime ends, the task starts again in the next runtime that uses it.
pub(super) struct Background {
    make: Box<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>,
    task: ArcSwapOption<AbortOnDrop>,
    starting: Mutex<()>,
}

impl Background {
    pub(super) fn new<F>(make: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self {
            make: Box::new(move || Box::pin(make())),
            task: ArcSwapOption::empty(),
            starting: Mutex::new(()),
        }
    }

    /// Starts the task, unless it is running. Fails outside of a runtime.
    pub(super) fn ensure(&self) -> Result<(), RedisError> {
        match self.is_running() {
            true => Ok(()),
            false => self.start(),
        }
    }

    fn is_running(&self) -> bool {
        let task = self.task.load();
        task.as_ref().is_some_and(|task| !task.0.is_finished())
    }

    #[cold]
    fn start(&self) -> Result<(), RedisError> {
        let runtime = Handle::try_current().map_err(|_| {
            let problem = "there is no tokio runtime to connect in: await decisions inside of one";
            RedisError::config(problem)
        })?;
        let _starting = self.starting.lock();
        if !self.is_running() {
            let task = AbortOnDrop(runtime.spawn((self.make)()));
            self.task.store(Some(task.into()));
        }
        Ok(())
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Background")
            .field("running", &self.is_running())
            .finish_non_exhaustive()
    }
}

/// A task that ends when this handle is dropped.
#[derive(Debug)]
pub(super) struct AbortOnDrop<T = ()>(pub(super) JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
