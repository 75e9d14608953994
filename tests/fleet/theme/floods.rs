//! Clients have used up limits in memory, made-up clients take its room, and the clients come again.

use super::{constant, repeat, simplify};
use crate::{
    limits::Terms,
    plan::{Call, Event, Events, MILLI, Setup, Stack},
    random::Random,
};

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    simplify(setup, &[Stack::Memory], random);
    setup.processes = 1;
    setup.ahead.truncate(1);
    setup.servers = 1;
    let span = random.within(20, 40) * 100_000;
    let limit = random.units(2, 8);
    let terms = *random.pick(&[
        Terms::Window { limit, span },
        Terms::Tiers { limit, span },
        Terms::FirstUse { quota: limit, span },
    ]);
    setup.limits = vec![constant(terms, false)];
    setup.end = random.within(1_000, 1_800) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    let half = setup.end / 2;
    let flood = Event::Flood(0, 0, random.units(100, 400));
    events.push((half + random.below(half / 2), flood));
    for id in 0..random.within(2, 8) {
        let call = Event::Call(0, Call::spend(0, &id.to_string()));
        repeat(events, random.below(half), random.within(3, 9), &call);
        repeat(events, setup.end - MILLI, random.within(3, 9), &call);
    }
}
