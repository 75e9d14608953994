//! The backend of a process: its connections to the store.

use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::time::{sleep_until, timeout};
use tollgate::backend::{
    Backend, BackendError, async_trait,
    custom::{AlgorithmKey, Batch, Outcome, OwnedBatch},
};

use crate::{
    network::Network,
    plan::{Fault, hashed, tag_of},
};

/// How long a process waits for an answer if nothing else gives up before.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) network: Arc<Network>,
    pub(crate) process: usize,
    /// Whether the process was not killed.
    pub(crate) is_alive: Arc<AtomicBool>,
}

/// A message between a process and the store.
#[derive(Clone, Copy, Debug)]
struct Message {
    connection: u64,
    hash: u64,
}

#[async_trait]
impl Backend for Link {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let message = self.message(batch);
        let copy = OwnedBatch::from(batch);
        let mut late = 0;
        let mut keys = batch.keys();
        if keys.all(|key| key.algorithm == AlgorithmKey::Concurrency) {
            for (fault, _) in self.network.faults() {
                match fault {
                    Fault::Late { nth, after } if (message.hash / 11).is_multiple_of(nth) => {
                        late = after;
                    }
                    Fault::Repeats { nth, after } if (message.hash / 13).is_multiple_of(nth) => {
                        tokio::spawn(self.clone().travel(message, after, copy.clone()));
                    }
                    _ => {}
                }
            }
        }
        // A message arrives, whether somebody waits for its answer or not.
        let travel = tokio::spawn(self.clone().travel(message, late, copy));
        match timeout(PATIENCE, travel).await {
            Ok(answer) => answer.expect("it does not panic"),
            Err(_) => Err(BackendError::unavailable("there is no answer")),
        }
    }
}

impl Link {
    fn message(&self, batch: &Batch<'_>) -> Message {
        let setup = &self.network.plan.setup;
        let sent = (self.process, self.network.now(), self.network.plan.seed);
        match batch.keys().next() {
            // Questions about clients with the same tag share a connection, and are lost or late together.
            Some(key) if setup.is_cluster => {
                let connection = tag_of(key.id, setup.connections);
                let hash = hashed((connection, sent));
                Message { connection, hash }
            }
            _ => {
                let keys: Vec<_> = batch.keys().map(|key| key.to_string()).collect();
                let hash = hashed((keys, batch.operation, sent));
                let connection = hash % setup.connections;
                Message { connection, hash }
            }
        }
    }

    /// Takes a message to the store, and its answer back.
    async fn travel(
        self,
        message: Message,
        late: u64,
        batch: OwnedBatch,
    ) -> Result<Outcome, BackendError> {
        self.pass(message, false, late).await;
        self.network.turn().await;
        let answer = self.network.decide(self.process, &batch);
        if !matches!(answer, Err(BackendError::NotDone(_))) {
            self.pass(message, true, 0).await;
        }
        answer
    }

    /// Waits until a message arrives. That is never if it is lost.
    async fn pass(&self, message: Message, is_answer: bool, late: u64) {
        let lane = (self.process, message.connection, is_answer);
        let arrival = self.network.arrival(lane) + late;
        let is_lost = self.loses(message, is_answer);
        sleep_until(self.network.clock.instant(arrival)).await;
        if is_lost || self.loses(message, is_answer) {
            pending::<()>().await;
        }
    }

    /// Returns whether a message that is sent or arrives now is lost.
    fn loses(&self, message: Message, is_answer: bool) -> bool {
        let is_cut = self.network.faults().any(|(fault, _)| match fault {
            Fault::Cut(process) => process.is_none_or(|process| process == self.process),
            Fault::Loses { nth, answers } => {
                answers == is_answer && (message.hash / 7).is_multiple_of(nth)
            }
            Fault::Down { .. } => is_answer,
            _ => false,
        });
        is_cut || !self.is_alive.load(Relaxed)
    }
}
