//! Runtimes end when an answer arrives to a batch whose buckets are leased, and so while leases are topped up.

use super::{constant, repeat, simplify};
use crate::{
    limits::{self, Terms},
    plan::{Ask, Call, Event, Events, MILLI, Setup, Stack},
    random::Random,
};

/// A bucket is leased from its third use.
const USES: u64 = 3;

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
    setup.servers = random.index(2) + 1;
    setup.limits = vec![
        constant(Terms::LEASED, true),
        constant(limits::terms(random, true, false), random.one_in(2)),
    ];
    setup.end = random.within(1_500, 2_500) * MILLI;
}

pub(super) fn draw(setup: &Setup, random: &mut Random, events: &mut Events) {
    let mut at = random.below(20) * MILLI;
    while at + 100 * MILLI < setup.end {
        let id = random.index(6).to_string();
        let second = if random.one_in(2) {
            id.clone()
        } else {
            random.index(6).to_string()
        };
        let mut call = Call::spend(0, &id);
        call.asks.push(Ask::one(1, &second));
        let event = Event::Call(0, call);
        repeat(events, at, random.within(1, 3), &event);
        let uses = USES + random.below(2);
        for _ in 1..uses {
            at += random.within(4, 10) * MILLI;
            events.push((at, event.clone()));
        }
        let polls = random.index(4);
        events.push((at + MILLI, Event::RuntimeEndsThen(0, polls)));
        at += random.within(20, 80) * MILLI;
    }
}
