//! Leases become idle, and are returned while one of the servers does not answer.

use super::{constant, repeat, simplify};
use crate::{
    limits::Terms,
    plan::{Call, Event, Events, MILLI, Setup, Stack},
    random::Random,
    server::Health,
};

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    let stacks = [
        Stack::Lease,
        Stack::LeaseCache,
        Stack::PolicyLease,
        Stack::PolicyLeaseCache,
    ];
    simplify(setup, &stacks, random);
    setup.processes = 1;
    setup.ahead.truncate(1);
    setup.servers = random.index(2) + 2;
    setup.limits = vec![constant(Terms::LEASED, true)];
    setup.end = random.within(4_500, 5_000) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    for _ in 0..random.within(4, 8) {
        let call = Call::spend(0, &random.index(6).to_string());
        let call = Event::Call(random.index(setup.processes), call);
        let at = random.below(300) * MILLI;
        for round in 0..random.within(3, 6) {
            repeat(events, at + round * 10 * MILLI, random.within(1, 3), &call);
        }
    }
    let server = random.index(setup.servers);
    let at = random.within(400, 1_000) * MILLI;
    events.push((at, Event::Health(server, Health::Down)));
    for process in 0..setup.processes {
        events.push((setup.end - MILLI, Event::Look(process)));
    }
}
