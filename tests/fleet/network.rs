//! The store, and its faults.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Mutex, MutexGuard},
};

use tokio::time::sleep_until;
use tollgate::{
    MemoryBackend,
    backend::{
        Backend, BackendError,
        custom::{Answer, Operation, Outcome, OwnedBatch},
    },
    clock::Timestamp,
    testing::random::Random,
};

use crate::{
    clock::SimulatedClock,
    plan::{Bucket, Fault, Plan, hashed},
    process::NAMES,
    record::Record,
};

/// The store, the connections to it, and the record of its answers, which all processes of a fleet share.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) plan: Plan,
    /// The clock of the store.
    pub(crate) clock: SimulatedClock,
    /// The faults, and when.
    faults: Vec<(Range<u64>, Fault)>,
    state: Mutex<State>,
    record: Mutex<Record>,
}

#[derive(Debug, Default)]
struct State {
    store: MemoryBackend,
    /// When the last message arrives, by lane.
    arrivals: HashMap<Lane, u64>,
    /// When a busy store is free again.
    free_at: u64,
    /// The units that each bucket was charged, minus its refunds.
    charged: HashMap<(String, String), i64>,
    /// The questions to the store and its answers.
    trace: Vec<String>,
}

/// A process, the number of its connection, and whether the direction is that of answers. Messages in one lane keep their order.
pub(crate) type Lane = (usize, u64, bool);

impl Network {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            plan: plan.clone(),
            clock: SimulatedClock::new(),
            faults: plan.faults().collect(),
            state: Mutex::default(),
            record: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.world()
    }

    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn lose_data(&self) {
        self.state().store = MemoryBackend::new();
    }

    /// Returns the units that a bucket was charged, minus its refunds.
    pub(crate) fn charged(&self, bucket: Bucket) -> i64 {
        let key = (NAMES[bucket.0].to_owned(), bucket.1.to_owned());
        self.state().charged.get(&key).copied().unwrap_or_default()
    }

    pub(crate) fn take_trace(&self) -> Vec<String> {
        std::mem::take(&mut self.state().trace)
    }

    /// The present faults, each with its end.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (Fault, u64)> {
        let now = self.now();
        let faults = self.faults.iter();
        let present = faults.filter(move |(time, _)| time.contains(&now));
        present.map(|(time, fault)| (*fault, time.end))
    }

    /// Returns when a message arrives that is sent now. Simultaneous messages arrive together, so that their order does not matter.
    pub(crate) fn arrival(&self, lane: Lane) -> u64 {
        let now = self.now();
        let mut random = Random(hashed((lane, now, self.plan.seed)));
        let slow = self.faults().find_map(|(fault, _)| match fault {
            Fault::Slow(least, most) => Some((least, most)),
            _ => None,
        });
        let (least, most) = slow.unwrap_or((0, self.plan.setup.latency));
        let arrival = now + random.within(least, most);
        let mut state = self.state();
        let last = state.arrivals.entry(lane).or_default();
        *last = arrival.max(*last);
        *last
    }

    /// Waits until the store reads a message that has arrived. Earlier messages are processed first.
    pub(crate) async fn turn(&self) {
        let now = self.now();
        let busy = self.faults().find_map(|(fault, end)| match fault {
            Fault::Busy(each) => Some((each, end)),
            _ => None,
        });
        let free_at = {
            let mut state = self.state();
            // The rest of the queue is processed at once when the store is as fast as usual again.
            if let Some((each, end)) = busy {
                state.free_at = (state.free_at.max(now) + each).min(end);
            }
            state.free_at
        };
        if free_at > now {
            sleep_until(self.clock.instant(free_at)).await;
        }
        let pause = || {
            self.faults()
                .find(|(fault, _)| matches!(fault, Fault::Paused))
        };
        while let Some((_, end)) = pause() {
            sleep_until(self.clock.instant(end)).await;
        }
    }

    /// Lets the store decide, unless it is down.
    pub(crate) fn decide(
        &self,
        process: usize,
        batch: &OwnedBatch,
    ) -> Result<Outcome, BackendError> {
        if self
            .faults()
            .any(|(fault, _)| matches!(fault, Fault::Down { .. }))
        {
            return Err(BackendError::not_done("the connection was refused"));
        }
        let mut state = self.state();
        let now = Timestamp::from_micros(self.clock.now());
        batch.as_batch(|batch| {
            let batch = batch.at(Some(now));
            let mut answers = vec![Answer::default(); batch.members.len()];
            let decided = state.store.try_apply(&batch, &mut answers);
            let decided = decided.expect("memory never waits");
            let mut members = batch.members.iter().zip(&answers);
            let is_made = members.all(|(member, answer)| answer.passed || !batch.votes(member));
            let mut asked = Vec::new();
            for (member, answer) in batch.members.iter().zip(&answers) {
                let units = match batch.operation {
                    Operation::Spend if is_made && batch.writes(member) => i64::from(member.cost()),
                    Operation::Refund => -i64::from(member.cost()),
                    _ => 0,
                };
                let key = member.key().to_string();
                if answer.passed {
                    let limit = key.split(['~', ':']).next().unwrap_or_default();
                    let bucket = (limit.to_owned(), member.key().id.to_owned());
                    *state.charged.entry(bucket).or_default() += units;
                }
                asked.push((key, member.cost(), answer.passed));
            }
            let now = self.now();
            let operation = batch.operation;
            state
                .trace
                .push(format!("{now}: {operation:?} {asked:?} by {process}"));
            decided.map(|_| Outcome::new(answers))
        })
    }
}
