//! Processes with two versions of a limit, which are decided by different algorithms, and few clients that call all of them.

use super::simplify;
use crate::{
    faults,
    limits::{self, Named},
    plan::{Call, Event, Events, MILLI, Setup, Stack},
    random::Random,
};

/// The largest limit that the clients exceed many times.
const MOST: u32 = 6;

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    let stacks = [Stack::Bare, Stack::Cache, Stack::Policy, Stack::PolicyCache];
    simplify(setup, &stacks, random);
    setup.grow(2);
    let small = |random: &mut Random| {
        loop {
            let terms = limits::terms(random, false, false);
            if terms.most() <= MOST {
                break terms;
            }
        }
    };
    setup.limits = (0..2)
        .map(|_| {
            let first = small(random);
            let mut second = first;
            while second.is_like(first) {
                second = small(random);
            }
            Named {
                versions: [first, second],
                lease: None,
            }
        })
        .collect();
    setup.end = random.within(1_000, 1_500) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    events.push((random.below(100) * MILLI, Event::Reload(0, 1)));
    if random.one_in(2) {
        faults::deploys(setup, random, events);
    }
    let (from, rest) = (100 * MILLI, setup.end - 100 * MILLI);
    for _ in 0..random.within(200, 300) {
        let place = random.index(setup.limits.len());
        let call = Call::spend(place, &random.index(2).to_string());
        let process = random.index(setup.processes);
        events.push((from + random.below(rest), Event::Call(process, call)));
    }
}
