//! What happens in a simulation, drawn from its seed before it begins.

use tollgate::transaction::{Mode, OnFailure};

use crate::{limits::Named, network::Way, random::Random, server::Health};

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
    const ALL: [Self; 9] = [
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

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Call(usize, Call),
    Visit(usize, Visit),
    /// So many made-up clients take one unit each of a limit.
    Flood(usize, usize, u32),
    Reset(usize, usize, String),
    Close(usize),
    /// A process reads a version of the limits.
    Reload(usize, usize),
    /// A process is killed, and starts again with a version of the limits after a time.
    Kill(usize, usize, u64),
    /// A process stands still for a time.
    Pause(usize, u64),
    /// The runtime of a process ends after some of its tasks were polled, and its limiter goes on in another runtime.
    RuntimeEnds(usize, usize),
    ClockSteps(usize, i64),
    Health(usize, Health),
    /// A server loses all data.
    LosesAll(usize),
    /// Another server takes over, without the last writes. Its clock is that far ahead of its predecessor's.
    FailsOver(usize, usize, i64),
    Way(usize, usize, Way),
    Cut(usize, usize, u64),
}

/// The setup of a fleet and what happens to it, by time.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
    pub(crate) events: Vec<(u64, Event)>,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // Similar seeds begin with similar numbers.
        random.bits();
        let setup = setup(&mut random);
        let mut events = Vec::new();
        calls(&setup, &mut random, &mut events);
        if !random.one_in(4) && setup.stack != Stack::Memory {
            faults(&setup, &mut random, &mut events);
        }
        if random.one_in(3) && setup.stack != Stack::Memory {
            deploys(&setup, &mut random, &mut events);
        }
        events.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            setup,
            events,
        }
    }
}

fn setup(random: &mut Random) -> Setup {
    let stack = *random.pick(&Stack::ALL);
    let processes = match stack {
        Stack::Memory => 1,
        _ => 1 + random.index(3),
    };
    let lines = random.one_in(3);
    let limits = 1 + random.index(3);
    let of = u32::try_from(processes).expect("there are few");
    let has_skew = random.one_in(5);
    Setup {
        processes,
        servers: *random.pick(&[1, 1, 2, 3]),
        stack,
        share: if random.one_in(3) { (1, of) } else { (1, 1) },
        on_failure: *random.pick(&[
            OnFailure::Local,
            OnFailure::Local,
            OnFailure::Local,
            OnFailure::Refuse,
            OnFailure::Allow,
        ]),
        max_in_flight: *random.pick(&[4096, 4096, 2]),
        max_waiting: *random.pick(&[0, 1, 2, 5, 1000]),
        limits: (0..limits)
            .map(|_| Named::any(random, stack.has_lease(), lines))
            .collect(),
        ahead: (0..processes)
            .map(|_| match has_skew {
                true => i64::try_from(random.below(4_000_000)).expect("it is small") - 2_000_000,
                false => 0,
            })
            .collect(),
        end: random.within(1_000, 4_000) * MILLI,
    }
}

fn calls(setup: &Setup, random: &mut Random, events: &mut Vec<(u64, Event)>) {
    let count = random.within(20, 150);
    let ids = *random.pick(&[1, 2, 4]);
    let has_refunds = random.one_in(2);
    let has_leavers = random.one_in(3);
    let has_visits = random.one_in(2);
    if setup.stack == Stack::Memory && random.one_in(2) {
        let place = random.index(setup.limits.len());
        let at = random.within(setup.end / 2, setup.end - 1);
        events.push((at, Event::Flood(0, place, random.units(50, 400))));
    }
    for _ in 0..count {
        let at = random.below(setup.end);
        let process = random.index(setup.processes);
        if has_visits && random.one_in(2) {
            let visit = visit(setup, random, (ids, has_leavers));
            let copies = if random.one_in(12) {
                random.within(2, 60)
            } else {
                1
            };
            for copy in 0..copies {
                events.push((at + copy * 7, Event::Visit(process, visit.clone())));
            }
            continue;
        }
        let call = call(setup, random, (ids, has_refunds, has_leavers));
        // Bursts are what a bucket is for.
        let copies = if random.one_in(8) {
            random.within(2, 12)
        } else {
            1
        };
        for copy in 0..copies {
            events.push((at + copy * 37, Event::Call(process, call.clone())));
        }
        if random.one_in(150) {
            let place = random.index(setup.limits.len());
            let id = random.index(ids).to_string();
            events.push((at, Event::Reset(process, place, id)));
        }
    }
}

fn call(setup: &Setup, random: &mut Random, (ids, refunds, leavers): (usize, bool, bool)) -> Call {
    let first = random.index(setup.limits.len());
    let mut asks = vec![ask(setup, random, first, ids)];
    if random.one_in(3) {
        for place in 0..setup.limits.len() {
            let more = ask(setup, random, place, ids);
            let is_new = |other: &Ask| (other.place, &other.id) != (more.place, &more.id);
            if random.one_in(2) && asks.iter().all(is_new) {
                asks.push(more);
            }
        }
    }
    let patience = match random.below(8) {
        0 if leavers => Patience::Leaves(random.below(60) * MILLI),
        1 if leavers => Patience::Stalls(random.below(60) * MILLI),
        _ => Patience::Waits,
    };
    let then = match random.below(6) {
        0 | 1 if refunds => Then::Receipt(random.below(800) * MILLI, random.one_in(2)),
        2 if refunds && random.one_in(3) => Then::Plain(random.below(300) * MILLI),
        _ => Then::Nothing,
    };
    let saturates = |ask: &Ask| {
        let versions = setup.limits[ask.place].versions;
        ask.mode == Mode::Debit && versions.iter().all(|terms| terms.is_quota())
    };
    let (mut asks, mut then) = (asks, then);
    if asks.len() == 1 && saturates(&asks[0]) && random.one_in(4) {
        asks[0].cost = u32::MAX;
        then = Then::Receipt(random.below(20) * MILLI, false);
    }
    Call {
        asks,
        is_check: random.one_in(12),
        no_wait: random.one_in(4),
        patience,
        then,
    }
}

fn visit(setup: &Setup, random: &mut Random, (ids, leavers): (usize, bool)) -> Visit {
    let mut asks: Vec<Ask> = Vec::new();
    for place in 0..setup.limits.len() {
        if asks.is_empty() || random.one_in(2) {
            let mut ask = ask(setup, random, place, ids);
            ask.mode = Mode::CheckAndSpend;
            asks.push(ask);
        }
    }
    let has_tiers = |ask: &Ask| {
        setup.limits[ask.place]
            .versions
            .iter()
            .any(|terms| terms.has_tiers())
    };
    let settles = match random.one_in(3) && !asks.iter().any(has_tiers) {
        true => (0..random.within(1, 3))
            .map(|_| random.units(0, 6))
            .collect(),
        false => Vec::new(),
    };
    Visit {
        is_bad: asks.len() > 1 && random.one_in(6),
        asks,
        settles,
        handling: (random.below(40) * MILLI, random.below(40) * MILLI),
        patience: match leavers && random.one_in(6) {
            true => Patience::Leaves(random.below(100) * MILLI),
            false => Patience::Waits,
        },
    }
}

fn ask(setup: &Setup, random: &mut Random, place: usize, ids: usize) -> Ask {
    let named = &setup.limits[place];
    let least = named.versions.iter().map(|terms| terms.most()).min();
    // With leases, less than the burst fits into one call.
    let most = (least.unwrap_or(1) / 3).max(1);
    let has_tiers = named.versions.iter().any(|terms| terms.has_tiers());
    let mode = match random.below(12) {
        0 => Mode::CheckOnly,
        1 => Mode::SpendOnly,
        2 if !has_tiers => Mode::Debit,
        _ => Mode::CheckAndSpend,
    };
    Ask {
        place,
        id: random.index(ids).to_string(),
        cost: if random.one_in(3) {
            random.units(1, most)
        } else {
            1
        },
        mode,
    }
}

/// Short outages of all servers, and answers that overtake each other in between.
fn blinks(setup: &Setup, random: &mut Random, events: &mut Vec<(u64, Event)>) {
    let slowest = random.within(2, 45) * MILLI;
    for process in 0..setup.processes {
        for server in 0..setup.servers {
            let way = Way {
                latency: (500, slowest),
                ..Way::GOOD
            };
            events.push((0, Event::Way(process, server, way)));
        }
    }
    for _ in 0..random.within(2, 6) {
        let at = random.below(setup.end);
        let lasts = random.within(20, 300) * MILLI;
        for server in 0..setup.servers {
            events.push((at, Event::Health(server, Health::Down)));
            events.push((at + lasts, Event::Health(server, Health::Up)));
        }
    }
}

fn faults(setup: &Setup, random: &mut Random, events: &mut Vec<(u64, Event)>) {
    if random.one_in(4) {
        return blinks(setup, random, events);
    }
    let kinds = random.below(4);
    for _ in 0..random.within(1, 6) {
        let at = random.below(setup.end);
        let lasts = match random.one_in(5) {
            true => random.within(1_000, 4_000) * MILLI,
            false => random.within(5, 1_200) * MILLI,
        };
        let server = random.index(setup.servers);
        let process = random.index(setup.processes);
        let fault = match kinds {
            0 => random.below(6),
            1 => random.within(6, 9),
            2 => random.within(10, 13),
            _ => random.below(14),
        };
        let events = &mut *events;
        let mut heals = |health| {
            events.push((at, Event::Health(server, health)));
            events.push((at + lasts, Event::Health(server, Health::Up)));
        };
        match fault {
            0 => heals(Health::Down),
            1 => heals(Health::Hung),
            2 => heals(Health::Full),
            3 => heals(Health::Replica),
            4 => {
                heals(Health::Down);
                events.push((at + lasts / 2, Event::LosesAll(server)));
            }
            5 => {
                heals(Health::Down);
                let ahead = match random.one_in(4) {
                    true => i64::try_from(random.below(600_000)).expect("it is small") - 300_000,
                    false => 0,
                };
                let lost = if random.one_in(2) { random.index(6) } else { 0 };
                events.push((at + lasts / 2, Event::FailsOver(server, lost, ahead)));
            }
            6 | 7 => {
                let way = Way {
                    latency: (1_000, random.within(10, 90) * MILLI),
                    ..Way::GOOD
                };
                events.push((at, Event::Way(process, server, way)));
                events.push((at + lasts, Event::Way(process, server, Way::GOOD)));
            }
            8 => {
                let way = Way {
                    losses: (random.below(300), random.below(300)),
                    ..Way::GOOD
                };
                events.push((at, Event::Way(process, server, way)));
                events.push((at + lasts, Event::Way(process, server, Way::GOOD)));
            }
            9 => events.push((at, Event::Cut(process, server, lasts))),
            10 => events.push((at, Event::Pause(process, lasts))),
            11 => events.push((at, Event::Kill(process, random.index(2), lasts))),
            12 => events.push((at, Event::RuntimeEnds(process, random.index(8)))),
            _ => match random.one_in(3) {
                true => {
                    let us = i64::try_from(random.below(2_000_000)).expect("it is small");
                    events.push((at, Event::ClockSteps(process, us - 1_000_000)));
                }
                false => events.push((at, Event::Close(process))),
            },
        }
    }
}

/// Reloads, and a rolling deploy: one process after the other.
fn deploys(setup: &Setup, random: &mut Random, events: &mut Vec<(u64, Event)>) {
    let begin = random.below(setup.end / 2);
    let is_reload = random.one_in(2);
    for process in 0..setup.processes {
        let at = begin + random.below(setup.end / 2);
        events.push(match is_reload {
            true => (at, Event::Reload(process, 1)),
            false => (at, Event::Kill(process, 1, random.within(1, 50) * MILLI)),
        });
    }
}
