//! The store is healthy, but may be asked few calls at a time, and each client has many.

use super::{repeat, simplify};
use crate::{
    limits::Named,
    plan::{Call, Event, Events, MILLI, Setup, Stack},
    random::Random,
};

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    let stacks = [
        Stack::Policy,
        Stack::PolicyCache,
        Stack::PolicyLease,
        Stack::PolicyLeaseCache,
    ];
    simplify(setup, &stacks, random);
    if random.one_in(2) {
        setup.processes = 1;
        setup.ahead.truncate(1);
    }
    setup.max_in_flight = random.index(4) + 1;
    let lines = random.one_in(3);
    let leases = setup.stack.has_lease();
    setup.limits = (0..random.within(1, 2))
        .map(|_| Named::any(random, leases, lines))
        .collect();
    setup.end = random.within(800, 1_500) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    for _ in 0..random.within(4, 10) {
        let at = random.below(setup.end);
        let place = random.index(setup.limits.len());
        let mut call = Call::spend(place, &random.index(2).to_string());
        call.no_wait = random.one_in(2);
        let call = Event::Call(random.index(setup.processes), call);
        repeat(events, at, random.within(5, 40), &call);
    }
}
