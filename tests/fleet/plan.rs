//! What happens in a simulation, drawn from its seed before it begins.

use tollgate::transaction::{Mode, OnFailure};

use crate::{limits::Named, network::Way, random::Random, server::Health, theme::Theme};

/// One millisecond, in microseconds.
pub(crate) const MILLI: u64 = 1_000;

/// The wrappers around the store in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stack {
    Bare,
    Cache,
    Lease,
    LeaseCache,
    Policy,
    PolicyCache,
    PolicyLease,
    PolicyLeaseCache,
    /// No store, but memory with little room.
    Memory,
}

impl Stack {
    pub(crate) const ALL: [Self; 9] = [
        Self::Memory,
        Self::Bare,
        Self::Cache,
        Self::Lease,
        Self::LeaseCache,
        Self::Policy,
        Self::PolicyCache,
        Self::PolicyLease,
        Self::PolicyLeaseCache,
    ];

    pub(crate) fn has_policy(self) -> bool {
        matches!(
            self,
            Self::Policy | Self::PolicyCache | Self::PolicyLease | Self::PolicyLeaseCache
        )
    }

    pub(crate) fn has_lease(self) -> bool {
        matches!(
            self,
            Self::Lease | Self::LeaseCache | Self::PolicyLease | Self::PolicyLeaseCache
        )
    }
}

/// The setup of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) processes: usize,
    pub(crate) servers: usize,
    pub(crate) stack: Stack,
    /// Whether requests come in crowds that wait in the line of the first limit.
    pub(crate) is_crowded: bool,
    /// The part of each limit that a process may use locally.
    pub(crate) share: (u32, u32),
    pub(crate) on_failure: OnFailure,
    pub(crate) max_in_flight: usize,
    /// The most requests that wait in line in a process.
    pub(crate) max_waiting: usize,
    pub(crate) limits: Vec<Named>,
    /// How far the clocks of processes are ahead, in microseconds.
    pub(crate) ahead: Vec<i64>,
    /// When all faults have ended, in microseconds.
    pub(crate) end: u64,
    /// Whether no fault is long enough for a permit to be lost.
    pub(crate) keeps_permits: bool,
}

impl Setup {
    /// Lets the fleet have at least so many processes.
    pub(crate) fn grow(&mut self, processes: usize) {
        self.processes = self.processes.max(processes);
        self.ahead.resize(self.processes, 0);
    }
}

/// A member of a call.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    /// The place of the limit.
    pub(crate) place: usize,
    pub(crate) id: String,
    pub(crate) cost: u32,
    pub(crate) mode: Mode,
}

impl Ask {
    /// Asks for one token.
    pub(crate) fn one(place: usize, id: &str) -> Self {
        Self {
            place,
            id: id.to_owned(),
            cost: 1,
            mode: Mode::CheckAndSpend,
        }
    }
}

/// What a caller does with its future.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    Waits,
    /// It drops the future after a time.
    Leaves(u64),
    /// It polls once, and then no more for a time.
    Stalls(u64),
}

/// What a caller does after an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Then {
    Nothing,
    /// It refunds by receipt after a time: all, or a part.
    Receipt(u64, bool),
    /// It refunds without a receipt.
    Plain(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) asks: Vec<Ask>,
    pub(crate) is_check: bool,
    pub(crate) no_wait: bool,
    pub(crate) patience: Patience,
    pub(crate) then: Then,
}

impl Call {
    /// Spends one token, and waits for the answer.
    pub(crate) fn spend(place: usize, id: &str) -> Self {
        Self {
            asks: vec![Ask::one(place, id)],
            is_check: false,
            no_wait: false,
            patience: Patience::Waits,
            then: Then::Nothing,
        }
    }
}

/// A request through the layer.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    pub(crate) asks: Vec<Ask>,
    /// Whether the last id is missing.
    pub(crate) is_bad: bool,
    /// What the handler settles its cost to, one after the other.
    pub(crate) settles: Vec<u32>,
    /// How long the handler takes before and after that.
    pub(crate) handling: (u64, u64),
    pub(crate) patience: Patience,
}

/// Work that takes a permit, and holds it while it goes on.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    /// The place of the limit.
    pub(crate) place: usize,
    pub(crate) id: String,
    pub(crate) permits: u32,
    /// How long it goes on, in microseconds.
    pub(crate) lasts: u64,
    /// After how long the caller leaves if it has no permit by then.
    pub(crate) leaves: Option<u64>,
    /// Whether it waits at the end until the store has its permits.
    pub(crate) releases: bool,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Call(usize, Call),
    Visit(usize, Visit),
    Work(usize, Work),
    /// So many made-up clients take one unit each of a limit.
    Flood(usize, usize, u32),
    Reset(usize, usize, String),
    Close(usize),
    /// An operator looks at what a process shows.
    Look(usize),
    /// A process reads a version of the limits.
    Reload(usize, usize),
    /// A process is killed, and starts again with a version of the limits after a time.
    Kill(usize, usize, u64),
    /// A process stands still for a time.
    Pause(usize, u64),
    /// The runtime of a process ends after some of its tasks were polled, and its limiter goes on in another runtime.
    RuntimeEnds(usize, usize),
    /// The same, once the next answer has arrived.
    RuntimeEndsThen(usize, usize),
    /// The clock of a process leaps ahead. It never steps back.
    ClockLeaps(usize, u32),
    Health(usize, Health),
    /// A server loses all data.
    LosesAll(usize),
    /// Another server takes over, without the last writes. Its clock is that far ahead of its predecessor's.
    FailsOver(usize, usize, i64),
    Way(usize, usize, Way),
    Cut(usize, usize, u64),
}

impl Event {
    /// The server that it is about.
    pub(crate) fn server(&self) -> Option<usize> {
        match self {
            Self::Health(server, _)
            | Self::LosesAll(server)
            | Self::FailsOver(server, ..)
            | Self::Way(_, server, _)
            | Self::Cut(_, server, _) => Some(*server),
            _ => None,
        }
    }
}

/// What happens, and when, in microseconds.
pub(crate) type Events = Vec<(u64, Event)>;

/// The setup of a fleet and what happens to it, by time.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) theme: Theme,
    pub(crate) setup: Setup,
    pub(crate) events: Events,
}

impl Plan {
    /// Whether a process goes on in another runtime.
    pub(crate) fn ends_runtimes(&self) -> bool {
        let ends =
            |event: &Event| matches!(event, Event::RuntimeEnds(..) | Event::RuntimeEndsThen(..));
        self.events.iter().any(|(_, event)| ends(event))
    }

    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Similar seeds begin with similar numbers.
        random.bits();
        let theme = Theme::of(seed, &mut random);
        let setup = theme.setup(&mut random);
        let events = theme.events(&setup, &mut random);
        Self {
            seed,
            theme,
            setup,
            events,
        }
    }
}
