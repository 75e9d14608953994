//! What a seed decides: the fleet, and what happens to it.

use std::hash::{DefaultHasher, Hash, Hasher};

use tollgate::transaction::{Mode, OnFailure};

use crate::terms::Terms;

/// One millisecond, in microseconds. All durations are in microseconds.
pub(crate) const MILLI: u64 = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
    /// In the order of their times.
    pub(crate) events: Vec<(u64, Event)>,
}

impl Plan {
    /// Returns whether a permit can be lost, or come back late, by what happens between two instants.
    pub(crate) fn disturbs_permits(&self, (from, until): (u64, u64)) -> bool {
        let faults = self.events.iter().filter_map(|(at, event)| match event {
            Event::Fault(lasts, fault) => {
                // Permits outlive a short fault: a renewal that follows comes before the hold is over.
                let is_short = fault.keeps_data() && *lasts <= 500 * MILLI;
                Some((*at, *lasts, is_short))
            }
            Event::Kill(..) | Event::Clock(_) => Some((*at, 0, false)),
            _ => None,
        });
        let mut faults = faults.filter(|(at, lasts, _)| *at <= until && at + lasts >= from);
        match (faults.next(), faults.next()) {
            (None, _) => false,
            (Some((.., is_short)), None) => !is_short,
            _ => true,
        }
    }

    /// Returns whether permits can stay in the store until their hold is over: those of a process that was killed, and those
    /// whose spend arrives after they were given back.
    pub(crate) fn leaves_permits_behind(&self) -> bool {
        let overtakes = |event: &Event| {
            matches!(
                event,
                Event::Kill(..) | Event::Fault(_, Fault::Late { .. } | Fault::Repeats { .. })
            )
        };
        self.setup.connections() > 1 || self.events.iter().any(|(_, event)| overtakes(event))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Whether nothing fails, so that everything has to be exact.
    pub(crate) calm: bool,
    pub(crate) stack: Stack,
    pub(crate) processes: usize,
    pub(crate) limits: Vec<Named>,
    pub(crate) on_failure: OnFailure,
    pub(crate) latency: (u64, u64),
    /// The connections of each process, if the store is a single server.
    pub(crate) lanes: u64,
    /// How many tags clients share, if the store is a cluster. Each process has a connection for each tag.
    pub(crate) tags: Option<u64>,
    pub(crate) end: u64,
}

impl Setup {
    /// The connections of each process.
    pub(crate) fn connections(&self) -> u64 {
        self.tags.unwrap_or(self.lanes)
    }

    /// Returns whether the buckets of a call are in several slots of a cluster.
    pub(crate) fn has_several_slots(&self, call: &Call) -> bool {
        let Some(tags) = self.tags else { return false };
        let mut slots = call.asks.iter().map(|ask| tag_of(&ask.bucket.1, tags));
        let first = slots.next();
        slots.any(|slot| Some(slot) != first)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub(crate) terms: Terms,
    pub(crate) leased: bool,
}

/// The wrappers around the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    pub(crate) policy: bool,
    pub(crate) lease: bool,
    pub(crate) cache: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Call(usize, Call),
    Work(usize, Work),
    /// Clients that send requests through the layer, each of them one after the other: as many as there are permits.
    Clients(usize, usize),
    /// A refund between requests of one client.
    Refund(usize, usize),
    Reset(usize, Bucket),
    /// More calls at once than may ask the store.
    Crowd(usize, Bucket),
    /// A process gives back the units that it has charged ahead.
    Close(usize),
    /// A process dies, and starts again after a while.
    Kill(usize, u64),
    /// The clocks of all processes are put forward.
    Clock(u64),
    /// A fault that lasts so long.
    Fault(u64, Fault),
}

/// The place of a limit, and an id.
pub(crate) type Bucket = (usize, String);

/// Returns which of the tags a client has.
pub(crate) fn tag_of(id: &str, tags: u64) -> u64 {
    hashed(id) % tags
}

pub(crate) fn hashed(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A batch of limits.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) asks: Vec<Ask>,
    pub(crate) is_check: bool,
    /// When the caller leaves, if it does.
    pub(crate) leaves: Option<u64>,
    /// After which time the charge is refunded, if it is.
    pub(crate) refund: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) bucket: Bucket,
    pub(crate) cost: u32,
    pub(crate) mode: Mode,
}

impl Call {
    /// One unit of one bucket.
    pub(crate) fn one(bucket: Bucket) -> Self {
        let ask = Ask {
            bucket,
            cost: 1,
            mode: Mode::CheckAndSpend,
        };
        Self {
            asks: vec![ask],
            is_check: false,
            leaves: None,
            refund: None,
        }
    }
}

/// Work that takes a permit.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) bucket: Bucket,
    pub(crate) lasts: u64,
    pub(crate) leaves: Option<u64>,
    /// Whether its end waits until the store has the permit back.
    pub(crate) releases: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// The store refuses connections, and has lost its data or not.
    Down { loses_data: bool },
    /// The store is paused, and answers all messages afterwards.
    Paused,
    /// The store needs this long for each decision.
    Busy(u64),
    /// Messages travel for longer.
    Slow { latency: (u64, u64) },
    /// Nothing passes between the store and a process, or all of them.
    Cut(Option<usize>),
    /// Every nth answer is lost, or every nth request.
    Loses { nth: u64, answers: bool },
    /// Every nth message about permits arrives for a second time, after this delay.
    Repeats { nth: u64, after: u64 },
    /// Every nth message about permits arrives after this delay, and others overtake it.
    Late { nth: u64, after: u64 },
    /// The store's clock is set.
    StoreClock(i64),
}

impl Fault {
    fn keeps_data(self) -> bool {
        !matches!(self, Self::Down { loses_data: true } | Self::StoreClock(_))
    }
}
