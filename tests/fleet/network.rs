//! The store, and the connections to it.

use std::{
    collections::HashMap,
    ops::Range,
    sync::{Arc, Mutex},
};

use tollgate::{
    MemoryBackend,
    backend::{
        Backend, BackendError,
        custom::{Answer, Batch, Operation, Outcome, OwnedBatch},
    },
    clock::Timestamp,
    testing::random::Random,
};

use crate::{
    clock::SimulatedClock,
    plan::{Fault, Setup, hashed, tag_of},
};

/// The store and the connections of all processes. All times are those of the simulation.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) clock: Arc<SimulatedClock>,
    state: Mutex<State>,
    seed: u64,
    /// The least and the longest time that a message takes without faults, in microseconds.
    latency: (u64, u64),
    /// The number of connections of each process. Messages on one connection keep their order.
    lanes: u64,
    /// How many tags clients share, if the store is a cluster. Each has a connection.
    tags: Option<u64>,
}

#[derive(Debug)]
struct State {
    store: Arc<MemoryBackend>,
    faults: Vec<(Range<u64>, Fault)>,
    /// The instant at which the last message arrives, by process, connection and direction.
    arrivals: HashMap<(usize, u64, bool), u64>,
    /// The instant at which a busy store is free again.
    free_at: u64,
    /// The number of times that each process was killed.
    lives: HashMap<usize, u32>,
    /// The units that each bucket was charged, minus its refunds.
    charged: HashMap<String, i64>,
    /// The questions to the store and its answers, if they are recorded.
    trace: Vec<String>,
}

/// A message between a process and the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) process: usize,
    pub(crate) life: u32,
    lane: u64,
    hash: u64,
}

impl Network {
    pub(crate) fn new(clock: Arc<SimulatedClock>, seed: u64, setup: &Setup) -> Self {
        let state = State {
            store: Arc::default(),
            faults: Vec::new(),
            arrivals: HashMap::new(),
            free_at: 0,
            lives: HashMap::new(),
            charged: HashMap::new(),
            trace: Vec::new(),
        };
        Self {
            clock,
            state: Mutex::new(state),
            seed,
            latency: setup.latency,
            lanes: setup.connections(),
            tags: setup.tags,
        }
    }

    /// Begins a fault.
    pub(crate) fn fail(&self, fault: Fault, lasts: u64) {
        let (mut state, now) = (self.state.lock().unwrap(), self.clock.world());
        match fault {
            Fault::Down { loses_data: true } => state.store = Arc::default(),
            Fault::StoreClock(by) => self.clock.step(by),
            _ => {}
        }
        state.faults.push((now..now + lasts, fault));
    }

    /// Drops all messages from a process and to it until it starts again.
    pub(crate) fn kill(&self, process: usize) {
        *self.state.lock().unwrap().lives.entry(process).or_default() += 1;
    }

    /// How often a process was killed.
    pub(crate) fn life(&self, process: usize) -> u32 {
        let lives = &self.state.lock().unwrap().lives;
        lives.get(&process).copied().unwrap_or_default()
    }

    /// Returns the units that a bucket was charged, minus its refunds. `number` is that of its limit.
    pub(crate) fn charged(&self, number: usize, id: &str) -> i64 {
        let state = self.state.lock().unwrap();
        let of_bucket = |key: &str| {
            let (limit, of) = key.split_once(':').expect("a key has an id");
            let limit = limit.split('~').next();
            limit == Some(&number.to_string()) && of == id
        };
        let charged = state.charged.iter().filter(|(key, _)| of_bucket(key));
        charged.map(|(_, units)| units).sum()
    }

    pub(crate) fn take_trace(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().trace)
    }

    pub(crate) fn message(&self, process: usize, life: u32, batch: &Batch<'_>) -> Message {
        let sent = (process, self.clock.world(), self.seed);
        let members = batch.members.iter();
        let first = batch.members.first().map(|member| member.key().id);
        let keys = members.map(|member| member.key().to_string());
        let hash = hashed((keys.collect::<Vec<_>>(), batch.operation, sent));
        let mut message = Message {
            process,
            life,
            lane: hash % self.lanes,
            hash,
        };
        if let (Some(tags), Some(first)) = (self.tags, first) {
            // Questions about clients with the same tag share a connection, and are lost or late together.
            message.lane = tag_of(first, tags);
            message.hash = hashed((message.lane, sent));
        }
        message
    }

    /// Returns the instant at which a message arrives at the store or comes back from it. Simultaneous messages on one connection
    /// arrive together, so that their order does not matter.
    pub(crate) fn arrival(&self, message: Message, is_answer: bool) -> u64 {
        let now = self.clock.world();
        let lane = (message.process, message.lane, is_answer);
        let mut random = Random(hashed((lane, now, self.seed)));
        let mut state = self.state.lock().unwrap();
        let slow = state.during(now).find_map(|(_, fault)| match fault {
            Fault::Slow { latency } => Some(*latency),
            _ => None,
        });
        let (low, high) = slow.unwrap_or(self.latency);
        let arrival = now + random.within(low, high);
        let last = state.arrivals.entry(lane).or_default();
        *last = arrival.max(*last);
        *last
    }

    /// Returns by how much a message about permits that is sent now is delayed, and the time after which it arrives once more, if
    /// it does.
    pub(crate) fn delays(&self, message: Message) -> (u64, Option<u64>) {
        let (state, now) = (self.state.lock().unwrap(), self.clock.world());
        let (mut late, mut again) = (0, None);
        for (_, fault) in state.during(now) {
            match *fault {
                Fault::Late { nth, after } if (message.hash / 11).is_multiple_of(nth) => {
                    late = after;
                }
                Fault::Repeats { nth, after } if (message.hash / 13).is_multiple_of(nth) => {
                    again = Some(after);
                }
                _ => {}
            }
        }
        (late, again)
    }

    /// Returns whether a message that is sent or arrives now is lost.
    pub(crate) fn loses(&self, message: Message, is_answer: bool) -> bool {
        let (state, now) = (self.state.lock().unwrap(), self.clock.world());
        let life = state.lives.get(&message.process).copied();
        let is_alive = life.unwrap_or_default() == message.life;
        !is_alive
            || state.during(now).any(|(_, fault)| match *fault {
                Fault::Cut(process) => process.is_none_or(|process| process == message.process),
                Fault::Loses { nth, answers } => {
                    answers == is_answer && (message.hash / 7).is_multiple_of(nth)
                }
                Fault::Down { .. } => is_answer,
                _ => false,
            })
    }

    pub(crate) fn is_down(&self) -> bool {
        let (state, now) = (self.state.lock().unwrap(), self.clock.world());
        let mut faults = state.during(now);
        faults.any(|(_, fault)| matches!(fault, Fault::Down { .. }))
    }

    /// Returns the instant at which the store reads a message that arrives now. If it is paused or busy, that is later.
    pub(crate) fn turn(&self) -> u64 {
        let (mut state, now) = (self.state.lock().unwrap(), self.clock.world());
        let busy = state.during(now).find_map(|(time, fault)| match fault {
            Fault::Busy(each) => Some((*each, time.end)),
            _ => None,
        });
        // The rest of the queue is processed at once when the store is as fast as usual again.
        if let Some((each, end)) = busy {
            state.free_at = (state.free_at.max(now) + each).min(end);
        }
        // Earlier messages are processed first.
        let free = state.free_at.max(now);
        state
            .paused_until(now)
            .map_or(free, |until| until.max(free))
    }

    pub(crate) fn is_paused(&self) -> bool {
        let (state, now) = (self.state.lock().unwrap(), self.clock.world());
        state.paused_until(now).is_some()
    }

    /// Lets the store decide.
    pub(crate) fn decide(
        &self,
        message: Message,
        batch: &OwnedBatch,
    ) -> Result<Outcome, BackendError> {
        let mut state = self.state.lock().unwrap();
        let now = Timestamp::from_micros(self.clock.now());
        batch.as_batch(|batch| {
            let batch = batch.at(Some(now));
            let mut answers = vec![Answer::default(); batch.members.len()];
            let decided = state.store.try_apply(&batch, &mut answers);
            let decided = decided.expect("memory never waits");
            let passed: Vec<_> = answers.iter().map(|answer| answer.passed).collect();
            let keys = batch.members.iter();
            let keys: Vec<_> = keys
                .map(|member| (member.key().to_string(), member.cost()))
                .collect();
            let mut all = batch.members.iter().zip(&passed);
            let is_made = all.all(|(member, passed)| *passed || !batch.votes(member));
            for (member, passed) in batch.members.iter().zip(&passed) {
                let units = match batch.operation {
                    Operation::Spend if is_made && *passed && batch.writes(member) => {
                        i64::from(member.cost())
                    }
                    Operation::Refund if *passed => -i64::from(member.cost()),
                    _ => 0,
                };
                *state.charged.entry(member.key().to_string()).or_default() += units;
            }
            let at = self.clock.world();
            state.trace.push(format!(
                "{at}: {:?} {keys:?} by {}: {passed:?}",
                batch.operation, message.process
            ));
            decided.map(|_| Outcome::new(answers))
        })
    }
}

impl State {
    fn paused_until(&self, now: u64) -> Option<u64> {
        let faults = self.during(now);
        let pauses = faults.filter(|(_, fault)| *fault == Fault::Paused);
        pauses.map(|(time, _)| time.end).max()
    }

    /// The faults at an instant.
    fn during(&self, now: u64) -> impl Iterator<Item = &(Range<u64>, Fault)> {
        let faults = self.faults.iter();
        faults.filter(move |(time, _)| time.contains(&now))
    }
}
