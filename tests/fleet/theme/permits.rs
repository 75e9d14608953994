//! Work that takes permits, holds them, releases or drops them, and leaves while it waits. Processes stand still, and the
//! store fails over or is away: for a short time, in which nobody may lose a permit, or for as long as the hold and longer.

use super::simplify;
use crate::{
    faults,
    limits::{Named, Terms},
    network::Way,
    plan::{Event, Events, MILLI, Setup, Stack, Work},
    random::Random,
    server::Health,
};

/// What a limit holds, in milliseconds.
const HOLD: (u64, u64) = (3_000, 4_000);

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    let stacks = [
        Stack::Bare,
        Stack::Cache,
        Stack::Policy,
        Stack::Policy,
        Stack::PolicyCache,
    ];
    simplify(setup, &stacks, random);
    setup.grow(2);
    setup.share = *random.pick(&[(1, 1), (1, 2), (1, 4)]);
    setup.servers = *random.pick(&[1, 1, 2]);
    setup.limits = (0..random.within(1, 2)).map(|_| limit(random)).collect();
    setup.end = random.within(5_000, 8_000) * MILLI;
    setup.keeps_permits = random.one_in(2);
}

fn limit(random: &mut Random) -> Named {
    let hold = random.within(HOLD.0, HOLD.1) * MILLI;
    let mut terms = |permits: u32| Terms::AtOnce {
        permits: random.units(1, permits),
        hold,
    };
    Named {
        versions: [terms(6), terms(6)],
        lease: None,
    }
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    for _ in 0..random.within(60, 140) {
        let work = work(setup, random);
        let process = random.index(setup.processes);
        // The last one ends some time before the fleet is checked.
        events.push((random.below(setup.end), Event::Work(process, work)));
    }
    if random.one_in(3) {
        for process in 0..setup.processes {
            let at = random.below(setup.end);
            events.push((at, Event::Reload(process, 1)));
        }
    }
    let mut at = random.within(200, 1_500) * MILLI;
    while at < setup.end {
        let lasts = match setup.keeps_permits {
            true => random.within(10, HOLD.0 / 6) * MILLI,
            false => random.within(100, HOLD.1 * 3 / 2) * MILLI,
        };
        fault(setup, (at, lasts), random, events);
        // The next renewal comes before the next fault.
        at += lasts + random.within(HOLD.1 * 2 / 3, HOLD.1) * MILLI;
    }
}

fn work(setup: &Setup, random: &mut Random) -> Work {
    let place = random.index(setup.limits.len());
    let versions = setup.limits[place].versions.iter();
    let most = versions.map(|terms| terms.most()).min().unwrap_or(1);
    Work {
        place,
        id: random.index(2).to_string(),
        permits: match random.one_in(4) {
            true => random.units(1, most),
            false => 1,
        },
        lasts: match random.one_in(3) {
            true => random.within(1_000, 5_000) * MILLI,
            false => random.below(800) * MILLI,
        },
        leaves: random.one_in(5).then(|| random.below(12) * MILLI),
        releases: random.one_in(2),
    }
}

fn fault(setup: &Setup, (at, lasts): (u64, u64), random: &mut Random, events: &mut Events) {
    let (server, process) = (random.index(setup.servers), random.index(setup.processes));
    let until = at + lasts;
    let health = match random.below(if setup.keeps_permits { 6 } else { 9 }) {
        0 => Health::Hung,
        1 => Health::Replica,
        2 => return events.push((at, Event::Pause(process, lasts))),
        3 => return events.push((at, Event::Cut(process, server, lasts))),
        4 => {
            // Requests arrive, and many answers are lost.
            let way = Way {
                losses: (random.below(200), random.within(100, 900)),
                ..Way::GOOD
            };
            events.push((at, Event::Way(process, server, way)));
            return events.push((until, Event::Way(process, server, Way::GOOD)));
        }
        5 => return faults::all_down(setup, (at, lasts), events),
        6 => {
            let away = random.within(10, 500) * MILLI;
            return events.push((at, Event::Kill(process, random.index(2), away)));
        }
        7 => return events.push((at, Event::Close(process))),
        _ => {
            events.push((until, Event::FailsOver(server, random.index(6), 0)));
            Health::Down
        }
    };
    events.push((at, Event::Health(server, health)));
    events.push((until, Event::Health(server, Health::Up)));
}
