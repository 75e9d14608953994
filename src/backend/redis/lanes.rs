//! Calls that wait while another one is in flight on the link.
//!
//! Calls in the same lane can share one script call. A single server is one lane, and so is each slot of a cluster. A
//! call that finds its lane free is sent immediately. Others wait until nothing is in flight on the lane, and are then
//! sent together. As soon as the waiting calls fill one script call, they are also sent, because no further call could
//! join them.
//!
//! Tasks send the calls. A runtime can stop to run its tasks without ending. After its deadline, a call in flight holds no
//! other call back.

use std::{
    collections::{HashMap, hash_map::Entry},
    mem::replace,
    sync::atomic::{AtomicU64, Ordering},
};

use ahash::RandomState;
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use tokio::{runtime::Handle, sync::oneshot};

use super::{answer::ScriptAnswer, call::ScriptCall, deadline::Deadline, error::Failure};

/// The default of the most callers that share one call. Twice as many would save little more, and block the server for
/// twice as long.
pub(super) const MOST_TOGETHER: usize = 64;

/// The largest weight of one call, in arguments.
const MOST_WEIGHT: usize = 2048;

pub(super) struct Lanes {
    lanes: Mutex<HashMap<u16, Lane, RandomState>>,
    /// The most callers that share one call.
    together: usize,
    /// The number of generations that have begun.
    generations: AtomicU64,
}

/// A lane exists as long as something is in flight on it. It changes under the lock of all lanes:
///
/// - A call that finds no lane creates one, and is in flight on it. Other calls wait in it.
/// - Waiting calls that are taken together are one more in flight. Each call in flight leaves the lane once, also if its
///   task ends early.
/// - The last one that leaves takes the waiting calls, which are in flight then. If there are none, it removes the lane.
/// - After the deadline, a new generation begins with nothing in flight, and calls of the previous one change nothing
///   when they leave.
struct Lane {
    generation: Generation,
    /// The number of calls of this generation in flight.
    in_flight: usize,
    /// The deadline of the call with which the lane was last entered. After it, a new generation begins.
    late: Deadline,
    waiting: Vec<WaitingCall>,
    weight: usize,
}

/// The calls in flight that hold others back. Calls of earlier generations hold nobody back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Generation(u64);

/// A call that waits.
pub(super) struct WaitingCall {
    pub(super) call: ScriptCall,
    pub(super) deadline: Deadline,
    /// The runtime of its caller.
    pub(super) runtime: Handle,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// The result of a call that waited.
pub(super) enum Reply {
    Answer(Result<ScriptAnswer, Failure>),
    /// The server refused the call's group and did nothing, or the group was never sent. The call can be sent alone.
    Alone(Box<ScriptCall>),
}

/// A call that has entered a lane.
pub(super) struct Entered {
    pub(super) reply: oneshot::Receiver<Reply>,
    /// Groups to be sent at once. Leave the lane once for each of them.
    pub(super) ready: SmallVec<[Vec<WaitingCall>; 2]>,
    pub(super) generation: Generation,
}

impl WaitingCall {
    /// Hands out the answer, unless the caller has left.
    pub(super) fn reply(self, answer: Result<ScriptAnswer, Failure>) {
        let _ = self.reply.send(Reply::Answer(answer));
    }

    /// Lets the caller send its own call.
    pub(super) fn reply_alone(self) {
        let _ = self.reply.send(Reply::Alone(self.call.into()));
    }
}

impl Lanes {
    pub(super) fn new(together: usize) -> Self {
        Self {
            lanes: Mutex::default(),
            together,
            generations: AtomicU64::new(0),
        }
    }

    /// Enters a lane with a call, in a runtime.
    pub(super) fn enter(&self, lane: u16, call: ScriptCall, deadline: Deadline) -> Entered {
        let (sender, reply) = oneshot::channel();
        let waiting = WaitingCall {
            call,
            deadline,
            runtime: Handle::current(),
            reply: sender,
        };
        let mut lanes = self.lanes.lock();
        let lane = match lanes.entry(lane) {
            Entry::Vacant(free) => {
                let generation = free
                    .insert(Lane::new(self.next_generation(), deadline))
                    .generation;
                let ready = smallvec![vec![waiting]];
                return Entered {
                    reply,
                    ready,
                    generation,
                };
            }
            Entry::Occupied(lane) => lane.into_mut(),
        };
        let is_late = lane.late.is_over();
        if is_late {
            (lane.generation, lane.in_flight, lane.late) = (self.next_generation(), 0, deadline);
        }
        let mut ready = lane.push(waiting, self.together);
        if is_late {
            ready.extend(lane.depart());
        }
        let generation = lane.generation;
        Entered {
            reply,
            ready,
            generation,
        }
    }

    /// Leaves a lane. If nothing else of the same generation is in flight on it, takes the waiting calls, which are in flight from
    /// then on.
    pub(super) fn leave(&self, place: u16, generation: Generation) -> Option<Vec<WaitingCall>> {
        let mut lanes = self.lanes.lock();
        let lane = lanes
            .get_mut(&place)
            .filter(|lane| lane.generation == generation)?;
        lane.in_flight -= 1;
        if lane.in_flight > 0 {
            return None;
        }
        let waiting = lane.depart();
        match waiting.iter().flatten().map(|next| next.deadline).max() {
            Some(latest) => lane.late = latest,
            None => drop(lanes.remove(&place)),
        }
        waiting
    }

    fn next_generation(&self) -> Generation {
        Generation(self.generations.fetch_add(1, Ordering::Relaxed))
    }
}

impl Lane {
    fn new(generation: Generation, late: Deadline) -> Self {
        Self {
            generation,
            in_flight: 1,
            late,
            waiting: Vec::new(),
            weight: 0,
        }
    }

    /// Adds a waiting call, and takes the groups that are full. A heavy call can complete two groups: the calls before
    /// it, and itself.
    fn push(&mut self, waiting: WaitingCall, together: usize) -> SmallVec<[Vec<WaitingCall>; 2]> {
        let weight = waiting.call.weight();
        let mut full = SmallVec::new();
        // This call would make the group too heavy, so the others leave without it.
        if self.weight + weight > MOST_WEIGHT {
            full.extend(self.depart());
        }
        self.weight += weight;
        self.waiting.push(waiting);
        if self.waiting.len() >= together || self.weight >= MOST_WEIGHT {
            // Without the callers that have left, the group may not be full after all.
            self.forget_those_who_left();
        }
        if self.waiting.len() >= together || self.weight >= MOST_WEIGHT {
            full.extend(self.depart());
        }
        full
    }

    /// Takes all waiting calls, if there are any.
    fn depart(&mut self) -> Option<Vec<WaitingCall>> {
        self.forget_those_who_left();
        if self.waiting.is_empty() {
            return None;
        }
        self.in_flight += 1;
        self.weight = 0;
        // The next group is probably as large.
        let next = Vec::with_capacity(self.waiting.len());
        Some(replace(&mut self.waiting, next))
    }

    /// Removes the calls whose callers have left. They are not charged.
    fn forget_those_who_left(&mut self) {
        self.waiting.retain(|waiting| !waiting.reply.is_closed());
        let weights = self.waiting.iter().map(|waiting| waiting.call.weight());
        self.weight = weights.sum();
    }
}
