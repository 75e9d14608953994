//! Outages in a row. After each, a client goes on at once, and the answers to its calls overtake the answer to the debit for its
//! local decisions.

use super::{constant, simplify};
use crate::{
    faults,
    limits::Terms,
    plan::{Event, Events, MILLI, Setup, Stack},
    random::Random,
};

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    simplify(setup, &[Stack::Policy, Stack::PolicyCache], random);
    setup.servers = 1;
    let slow = Terms::Rate {
        burst: random.units(60, 200),
        count: 1,
        period: random.within(2, 6) * 1_000_000,
        max_wait: 0,
    };
    setup.limits = vec![constant(slow, false)];
    setup.end = random.within(3_000, 4_000) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    faults::slow_down(setup, random, events);
    let client = faults::Client::any(setup, random);
    let mut at = random.below(200) * MILLI;
    while at < setup.end {
        let lasts = random.within(30, 150) * MILLI;
        client.goes_on(random, (at, lasts), events);
        faults::all_down(setup, (at, lasts), events);
        at += lasts + random.within(250, 600) * MILLI;
    }
    events.retain(|(at, event)| *at < setup.end || !matches!(event, Event::Call(..)));
}
