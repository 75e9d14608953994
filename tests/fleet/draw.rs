//! Draws a fleet, and what its clients do.

use tollgate::transaction::{Mode, OnFailure};

use crate::{
    limits::Named,
    plan::{Ask, Call, Event, Events, MILLI, Patience, Setup, Stack, Then, Visit},
    random::Random,
};

/// Draws the setup of a fleet.
pub(crate) fn setup(random: &mut Random, is_crowded: bool) -> Setup {
    let stacks = Stack::ALL;
    // Memory comes first.
    let stack = *random.pick(&stacks[usize::from(is_crowded)..]);
    let processes = match stack {
        Stack::Memory => 1,
        _ => 1 + random.index(3),
    };
    let lines = random.one_in(3);
    let limits = 1 + random.index(3) + usize::from(is_crowded);
    let of = u32::try_from(processes).expect("there are few");
    Setup {
        processes,
        servers: match is_crowded {
            true => 1,
            false => *random.pick(&[1, 1, 2, 3]),
        },
        stack,
        is_crowded,
        share: if random.one_in(3) { (1, of) } else { (1, 1) },
        on_failure: *random.pick(&[
            OnFailure::Local,
            OnFailure::Local,
            OnFailure::Local,
            OnFailure::Refuse,
            OnFailure::Allow,
        ]),
        max_in_flight: *random.pick(&[4096, 4096, 2, 5]),
        max_waiting: *random.pick(&[0, 1, 2, 5, 1000]),
        limits: (0..limits)
            .map(|place| match is_crowded && place == 0 {
                true => Named::with_line(random),
                false => Named::any(random, stack.has_lease(), lines),
            })
            .collect(),
        ahead: ahead(random, processes),
        end: random.within(1_000, 4_000) * MILLI,
        keeps_permits: false,
    }
}

/// Draws how far the clocks of processes are ahead.
fn ahead(random: &mut Random, processes: usize) -> Vec<i64> {
    let has_skew = random.one_in(5);
    let ahead = |_| match has_skew {
        true => i64::try_from(random.below(4_000_000)).expect("it is small") - 2_000_000,
        false => 0,
    };
    (0..processes).map(ahead).collect()
}

/// What the clients of a fleet are like.
#[derive(Clone, Copy)]
struct Clients {
    /// How many there are.
    ids: usize,
    have_refunds: bool,
    /// Whether some refund without a receipt. That loosens the bounds.
    have_plain: bool,
    /// Whether some leave before they are answered.
    leave: bool,
    /// Whether some use the layer.
    visit: bool,
    /// One in so many requests through the layer is a burst. Lines are for bursts.
    bursts: u64,
}

/// Draws calls and requests.
pub(crate) fn calls(setup: &Setup, random: &mut Random, events: &mut Events) {
    let count = random.within(20, 150);
    let clients = Clients {
        ids: *random.pick(&[1, 2, 4]),
        have_refunds: random.one_in(2),
        have_plain: random.one_in(3),
        leave: random.one_in(3),
        visit: setup.is_crowded || random.one_in(2),
        bursts: if setup.is_crowded { 4 } else { 12 },
    };
    if setup.stack == Stack::Memory && random.one_in(2) {
        let place = random.index(setup.limits.len());
        let at = random.within(setup.end / 2, setup.end - 1);
        events.push((at, Event::Flood(0, place, random.units(50, 400))));
    }
    for _ in 0..count {
        let (at, process) = (random.below(setup.end), random.index(setup.processes));
        let is_visit = clients.visit && random.one_in(2);
        let (event, copies) = match is_visit {
            true => {
                let visit = Event::Visit(process, visit(setup, random, clients));
                (visit, copies(random, clients.bursts, 60))
            }
            false => {
                let call = Event::Call(process, call(setup, random, clients));
                (call, copies(random, 8, 12))
            }
        };
        events.extend((0..copies).map(|copy| (at + copy * 37, event.clone())));
        if random.one_in(150) {
            let place = random.index(setup.limits.len());
            let id = random.index(clients.ids).to_string();
            events.push((at, Event::Reset(process, place, id)));
        }
    }
}

/// One in `n` calls is a burst, which is what a bucket is for.
fn copies(random: &mut Random, n: u64, most: u64) -> u64 {
    match random.one_in(n) {
        true => random.within(2, most),
        false => 1,
    }
}

fn call(setup: &Setup, random: &mut Random, clients: Clients) -> Call {
    let first = random.index(setup.limits.len());
    let mut asks = vec![ask(setup, random, first, clients.ids)];
    if random.one_in(3) {
        for place in 0..setup.limits.len() {
            let more = ask(setup, random, place, clients.ids);
            let is_new = |other: &Ask| (other.place, &other.id) != (more.place, &more.id);
            if random.one_in(2) && asks.iter().all(is_new) {
                asks.push(more);
            }
        }
    }
    let patience = match random.below(8) {
        0 if clients.leave => Patience::Leaves(random.below(60) * MILLI),
        1 if clients.leave => Patience::Stalls(random.below(60) * MILLI),
        _ => Patience::Waits,
    };
    let mut then = match random.below(6) {
        0 | 1 if clients.have_refunds => Then::Receipt(random.below(800) * MILLI, random.one_in(2)),
        2 if clients.have_plain && clients.have_refunds => Then::Plain(random.below(300) * MILLI),
        _ => Then::Nothing,
    };
    if let [only] = &mut asks[..]
        && can_saturate(setup, only)
        && random.one_in(4)
    {
        only.cost = u32::MAX;
        then = Then::Receipt(random.below(20) * MILLI, false);
    }
    Call {
        asks,
        is_check: random.one_in(12),
        no_wait: random.one_in(4),
        patience,
        then,
    }
}

/// Whether a debit of any cost leaves the bucket usable.
fn can_saturate(setup: &Setup, ask: &Ask) -> bool {
    let mut versions = setup.limits[ask.place].versions.into_iter();
    ask.mode == Mode::Debit && versions.all(|terms| terms.is_quota())
}

fn visit(setup: &Setup, random: &mut Random, clients: Clients) -> Visit {
    let mut asks: Vec<Ask> = Vec::new();
    for place in 0..setup.limits.len() {
        if asks.is_empty() || random.one_in(2) {
            let mut ask = ask(setup, random, place, clients.ids);
            ask.mode = Mode::CheckAndSpend;
            asks.push(ask);
        }
    }
    let has_tiers = |ask: &Ask| {
        let mut versions = setup.limits[ask.place].versions.into_iter();
        versions.any(|terms| terms.has_tiers())
    };
    let often = if setup.is_crowded { 2 } else { 1 };
    let settles = match random.one_in(4 / often) && !asks.iter().any(has_tiers) {
        true => (0..random.within(1, 3))
            .map(|_| random.units(0, 6))
            .collect(),
        false => Vec::new(),
    };
    let is_bad = asks.len() > 1 && random.one_in(6 / often);
    if is_bad && random.one_in(2) {
        for ask in &mut asks {
            // Nobody else has this id.
            "bad".clone_into(&mut ask.id);
        }
    }
    Visit {
        is_bad,
        asks,
        settles,
        handling: (random.below(40) * MILLI, random.below(40) * MILLI),
        patience: match clients.leave && random.one_in(6) {
            true => Patience::Leaves(random.below(100) * MILLI),
            false => Patience::Waits,
        },
    }
}

fn ask(setup: &Setup, random: &mut Random, place: usize, ids: usize) -> Ask {
    let named = &setup.limits[place];
    let least = named.versions.iter().map(|terms| terms.most()).min();
    // With leases, less than the burst fits into one call.
    let most = match named.has_line() {
        true => least.unwrap_or(1),
        false => (least.unwrap_or(1) / 3).max(1),
    };
    let has_tiers = named.versions.iter().any(|terms| terms.has_tiers());
    let mode = match random.below(12) {
        0 => Mode::CheckOnly,
        1 => Mode::SpendOnly,
        2 if !has_tiers => Mode::Debit,
        _ => Mode::CheckAndSpend,
    };
    Ask {
        place,
        id: random.index(ids).to_string(),
        cost: if random.one_in(3) {
            random.units(1, most)
        } else {
            1
        },
        mode,
    }
}
