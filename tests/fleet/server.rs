//! The servers of the simulated store.

use std::sync::Arc;

use tollgate::{
    MemoryBackend,
    backend::{Backend, BackendError},
    clock::Timestamp,
    decision::{Answer, Outcome},
    transaction::{Batch, Member, Operation, OwnedBatch},
};

use crate::ledger::{Charges, Ledger};

/// The first instant of a simulation: shortly before a full hour, so that quotas end in the middle of it.
pub(crate) const EPOCH: u64 = 1_767_229_200_000_000 - 2_300_000;

/// What a server does with calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    /// It refuses connections.
    Down,
    /// It reads calls, and decides them once it goes on.
    Hung,
    /// It is out of memory, and refuses to write.
    Full,
    /// It is a replica.
    Replica,
}

/// The reason for which a server has not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    NotDone(&'static str),
    Moving,
    /// The connection was closed after the call was sent.
    Lost,
}

impl From<Refusal> for BackendError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotDone(reason) => Self::not_done(reason),
            Refusal::Moving => Self::Moving("READONLY".into()),
            Refusal::Lost => Self::unavailable("the connection was closed"),
        }
    }
}

/// A server, and everything that it has decided.
pub(crate) struct Server {
    /// Its number as one of several servers. A server that replaces another one has a new number.
    pub(crate) number: u32,
    pub(crate) health: Health,
    /// How far its clock is ahead, in microseconds.
    pub(crate) ahead: i64,
    pub(crate) memory: Arc<MemoryBackend>,
    /// The batches that have changed something, and when.
    history: Vec<(Timestamp, OwnedBatch)>,
    last: Timestamp,
}

/// The most buckets of a server.
const BUCKETS: usize = 4096;

impl Server {
    pub(crate) fn new(number: u32) -> Self {
        Self {
            number,
            health: Health::Up,
            ahead: 0,
            memory: Arc::new(MemoryBackend::with_max_buckets(BUCKETS)),
            history: Vec::new(),
            last: Timestamp::default(),
        }
    }

    /// Returns the time of the server's clock at an instant of the simulation.
    pub(crate) fn clock(&self, now: u64) -> Timestamp {
        Timestamp::from_micros((EPOCH + now).saturating_add_signed(self.ahead))
    }

    /// Decides a batch.
    pub(crate) fn decide(
        &mut self,
        now: u64,
        batch: &OwnedBatch,
        ledger: &mut Ledger,
    ) -> (Result<Outcome, Refusal>, Charges) {
        let refusal = match self.health {
            Health::Up | Health::Hung => None,
            Health::Down => Some(Refusal::NotDone("connection refused")),
            Health::Replica => Some(Refusal::Moving),
            Health::Full => Some(Refusal::NotDone("OOM")),
        };
        let is_check = batch.as_batch(|batch| batch.operation == Operation::Check);
        if let Some(refusal) = refusal.filter(|_| !(is_check && self.health == Health::Full)) {
            batch.as_batch(|batch| ledger.not_executed(batch));
            return (Err(refusal), Charges::new());
        }
        let at = self.clock(now);
        self.last = at.max(self.last);
        batch.as_batch(|batch| self.execute(at, batch, ledger))
    }

    fn execute(
        &mut self,
        at: Timestamp,
        batch: &Batch<'_>,
        ledger: &mut Ledger,
    ) -> (Result<Outcome, Refusal>, Charges) {
        let decided = apply(&self.memory, batch, at);
        let passed: Vec<_> = decided.answers().iter().map(Answer::passed).collect();
        let charges = ledger.executed(batch, &passed);
        if let Some(trace) = &mut ledger.trace {
            trace.extend(traced(at, batch, &decided));
        }
        if batch.operation != Operation::Check {
            self.history.push((at, OwnedBatch::from(batch)));
        }
        (Ok(decided), charges)
    }

    /// Loses all data.
    pub(crate) fn lose_all(&mut self) {
        self.history.clear();
        self.memory = Arc::new(MemoryBackend::with_max_buckets(BUCKETS));
    }

    /// Is replaced by a replica that has not received the last `lost` writes.
    pub(crate) fn fail_over(&mut self, number: u32, lost: usize) {
        let kept = self.history.len().saturating_sub(lost);
        self.history.truncate(kept);
        self.memory = Arc::new(MemoryBackend::with_max_buckets(BUCKETS));
        for (at, batch) in &self.history {
            batch.as_batch(|batch| apply(&self.memory, batch, *at));
        }
        (self.number, self.health) = (number, Health::Up);
    }
}

/// Returns a line for each answer.
fn traced(at: Timestamp, batch: &Batch<'_>, decided: &Outcome) -> Vec<String> {
    let us = at.as_micros() - EPOCH;
    let members = batch.members.iter().zip(decided.answers());
    let line = |(member, answer): (&Member<'_>, &Answer)| {
        let (key, cost, mode) = (member.key, member.cost, member.mode);
        let operation = batch.operation;
        format!("{us:>9} us: {operation:?} {key} {cost} {mode:?} {answer:?}")
    };
    members.map(line).collect()
}

fn apply(memory: &MemoryBackend, batch: &Batch<'_>, at: Timestamp) -> Outcome {
    let decided = memory.try_apply(&batch.at(Some(at)));
    decided
        .expect("memory never waits")
        .expect("the time is valid")
}
