//! What a seed decides: the fleet, and what happens to it.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
};

use tollgate::transaction::{Mode, OnFailure};

use crate::terms::Terms;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
    /// In the order of their times.
    pub(crate) events: Vec<(u64, Event)>,
}

impl Plan {
    /// The faults, and when.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (Range<u64>, Fault)> {
        self.events.iter().filter_map(|(at, event)| match event {
            Event::Fault(lasts, fault) => Some((*at..at + lasts, *fault)),
            _ => None,
        })
    }

    /// Returns whether a permit can be lost, or come back late, by what happens between two times.
    pub(crate) fn disturbs_permits(&self, from: u64, until: u64) -> bool {
        let between = |time: &Range<u64>| time.start <= until && time.end >= from;
        let mut faults = self.faults().filter(|(time, _)| between(time));
        match (faults.next(), faults.next()) {
            (None, _) => false,
            // Permits outlive a short fault: a renewal that follows comes before the hold is over.
            (Some((time, fault)), None) => {
                fault.is_instant() || fault.loses_data() || time.end - time.start > 500
            }
            _ => true,
        }
    }

    /// Returns whether permits can stay in the store until their hold is over: those of a process that was killed, and those
    /// whose spend arrives after they were given back.
    pub(crate) fn leaves_permits_behind(&self) -> bool {
        let overtakes = |fault| {
            matches!(
                fault,
                Fault::Kill(..) | Fault::Late { .. } | Fault::Repeats { .. }
            )
        };
        self.setup.connections > 1 || self.faults().any(|(_, fault)| overtakes(fault))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Whether nothing fails, so that everything has to be exact.
    pub(crate) calm: bool,
    /// The wrappers around the store.
    pub(crate) policy: bool,
    pub(crate) lease: bool,
    pub(crate) cache: bool,
    pub(crate) processes: u32,
    pub(crate) limits: Vec<Terms>,
    pub(crate) on_failure: OnFailure,
    /// The longest time that a message takes without faults.
    pub(crate) latency: u64,
    /// The connections of each process. In a cluster, clients have as many tags, and each tag has a connection.
    pub(crate) connections: u64,
    pub(crate) is_cluster: bool,
    pub(crate) end: u64,
}

impl Setup {
    /// Returns whether the buckets of a call are in several slots of a cluster.
    pub(crate) fn has_several_slots(&self, call: &Call) -> bool {
        let tag = |ask: &Ask| tag_of(ask.bucket.1, self.connections);
        self.is_cluster && call.asks.iter().any(|ask| tag(ask) != tag(&call.asks[0]))
    }
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
    /// A fault that lasts so long.
    Fault(u64, Fault),
}

/// The index of a limit, and an id.
pub(crate) type Bucket = (usize, &'static str);

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    pub(crate) asks: Vec<Ask>,
    pub(crate) is_check: bool,
    /// When the caller leaves, if it does.
    pub(crate) leaves: Option<u64>,
    /// After which time the charge is refunded, if it is.
    pub(crate) refund: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
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
            ..Self::default()
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

#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The store refuses connections, and has lost its data or not.
    Down { loses_data: bool },
    /// The store is paused, and answers all messages afterwards.
    Paused,
    /// The store needs this long for each decision.
    Busy(u64),
    /// Messages travel for longer, from one time to another.
    Slow(u64, u64),
    /// Nothing passes between the store and a process, or all of them.
    Cut(Option<usize>),
    /// Every nth answer is lost, or every nth request.
    Loses { nth: u64, answers: bool },
    /// Every nth message about permits arrives for a second time, after this delay.
    Repeats { nth: u64, after: u64 },
    /// Every nth message about permits arrives after this delay, and others overtake it.
    Late { nth: u64, after: u64 },
    /// A process dies, and starts again after this time.
    Kill(usize, u64),
    /// The clocks of all processes are put forward.
    Clock(i64),
    /// The store's clock is set.
    StoreClock(i64),
}

impl Fault {
    /// Whether it has no end.
    pub(crate) fn is_instant(self) -> bool {
        matches!(self, Self::Kill(..) | Self::Clock(_) | Self::StoreClock(_))
    }

    pub(crate) fn loses_data(self) -> bool {
        matches!(self, Self::Down { loses_data: true })
    }
}
