//! What a seed is about. Rare things meet more often in a fleet that does little else.

mod busy;
mod cluster;
mod debits;
mod deploys;
mod failovers;
mod floods;
mod idle;
mod lines;
mod permits;
mod refunds;
mod replicas;
mod runtimes;
mod windows;

use crate::{
    draw, faults,
    limits::{Named, Terms},
    plan::{Event, Events, Setup, Stack},
    random::Random,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    /// Everything that a fleet can do.
    Any,
    /// Crowds in the line of a limit.
    Crowds,
    /// Windows whose units are refunded by receipt, and outages between the instants at which units lapse.
    Windows,
    /// Two versions of a limit by different algorithms, side by side.
    Deploys,
    /// A server that is a replica for some time.
    Replicas,
    /// Runtimes that end while leases are topped up.
    Runtimes,
    /// Answers that overtake the answer to a debit, and the next outage.
    Debits,
    /// A healthy store, and more calls than it may be asked at once.
    Busy,
    /// Servers that are replaced.
    Failovers,
    /// Made-up clients that fill the memory.
    Floods,
    /// Batches over several servers, and denials from memory.
    Cluster,
    /// Leased units that are returned while a server is down.
    Idle,
    /// Handlers that settle while others wait in line.
    Lines,
    /// Debits that a bucket cannot take, and their refunds.
    Refunds,
    /// Work that holds permits, in processes that stand still and beside stores that fail.
    Permits,
}

/// One in so many seeds is about permits.
const PERMITS: u64 = 12;

impl Theme {
    const ALL: [Self; 18] = [
        Self::Any,
        Self::Any,
        Self::Any,
        Self::Any,
        Self::Crowds,
        Self::Crowds,
        Self::Windows,
        Self::Deploys,
        Self::Replicas,
        Self::Runtimes,
        Self::Debits,
        Self::Busy,
        Self::Failovers,
        Self::Floods,
        Self::Cluster,
        Self::Idle,
        Self::Lines,
        Self::Refunds,
    ];

    pub(crate) fn of(seed: u64, random: &mut Random) -> Self {
        let any = *random.pick(&Self::ALL);
        match seed % PERMITS == PERMITS - 1 {
            true => Self::Permits,
            false => any,
        }
    }

    /// Draws the setup of a fleet.
    pub(crate) fn setup(self, random: &mut Random) -> Setup {
        let mut setup = draw::setup(random, self == Self::Crowds);
        match self {
            Self::Any | Self::Crowds => {}
            Self::Windows => windows::set_up(&mut setup, random),
            Self::Deploys => deploys::set_up(&mut setup, random),
            Self::Replicas => replicas::set_up(&mut setup, random),
            Self::Runtimes => runtimes::set_up(&mut setup, random),
            Self::Debits => debits::set_up(&mut setup, random),
            Self::Busy => busy::set_up(&mut setup, random),
            Self::Failovers => failovers::set_up(&mut setup, random),
            Self::Floods => floods::set_up(&mut setup, random),
            Self::Cluster => cluster::set_up(&mut setup, random),
            Self::Idle => idle::set_up(&mut setup, random),
            Self::Lines => lines::set_up(&mut setup, random),
            Self::Refunds => refunds::set_up(&mut setup, random),
            Self::Permits => permits::set_up(&mut setup, random),
        }
        setup
    }

    /// Draws what happens to a fleet.
    pub(crate) fn events(self, setup: &Setup, random: &mut Random) -> Events {
        let mut events = Events::new();
        match self {
            Self::Any | Self::Crowds => anything(setup, random, &mut events),
            Self::Windows => windows::draw(setup, random, &mut events),
            Self::Deploys => deploys::draw(setup, random, &mut events),
            Self::Replicas => replicas::draw(setup, random, &mut events),
            Self::Runtimes => runtimes::draw(setup, random, &mut events),
            Self::Debits => debits::draw(setup, random, &mut events),
            Self::Busy => busy::draw(setup, random, &mut events),
            Self::Failovers => failovers::draw(setup, random, &mut events),
            Self::Floods => floods::draw(setup, random, &mut events),
            Self::Cluster => cluster::draw(setup, random, &mut events),
            Self::Idle => idle::draw(setup, random, &mut events),
            Self::Lines => lines::draw(setup, random, &mut events),
            Self::Refunds => refunds::draw(setup, random, &mut events),
            Self::Permits => permits::draw(setup, random, &mut events),
        }
        events.sort_by_key(|(at, _)| *at);
        events
    }
}

fn anything(setup: &Setup, random: &mut Random, events: &mut Events) {
    draw::calls(setup, random, events);
    if !random.one_in(4) && setup.stack != Stack::Memory {
        faults::any(setup, random, events);
    }
    if random.one_in(3) && setup.stack != Stack::Memory {
        faults::deploys(setup, random, events);
    }
}

/// Makes a fleet as simple as it can be: a published addition to a bound hides what exceeds it.
fn simplify(setup: &mut Setup, stacks: &[Stack], random: &mut Random) {
    setup.stack = *random.pick(stacks);
    setup.is_crowded = false;
    setup.share = (1, 1);
    setup.on_failure = tollgate::transaction::OnFailure::Local;
    setup.max_in_flight = 4096;
    setup.ahead.fill(0);
    if !setup.stack.has_lease() {
        setup.limits.iter_mut().for_each(|named| named.lease = None);
    }
}

/// A limit that no deploy changes.
fn constant(terms: Terms, is_leased: bool) -> Named {
    Named {
        versions: [terms; 2],
        lease: is_leased.then_some(Named::LEASE),
    }
}

/// Repeats an event, some microseconds apart.
fn repeat(events: &mut Events, at: u64, copies: u64, event: &Event) {
    events.extend((0..copies).map(|copy| (at + copy * 37, event.clone())));
}
