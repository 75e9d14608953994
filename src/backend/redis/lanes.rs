//! Calls that wait for the link while another one is in flight.
//!
//! A lane is what may share one call of a script: all that goes to a single server, or one slot of a cluster. A call that
//! finds its lane free is sent at once. Others wait until nothing is in flight on it, and then go out together. They also
//! go out as soon as they are as many as one call may carry, because waiting longer would not make them more.

use std::{
    collections::{HashMap, hash_map::Entry},
    mem::take,
    sync::{Mutex, MutexGuard, PoisonError},
};

use ahash::RandomState;
use smallvec::SmallVec;
use tokio::{runtime::Handle, sync::oneshot};

use super::{answer::ScriptAnswer, call::ScriptCall, deadline::Deadline, error::Failure};

/// How many callers share one call at most. Twice as many would save little more, and keep the server from others for
/// twice as long.
pub(super) const MOST_TOGETHER: usize = 64;

/// How much they may ask for together, in arguments.
const MOST_WEIGHT: usize = 2048;

#[derive(Default)]
pub(super) struct Lanes(Mutex<HashMap<u16, Lane, RandomState>>);

/// A lane is there for as long as something is in flight on it.
struct Lane {
    in_flight: usize,
    waiting: Vec<Waiting>,
    weight: usize,
}

/// A call that waits.
pub(super) struct Waiting {
    pub(super) call: ScriptCall,
    pub(super) deadline: Deadline,
    /// Where its caller waits.
    pub(super) runtime: Handle,
    pub(super) reply: oneshot::Sender<Reply>,
}

/// What a call that has waited comes to.
pub(super) enum Reply {
    Answer(Result<ScriptAnswer, Failure>),
    /// It was refused together with others, and nothing was done. It may be sent alone.
    Alone,
}

/// What a call is to do that has entered a lane.
pub(super) enum Entered {
    /// It is sent, and the lane is left when it has ended.
    Free,
    Waits {
        reply: oneshot::Receiver<Reply>,
        /// What has become full by this, and is sent at once. The lane is left for each of them.
        full: SmallVec<[Vec<Waiting>; 2]>,
    },
}

impl Lanes {
    /// Enters a lane with a call, in a runtime.
    pub(super) fn enter(&self, lane: u16, call: &ScriptCall, deadline: Deadline) -> Entered {
        let mut lanes = self.lock();
        let lane = match lanes.entry(lane) {
            Entry::Vacant(free) => {
                free.insert(Lane::new());
                return Entered::Free;
            }
            Entry::Occupied(lane) => lane.into_mut(),
        };
        let (sender, reply) = oneshot::channel();
        let waiting = Waiting {
            call: call.clone(),
            deadline,
            runtime: Handle::current(),
            reply: sender,
        };
        let full = lane.push(waiting);
        Entered::Waits { reply, full }
    }

    /// Leaves a lane, and takes what waits for it. Then something is in flight again.
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Lets a call wait, and takes what is full then.
    fn push(&mut self, waiting: Waiting) -> SmallVec<[Vec<Waiting>; 2]> {
        let weight = waiting.call.weight();
        let mut full = SmallVec::new();
        if self.weight + weight > MOST_WEIGHT {
            full.extend(self.depart());
        }
        self.weight += weight;
        self.waiting.push(waiting);
        if self.waiting.len() >= MOST_TOGETHER || self.weight >= MOST_WEIGHT {
            self.forget_those_who_left();
        }
        if self.waiting.len() >= MOST_TOGETHER || self.weight >= MOST_WEIGHT {
            full.extend(self.depart());
        }
        full
    }

    /// Takes all that wait, unless nobody does.
    fn depart(&mut self) -> Option<Vec<Waiting>> {
        self.forget_those_who_left();
        if self.waiting.is_empty() {
            return None;
        }
        self.in_flight += 1;
        self.weight = 0;
        Some(take(&mut self.waiting))
    }

    /// Whoever has left before the call is sent is not charged.
    fn forget_those_who_left(&mut self) {
        self.waiting.retain(|waiting| !waiting.reply.is_closed());
        let weights = self.waiting.iter().map(|waiting| waiting.call.weight());
        self.weight = weights.sum();
    }
}
