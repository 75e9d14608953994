//! Calls that wait while another one is in flight on the link.
//!
//! Calls in the same lane can share one script call. A single server is one lane, and so is each slot of a cluster. A
//! call that finds its lane free is sent immediately. Others wait until nothing is in flight on the lane, and are then
//! sent together. As soon as the waiting calls fill one script call, they are also sent, because no further call could
//! join them.

use std::{
    collections::{HashMap, hash_map::Entry},
    mem::replace,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ahash::RandomState;
use smallvec::SmallVec;
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
}

/// A lane exists as long as something is in flight on it.
struct Lane {
    in_flight: usize,
    waiting: Vec<Waiting>,
    weight: usize,
}

/// A call that waits.
pub(super) struct Waiting {
    pub(super) call: ScriptCall,
    pub(super) deadline: Deadline,
    /// The runtime of its caller.
    pub(super) runtime: Handle,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// The result of a call that waited.
pub(super) enum Reply {
    Answer(Result<ScriptAnswer, Failure>),
    /// The server refused the call's group and did nothing. The call can be sent alone.
    Alone(Box<ScriptCall>),
}

/// The next step of a call that has entered a lane.
pub(super) enum Entered {
    /// Send the call, and leave the lane when it has ended.
    Free(ScriptCall),
    Waits {
        reply: oneshot::Receiver<Reply>,
        /// Groups that are now full, to be sent at once. Leave the lane once for each of them.
        full: SmallVec<[Vec<Waiting>; 2]>,
    },
}

impl Lanes {
    pub(super) fn new(together: usize) -> Self {
        Self {
            lanes: Mutex::default(),
            together,
        }
    }

    /// Enters a lane with a call, in a runtime.
    pub(super) fn enter(&self, lane: u16, call: ScriptCall, deadline: Deadline) -> Entered {
        if self.together <= 1 {
            return Entered::Free(call);
        }
        let mut lanes = self.lock();
        let lane = match lanes.entry(lane) {
            Entry::Vacant(free) => {
                free.insert(Lane::new());
                return Entered::Free(call);
            }
            Entry::Occupied(lane) => lane.into_mut(),
        };
        let (sender, reply) = oneshot::channel();
        let waiting = Waiting {
            call,
            deadline,
            runtime: Handle::current(),
            reply: sender,
        };
        let full = lane.push(waiting, self.together);
        Entered::Waits { reply, full }
    }

    /// Leaves a lane. If nothing else is in flight on it, takes the waiting calls, which are in flight from then on.
    pub(super) fn leave(&self, place: u16) -> Option<Vec<Waiting>> {
        let mut lanes = self.lock();
        let lane = lanes.get_mut(&place)?;
        lane.in_flight -= 1;
        if lane.in_flight > 0 {
            return None;
        }
        let waiting = lane.depart();
        if waiting.is_none() {
            lanes.remove(&place);
        }
        waiting
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, Lane, RandomState>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    fn new() -> Self {
        Self {
            in_flight: 1,
            waiting: Vec::new(),
            weight: 0,
        }
    }

    /// Adds a waiting call, and takes the groups that are full. A heavy call can complete two groups: the calls before
    /// it, and itself.
    fn push(&mut self, waiting: Waiting, together: usize) -> SmallVec<[Vec<Waiting>; 2]> {
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
    fn depart(&mut self) -> Option<Vec<Waiting>> {
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
