//! Servers of a cluster are replaced by others.

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
    setup.servers = *random.pick(&[1, 2, 2, 3]);
    setup.end = random.within(1_500, 2_500) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    for _ in 0..random.within(1, 3) {
        let server = random.index(setup.servers);
        let (at, lasts) = (random.below(setup.end), random.within(50, 600) * MILLI);
        let lost = random.index(6);
        events.push((at, Event::Health(server, Health::Down)));
        events.push((at + lasts, Event::FailsOver(server, lost, 0)));
    }
    for _ in 0..random.within(60, 150) {
        let place = random.index(setup.limits.len());
        let call = Call::spend(place, &random.index(4).to_string());
        let process = random.index(setup.processes);
        events.push((random.below(setup.end), Event::Call(process, call)));
    }
}
