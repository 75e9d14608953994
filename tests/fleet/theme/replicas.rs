//! A server is a replica for some time, as after a failover of which its clients have not heard.

use super::simplify;
use crate::{
    plan::{Call, Event, Events, MILLI, Setup, Stack},
    random::Random,
    server::Health,
};

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    let stacks = [
        Stack::Policy,
        Stack::PolicyCache,
        Stack::PolicyLease,
        Stack::PolicyLeaseCache,
    ];
    simplify(setup, &stacks, random);
    setup.servers = *random.pick(&[1, 1, 2]);
    setup.end = random.within(2_500, 3_500) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    let server = random.index(setup.servers);
    let begin = random.below(500) * MILLI;
    let lasts = random.within(1_500, 2_000) * MILLI;
    events.push((begin, Event::Health(server, Health::Replica)));
    events.push((begin + lasts, Event::Health(server, Health::Up)));
    for process in 0..setup.processes {
        let mut at = random.below(100) * MILLI;
        while at < setup.end {
            let place = random.index(setup.limits.len());
            let call = Call::spend(place, &random.index(4).to_string());
            events.push((at, Event::Call(process, call)));
            at += random.within(10, 100) * MILLI;
            if random.one_in(8) {
                events.push((at, Event::Look(process)));
            }
        }
    }
}
