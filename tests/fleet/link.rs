//! The backend of a process: its connections to the store.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{sleep, sleep_until, timeout},
};
use tollgate::backend::{
    Backend, BackendError, async_trait,
    custom::{AlgorithmKey, Batch, Outcome, OwnedBatch},
};

use crate::network::{Message, Network};

/// How long a process waits for an answer if nothing else gives up before.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) network: Arc<Network>,
    pub(crate) process: usize,
    pub(crate) life: u32,
}

type Answer = Result<Outcome, BackendError>;

#[async_trait]
impl Backend for Link {
    async fn apply(&self, batch: &Batch<'_>) -> Answer {
        let message = self.network.message(self.process, self.life, batch);
        let arrival = self.network.arrival(message, false);
        let (sender, answer) = oneshot::channel();
        let mut keys = batch.keys();
        let (late, again) = if keys.all(|key| key.algorithm == AlgorithmKey::Concurrency) {
            self.network.delays(message)
        } else {
            (0, None)
        };
        // What is sent arrives, whether somebody waits for the answer or not.
        tokio::spawn(travel(
            Arc::clone(&self.network),
            (message, arrival + late),
            OwnedBatch::from(batch),
            sender,
        ));
        if let Some(after) = again {
            tokio::spawn(travel(
                Arc::clone(&self.network),
                (message, arrival + after),
                OwnedBatch::from(batch),
                oneshot::channel().0,
            ));
        }
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            _ => Err(BackendError::unavailable("there is no answer")),
        }
    }
}

/// Takes a message to the store, and its answer back.
async fn travel(
    network: Arc<Network>,
    (message, arrival): (Message, u64),
    batch: OwnedBatch,
    sender: oneshot::Sender<Answer>,
) {
    let lost = network.loses(message, false);
    sleep_until(network.clock.instant(arrival)).await;
    if lost || network.loses(message, false) {
        return keep(sender).await;
    }
    let mut turn = network.turn();
    while turn > network.clock.world() {
        sleep_until(network.clock.instant(turn)).await;
        turn = if network.is_paused() {
            network.turn()
        } else {
            0
        };
    }
    if network.is_down() {
        let refused = BackendError::not_done("the connection was refused");
        let _ = sender.send(Err(refused));
        return;
    }
    let answer = network.decide(message, &batch);
    let lost = network.loses(message, true);
    let arrival = network.arrival(message, true);
    sleep_until(network.clock.instant(arrival)).await;
    if lost || network.loses(message, true) {
        return keep(sender).await;
    }
    let _ = sender.send(answer);
}

/// Lets a process wait for an answer that never comes.
async fn keep(sender: oneshot::Sender<Answer>) {
    sleep(PATIENCE * 2).await;
    drop(sender);
}
