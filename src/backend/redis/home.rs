//! The runtime of a backend.

use std::{future, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{runtime::Handle, time};

use super::{address::Target, error::RedisError, keys::KeyForm, servers::Servers};
use crate::task::runtime_with_timer;

/// If a runtime starts no task for this long, it counts as standing still.
const STANDSTILL: Duration = Duration::from_millis(20);

/// The runtime that serves all connections of a backend. It is one of the runtimes that use the backend.
///
/// A runtime of one thread runs only while a thread blocks on it, which cannot be seen from outside. So a decision in another
/// runtime first lets this one start a task. If the task does not start, the decision's own runtime connects anew, and becomes the
/// runtime of the backend.
pub(super) struct HomeRuntime {
    target: Target,
    pub(super) form: KeyForm,
    servers: Mutex<Option<Arc<Servers>>>,
}

impl HomeRuntime {
    pub(super) fn new(target: Target, form: KeyForm) -> Self {
        Self {
            target,
            form,
            servers: Mutex::default(),
        }
    }

    /// Returns the servers, unless they have no runtime.
    pub(super) fn known(&self) -> Option<Arc<Servers>> {
        self.servers.lock().clone()
    }

    /// Returns the servers. If they have no runtime yet, they start in this one.
    pub(super) fn begin(&self, runtime: &Handle) -> Arc<Servers> {
        let start = || Servers::start(self.target.clone(), self.form.clone(), runtime.clone());
        Arc::clone(self.servers.lock().get_or_insert_with(start))
    }

    /// Returns the servers, after making sure that their runtime runs.
    pub(super) async fn servers(self: &Arc<Self>) -> Result<Arc<Servers>, RedisError> {
        let own = runtime_with_timer().map_err(RedisError::config)?;
        let servers = self.begin(&own);
        if servers.runtime.id() == own.id() {
            return Ok(servers);
        }
        let started = servers.runtime.spawn(future::ready(()));
        let home = Arc::clone(self);
        // Runs in a task, because callers may leave before it has ended.
        let probe = own.spawn(async move {
            let runs = matches!(time::timeout(STANDSTILL, started).await, Ok(Ok(())));
            let is_same = |known: &mut Arc<Servers>| Arc::ptr_eq(known, &servers);
            if !runs {
                let _left = home.servers.lock().take_if(is_same);
            }
        });
        let _ends_with_its_runtime = probe.await;
        Ok(self.begin(&own))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use tokio::{
        runtime::{Builder, Runtime},
        task::yield_now,
    };

    use super::*;
    use crate::backend::redis::{address, protocol::Call};

    fn runtime() -> Runtime {
        let mut builder = Builder::new_current_thread();
        builder.enable_all().start_paused(true).build().unwrap()
    }

    /// Returns a backend that was used in the first of two runtimes.
    fn used() -> (Arc<HomeRuntime>, [Runtime; 2]) {
        let form = KeyForm::default();
        let probe = Arc::new(Call::probe(&form));
        let (target, _) = address::parse("redis://127.0.0.1:1", probe).unwrap();
        let home = Arc::new(HomeRuntime::new(target, form));
        let runtimes = [runtime(), runtime()];
        runtimes[0].block_on(home.servers()).unwrap();
        (home, runtimes)
    }

    #[test]
    fn runtime_that_runs_stays_the_home() {
        let (home, [first, second]) = used();
        let mut servers = Box::pin(home.servers());
        second.block_on(async { assert!(poll!(&mut servers).is_pending()) });
        first.block_on(yield_now());
        let servers = second.block_on(servers).unwrap();
        assert_eq!(servers.runtime.id(), first.handle().id());
    }

    #[test]
    fn runtime_that_stands_still_or_has_ended_is_replaced() {
        for has_ended in [false, true] {
            let (home, [first, second]) = used();
            let _stands_still = Some(first).filter(|_| !has_ended);
            let servers = second.block_on(home.servers()).unwrap();
            assert_eq!(servers.runtime.id(), second.handle().id(), "{has_ended}");
        }
    }

    #[test]
    fn runtime_is_left_even_if_the_caller_leaves_first() {
        let (home, [_first, second]) = used();
        second.block_on(async {
            assert!(poll!(Box::pin(home.servers())).is_pending());
            time::sleep(2 * STANDSTILL).await;
        });
        assert!(home.known().is_none());
    }
}
