//! A cluster without servers, for simulations.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{self, Instant},
};

use super::{
    error::{Failure, RedisError},
    multi_slot::{self, SlotServers},
};
use crate::{
    backend::{Backend, BackendError},
    batch::{Batch, Member},
    decision::{Answer, Outcome},
};

/// Decides batches as the client of a cluster does. A backend stands for the servers, and sees only batches within one slot.
pub struct SimulatedCluster<B> {
    servers: Arc<SimulatedServers<B>>,
    timeout: Duration,
}

struct SimulatedServers<B> {
    backend: B,
    slot_of: Box<dyn Fn(&str) -> u64 + Send + Sync>,
    runtime: Handle,
    turn: Mutex<()>,
}

impl<B: Backend> SimulatedCluster<B> {
    /// Creates the client of a cluster, in a runtime. `slot_of` returns the slot of an id.
    pub fn new(
        backend: B,
        slot_of: impl Fn(&str) -> u64 + Send + Sync + 'static,
        timeout: Duration,
    ) -> Self {
        let servers = SimulatedServers {
            backend,
            slot_of: Box::new(slot_of),
            runtime: Handle::current(),
            turn: Mutex::default(),
        };
        Self {
            servers: Arc::new(servers),
            timeout,
        }
    }
}

impl<B: Backend> SlotServers for SimulatedServers<B> {
    fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn turn(&self) -> &Mutex<()> {
        &self.turn
    }

    fn slot_of_member(&self, member: &Member<'_>) -> u64 {
        (self.slot_of)(member.key().id)
    }

    async fn run(
        self: &Arc<Self>,
        batch: &Batch<'_>,
        deadline: Instant,
    ) -> Result<Vec<Answer>, Failure> {
        let asked = time::timeout_at(deadline, self.backend.apply(batch)).await;
        match asked {
            Ok(Ok(outcome)) => Ok(outcome.answers.to_vec()),
            Ok(Err(BackendError::NoRoom { member })) => Err(Failure::NoRoom(member)),
            Ok(Err(BackendError::NotDone(_))) => Err(Failure::NotDone(RedisError::Busy)),
            Ok(Err(_)) => Err(Failure::Unknown(RedisError::Busy)),
            Err(_) => Err(Failure::Unknown(RedisError::Timeout)),
        }
    }
}

#[async_trait]
impl<B: Backend> Backend for SimulatedCluster<B> {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let deadline = Instant::now() + self.timeout;
        let decided = multi_slot::apply(&self.servers, batch, deadline, self.timeout).await;
        decided.map_err(|failure| failure.error(|_| String::new()))
    }
}

impl<B: fmt::Debug> fmt::Debug for SimulatedCluster<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimulatedCluster")
            .field(&self.servers.backend)
            .finish()
    }
}
