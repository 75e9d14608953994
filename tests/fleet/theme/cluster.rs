//! Batches over two servers: one charges, the other denies, and what was charged is refunded. In between, others are denied
//! what the refund gives back.

use super::{constant, simplify};
use crate::{
    limits::{SECOND, Terms},
    plan::{Ask, Call, Event, Events, MILLI, Setup, Stack},
    random::Random,
};

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    simplify(setup, &[Stack::Cache, Stack::PolicyCache], random);
    setup.servers = 2;
    // A denial lasts.
    let terms = |most: u32, random: &mut Random| match random.below(3) {
        0 => Terms::Window {
            limit: most,
            span: random.within(2, 3) * SECOND,
        },
        1 => Terms::Hourly { quota: most },
        _ => Terms::Rate {
            burst: most,
            count: 1,
            period: random.within(2, 6) * SECOND,
            max_wait: 0,
        },
    };
    let small = random.units(1, 3);
    let large = small + random.units(1, 3);
    setup.limits = [large, small]
        .map(|most| constant(terms(most, random), false))
        .to_vec();
    setup.end = random.within(1_500, 2_500) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    for n in 0..random.within(4, 8) {
        let at = random.below(setup.end / 2);
        // They are on different servers.
        let (first, second) = (format!("a{n}"), format!("b{n}"));
        let mut both = Call::spend(0, &first);
        both.asks.push(Ask::one(1, &second));
        let (process, single) = (random.index(setup.processes), Call::spend(0, &first));
        let mut call = |at: u64, call: &Call| events.push((at, Event::Call(process, call.clone())));
        for _ in 0..setup.limits[0].versions[0].most() + random.units(0, 3) {
            call(at + random.below(2 * MILLI), &both);
        }
        for _ in 0..random.within(1, 6) {
            call(at + random.below(10 * MILLI), &single);
        }
        for _ in 0..random.within(1, 3) {
            call(at + random.within(250, 1_000) * MILLI, &single);
        }
    }
}
