//! Handlers that settle their cost, first to less and then to more, while others wait in line behind them, or find no seat.
//! The line takes nothing back.

use super::{constant, repeat, simplify};
use crate::{
    limits::{SECOND, Terms},
    plan::{Ask, Event, Events, MILLI, Patience, Setup, Stack, Visit},
    random::Random,
};

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    let stacks = [Stack::Bare, Stack::Cache, Stack::Policy, Stack::PolicyCache];
    simplify(setup, &stacks, random);
    setup.servers = 1;
    setup.max_waiting = *random.pick(&[0, 1, 2, 3, 1000, 1000]);
    let line = Terms::Rate {
        burst: random.units(3, 8),
        count: random.units(10, 40),
        period: SECOND,
        max_wait: random.within(3, 10) * 100_000,
    };
    setup.limits = vec![constant(line, false)];
    setup.end = random.within(800, 1_500) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    for _ in 0..random.within(3, 6) {
        let mut ask = Ask::one(0, &random.index(2).to_string());
        ask.cost = random.units(1, 3);
        let visit = Visit {
            settles: match random.one_in(3) {
                true => Vec::new(),
                false => vec![random.units(0, ask.cost), random.units(0, 4)],
            },
            asks: vec![ask],
            is_bad: false,
            handling: (random.below(5) * MILLI, random.below(20) * MILLI),
            patience: Patience::Waits,
        };
        let visit = Event::Visit(random.index(setup.processes), visit);
        repeat(
            events,
            random.below(setup.end),
            random.within(3, 12),
            &visit,
        );
    }
}
