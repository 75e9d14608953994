//! A used-up quota, debits that are larger than what it can take, and their refunds.

use tollgate::transaction::Mode;

use super::{constant, simplify};
use crate::{
    limits::Terms,
    plan::{Call, Event, Events, MILLI, Setup, Stack, Then},
    random::Random,
};

pub(super) fn set_up(setup: &mut Setup, random: &mut Random) {
    let stacks = [Stack::Bare, Stack::Cache, Stack::Policy, Stack::PolicyCache];
    simplify(setup, &stacks, random);
    let quota = random.units(2, 6);
    let span = random.within(15, 30) * 100_000;
    let terms = *random.pick(&[Terms::Hourly { quota }, Terms::FirstUse { quota, span }]);
    setup.limits = vec![constant(terms, false)];
    setup.end = 2_000 * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    let process = random.index(setup.processes);
    let mut at = 0;
    while at < setup.end {
        at += random.within(5, 40) * MILLI;
        let mut call = Call::spend(0, &random.index(2).to_string());
        if random.one_in(4) {
            call.asks[0].cost = u32::MAX - random.units(0, 1);
            call.asks[0].mode = Mode::Debit;
            call.then = Then::Receipt(random.below(20) * MILLI, false);
        }
        events.push((at, Event::Call(process, call)));
    }
}
