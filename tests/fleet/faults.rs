//! Draws faults and deploys.

use crate::{
    network::Way,
    plan::{Call, Event, Events, MILLI, Setup, Visit},
    random::Random,
    server::Health,
};

/// Draws faults of one kind or of all kinds.
pub(crate) fn any(setup: &Setup, random: &mut Random, events: &mut Events) {
    let kind = random.below(8);
    match kind {
        4 | 6 | 7 => return blinks(setup, random, events),
        5 => return ends(random, events),
        _ => {}
    }
    for _ in 0..random.within(1, 6) {
        let at = random.below(setup.end);
        let lasts = match random.one_in(5) {
            true => random.within(1_000, 4_000) * MILLI,
            false => random.within(5, 1_200) * MILLI,
        };
        let fault = Fault {
            at,
            until: at + lasts,
            server: random.index(setup.servers),
            process: random.index(setup.processes),
        };
        match if kind == 3 { random.below(3) } else { kind } {
            0 => fault.of_server(random, events),
            1 => fault.of_network(random, events),
            _ => fault.of_process(random, events),
        }
    }
}

/// When and where something fails.
struct Fault {
    at: u64,
    until: u64,
    server: usize,
    process: usize,
}

impl Fault {
    fn of_server(&self, random: &mut Random, events: &mut Events) {
        let &Self {
            at,
            mut until,
            server,
            ..
        } = self;
        let middle = at.midpoint(until);
        let health = match random.below(6) {
            0 => Health::Hung,
            1 => Health::Full,
            2 => {
                // Usually, clients notice if it stays one.
                if !random.one_in(3) {
                    until += random.within(1_000, 3_000) * MILLI;
                }
                Health::Replica
            }
            3 => {
                events.push((middle, Event::LosesAll(server)));
                Health::Down
            }
            4 => {
                let ahead = if random.one_in(4) {
                    random.about(300_000)
                } else {
                    0
                };
                let lost = if random.one_in(2) { random.index(6) } else { 0 };
                events.push((middle, Event::FailsOver(server, lost, ahead)));
                Health::Down
            }
            _ => Health::Down,
        };
        events.push((at, Event::Health(server, health)));
        events.push((until, Event::Health(server, Health::Up)));
    }

    fn of_network(&self, random: &mut Random, events: &mut Events) {
        let &Self {
            at,
            until,
            server,
            process,
        } = self;
        let way = match random.below(4) {
            0 => return events.push((at, Event::Cut(process, server, until - at))),
            1 => Way {
                losses: (random.below(300), random.below(300)),
                ..Way::GOOD
            },
            _ => Way {
                latency: (1_000, random.within(10, 90) * MILLI),
                ..Way::GOOD
            },
        };
        events.push((at, Event::Way(process, server, way)));
        events.push((until, Event::Way(process, server, Way::GOOD)));
    }

    fn of_process(&self, random: &mut Random, events: &mut Events) {
        let &Self {
            at, until, process, ..
        } = self;
        let event = match random.below(5) {
            0 => Event::Pause(process, until - at),
            1 => Event::Kill(process, random.index(2), until - at),
            2 => Event::RuntimeEnds(process, random.index(8)),
            3 => Event::ClockLeaps(process, random.units(0, 1_000_000)),
            _ => Event::Close(process),
        };
        events.push((at, event));
    }
}

/// Short outages of all servers, in which clients try again, and answers that overtake each other in between.
fn blinks(setup: &Setup, random: &mut Random, events: &mut Events) {
    slow_down(setup, random, events);
    let client = Client::any(setup, random);
    for _ in 0..random.within(2, 6) {
        let at = random.below(setup.end);
        let lasts = random.within(20, 300) * MILLI;
        client.goes_on(random, (at, lasts), events);
        all_down(setup, (at, lasts), events);
        for _ in 0..random.within(0, 3) {
            let (_, event) = random.pick(events).clone();
            if let Event::Call(..) | Event::Visit(..) = event {
                let times = (0..random.within(2, 10)).map(|_| at + random.below(lasts));
                let again: Vec<_> = times.map(|at| (at, event.clone())).collect();
                events.extend(again);
            }
        }
    }
}

/// Lets answers overtake each other.
pub(crate) fn slow_down(setup: &Setup, random: &mut Random, events: &mut Events) {
    // Twice that is more than the deadline, or not.
    let slowest = match random.one_in(2) {
        true => random.within(2, 24) * MILLI,
        false => random.within(24, 45) * MILLI,
    };
    for process in 0..setup.processes {
        for server in 0..setup.servers {
            let way = Way {
                latency: (500, slowest),
                ..Way::GOOD
            };
            events.push((0, Event::Way(process, server, way)));
        }
    }
}

/// All servers refuse connections for a time.
pub(crate) fn all_down(setup: &Setup, (at, lasts): (u64, u64), events: &mut Events) {
    for server in 0..setup.servers {
        events.push((at, Event::Health(server, Health::Down)));
        events.push((at + lasts, Event::Health(server, Health::Up)));
    }
}

/// A client that calls during outages and after them.
pub(crate) struct Client {
    process: usize,
    place: usize,
}

impl Client {
    /// If there is a limit whose debts last, it is one of that.
    pub(crate) fn any(setup: &Setup, random: &mut Random) -> Self {
        let is_slow = |place: &usize| setup.limits[*place].versions[0].is_slow();
        let slow: Vec<_> = (0..setup.limits.len()).filter(is_slow).collect();
        Self {
            process: random.index(setup.processes),
            place: match slow.is_empty() {
                true => random.index(setup.limits.len()),
                false => *random.pick(&slow),
            },
        }
    }

    /// Some calls are decided without the store. The answers to those after the outage can overtake the answer to the debit
    /// for them.
    pub(crate) fn goes_on(
        &self,
        random: &mut Random,
        (at, lasts): (u64, u64),
        events: &mut Events,
    ) {
        for _ in 0..random.within(0, 8) {
            events.push((at + random.below(lasts), self.call(false)));
        }
        // The breaker closes some time later.
        let mut after = at + lasts + random.below(100) * MILLI;
        for _ in 0..random.within(0, 30) {
            after += random.within(1, 5) * MILLI;
            events.push((after, self.call(!random.one_in(6))));
        }
    }

    fn call(&self, is_check: bool) -> Event {
        let call = Call {
            is_check,
            ..Call::spend(self.place, "0")
        };
        Event::Call(self.process, call)
    }
}

/// Runtimes that end when answers arrive, and so in the middle of what follows them.
fn ends(random: &mut Random, events: &mut Events) {
    for _ in 0..random.within(10, 40) {
        let (at, event) = one_of(random, events);
        let (Event::Call(process, _) | Event::Visit(process, _)) = event else {
            continue;
        };
        // A bucket is leased from its third use.
        let copies = random.below(5);
        events.extend((1..=copies).map(|copy| (at + copy * 37, event.clone())));
        let polls = *random.pick(&[0, 1, 1, 2, 3, 4]);
        events.push(match random.one_in(3) {
            true => {
                let at = at + random.within(1, 7) * MILLI;
                (at, Event::RuntimeEnds(process, polls))
            }
            false => (at + MILLI, Event::RuntimeEndsThen(process, polls)),
        });
    }
}

/// Returns an event, mostly a call of several limits.
fn one_of(random: &mut Random, events: &Events) -> (u64, Event) {
    let mut picked = random.pick(events);
    for _ in 0..3 {
        if let Event::Call(_, Call { asks, .. }) | Event::Visit(_, Visit { asks, .. }) = &picked.1
            && asks.len() > 1
        {
            break;
        }
        picked = random.pick(events);
    }
    picked.clone()
}

/// Reloads, and a rolling deploy: one process after the other.
pub(crate) fn deploys(setup: &Setup, random: &mut Random, events: &mut Events) {
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
