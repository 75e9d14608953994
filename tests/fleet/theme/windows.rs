//! A window has an old unit and a newer one. The old one is refunded by its receipt, and the store is away when it would have
//! lapsed, and until the newer one does.

use super::{constant, simplify};
use crate::{
    faults,
    limits::Terms,
    plan::{Call, Event, Events, MILLI, Setup, Stack, Then},
    random::Random,
};

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    simplify(setup, &[Stack::Policy, Stack::PolicyCache], random);
    setup.limits = (0..random.within(1, 2))
        .map(|_| {
            let window = Terms::Window {
                limit: random.units(2, 8),
                span: random.within(8, 14) * 100_000,
            };
            constant(window, false)
        })
        .collect();
    setup.end = random.within(3_000, 4_000) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    let mut round = 0;
    let mut begin = random.below(200) * MILLI;
    while begin < setup.end {
        let place = random.index(setup.limits.len());
        let Terms::Window { limit, span } = setup.limits[place].versions[0] else {
            return;
        };
        let away = begin + span * random.within(90, 115) / 100;
        let lasts = span * random.within(20, 60) / 100;
        faults::all_down(setup, (away, lasts), events);
        for _ in 0..random.within(1, 4) {
            round += 1;
            let client = Client {
                process: random.index(setup.processes),
                place,
                id: round.to_string(),
            };
            let half = (limit / 2).max(1);
            client.spends(random, (begin, span / 4), (half, true), events);
            let newer = begin + span / 4;
            client.spends(random, (newer, span / 2), (half, false), events);
            client.spends(random, (away, lasts), (limit, false), events);
        }
        begin = away + lasts + span;
    }
}

struct Client {
    process: usize,
    place: usize,
    id: String,
}

impl Client {
    /// Spends units at any time within a span. They may be refunded by receipt.
    fn spends(
        &self,
        random: &mut Random,
        (at, span): (u64, u64),
        (units, may_refund): (u32, bool),
        events: &mut Events,
    ) {
        for _ in 0..units {
            let mut call = Call::spend(self.place, &self.id);
            if may_refund && !random.one_in(3) {
                call.then = Then::Receipt(random.below(span * 3), false);
            }
            events.push((at + random.below(span), Event::Call(self.process, call)));
        }
    }
}
