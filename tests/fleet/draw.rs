//! Draws a plan from a seed.

use tollgate::{
    testing::random::Random,
    transaction::{Mode, OnFailure},
};

use crate::{
    plan::{Ask, Bucket, Call, Event, Fault, MILLI, Named, Plan, Setup, Stack, Work},
    terms::Terms,
};

type Events = Vec<(u64, Event)>;

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let random = &mut Random(seed);
        let mut setup = setup(random);
        let apart = &mut Random(!seed);
        if apart.one_in(3) {
            setup.tags = Some(apart.within(1, 4));
            // A batch over several slots takes several round trips within the deadline.
            setup.latency.1 = setup.latency.1.min(3 * MILLI);
        }
        let mut events = Events::new();
        let mut faults = Vec::new();
        if !setup.calm {
            faults = (0..random.within(1, 5))
                .map(|_| fail(&setup, random, &mut events))
                .collect();
        }
        for place in 0..setup.limits.len() {
            calls(&setup, place, &faults, random, &mut events);
        }
        if random.one_in(3) {
            others(&setup, random, &mut events);
        }
        if setup.calm {
            refunds(&setup, random, &mut events);
        }
        events.retain(|(at, _)| *at < setup.end);
        events.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            setup,
            events,
        }
    }
}

fn setup(random: &mut Random) -> Setup {
    let stack = Stack {
        policy: !random.one_in(5),
        lease: random.one_in(3),
        cache: random.one_in(2),
    };
    let limits = (0..random.within(1, 3))
        .map(|_| limit(stack, random))
        .collect();
    let slowest = *random.pick(&[0, 1, 3, 9]);
    Setup {
        calm: random.one_in(4),
        stack,
        processes: random.index(4) + 1,
        limits,
        on_failure: match random.below(8) {
            0 => OnFailure::Allow,
            1 => OnFailure::Refuse,
            _ => OnFailure::Local,
        },
        latency: (0, slowest * MILLI),
        lanes: random.within(1, 2),
        tags: None,
        end: random.within(3_000, 8_000) * MILLI,
    }
}

fn limit(stack: Stack, random: &mut Random) -> Named {
    let leased = stack.lease && random.one_in(2);
    let terms = if leased {
        Terms::leased(random)
    } else if random.one_in(4) {
        Terms::at_once(random)
    } else {
        Terms::any(random)
    };
    Named { terms, leased }
}

/// Draws a fault, and returns when it begins and ends.
fn fail(setup: &Setup, random: &mut Random, events: &mut Events) -> (u64, u64) {
    let at = random.below(setup.end);
    let most = if random.one_in(2) {
        300 * MILLI
    } else {
        3_000 * MILLI
    };
    let lasts = random.within(20 * MILLI, most).min(setup.end - at);
    let process = random.index(setup.processes);
    let event = match random.below(13) {
        0 | 1 => {
            let loses_data = random.one_in(3);
            Event::Fault(lasts, Fault::Down { loses_data })
        }
        2 => Event::Fault(lasts, Fault::Paused),
        3 => Event::Fault(lasts, Fault::Busy(random.within(2, 20) * MILLI)),
        4 => {
            let latency = (MILLI, random.within(10, 80) * MILLI);
            Event::Fault(lasts, Fault::Slow { latency })
        }
        5 => Event::Fault(lasts, Fault::Cut(None)),
        6 => Event::Fault(lasts, Fault::Cut(Some(process))),
        7 | 8 => {
            let nth = random.within(2, 5);
            let answers = random.one_in(2);
            Event::Fault(lasts, Fault::Loses { nth, answers })
        }
        9 => Event::Kill(process, lasts),
        10 => {
            let nth = random.within(1, 3);
            let after = random.within(1, 2_000) * MILLI;
            Event::Fault(lasts, Fault::Repeats { nth, after })
        }
        11 => {
            let nth = random.within(2, 5);
            let after = random.within(1, 2_000) * MILLI;
            Event::Fault(lasts, Fault::Late { nth, after })
        }
        _ => set_clock(random),
    };
    events.push((at, event));
    (at, at + lasts)
}

fn set_clock(random: &mut Random) -> Event {
    let by = random.within(1, 4_000) * MILLI;
    let signed = i64::try_from(by).unwrap();
    match random.below(3) {
        0 => Event::Clock(by),
        1 => Event::Fault(0, Fault::StoreClock(signed)),
        _ => Event::Fault(0, Fault::StoreClock(-signed)),
    }
}

/// Draws the calls of a limit: some at all times, and many at once, mostly when a fault begins or has just ended.
fn calls(
    setup: &Setup,
    place: usize,
    faults: &[(u64, u64)],
    random: &mut Random,
    events: &mut Events,
) {
    for _ in 0..random.within(10, 120) {
        let at = random.below(setup.end);
        events.push(call(setup, (place, at), random));
    }
    if setup.limits[place].leased {
        surge(setup, place, random, events);
    }
    for _ in 0..random.within(1, 5) {
        let at = match faults {
            [] => random.below(setup.end),
            faults => {
                let (begin, end) = *random.pick(faults);
                let between = random.within(begin, end);
                let about = *random.pick(&[begin, begin, end, between]);
                about.saturating_sub(50 * MILLI) + random.below(300 * MILLI)
            }
        };
        let pause = *random.pick(&[0, MILLI, 7 * MILLI]);
        for number in 0..random.within(5, 60) {
            events.push(call(setup, (place, at + number * pause), random));
        }
    }
}

fn call(setup: &Setup, (place, at): (usize, u64), random: &mut Random) -> (u64, Event) {
    let (process, bucket) = (random.index(setup.processes), bucket(place, random));
    let leaves = |random: &mut Random| {
        let leaves = !setup.calm && random.one_in(8);
        leaves.then(|| random.within(0, 60) * MILLI)
    };
    if setup.limits[place].terms.is_at_once() {
        let longest = *random.pick(&[100, 4_000]);
        let work = Work {
            bucket,
            lasts: random.within(0, longest) * MILLI,
            leaves: leaves(random),
            releases: random.one_in(2),
        };
        return (at, Event::Work(process, work));
    }
    let mut asks = vec![ask(setup, bucket, random)];
    for other in 0..setup.limits.len() {
        if other != place && !setup.limits[other].terms.is_at_once() && random.one_in(6) {
            let bucket = self::bucket(other, random);
            asks.push(ask(setup, bucket, random));
        }
    }
    if setup.tags.is_some() && random.one_in(3) {
        // The other client of the limit can have another tag.
        let id = if asks[0].bucket.1 == "busy" {
            "rare"
        } else {
            "busy"
        };
        asks.push(ask(setup, (place, id.to_owned()), random));
    }
    let call = Call {
        asks,
        is_check: random.one_in(10),
        leaves: leaves(random),
        refund: random.one_in(8).then(|| random.below(500) * MILLI),
    };
    (at, Event::Call(process, call))
}

/// Most calls are those of one client.
fn bucket(place: usize, random: &mut Random) -> Bucket {
    let id = if random.one_in(6) { "rare" } else { "busy" };
    (place, id.to_owned())
}

fn ask(setup: &Setup, bucket: Bucket, random: &mut Random) -> Ask {
    let terms = setup.limits[bucket.0].terms;
    let most = if setup.limits[bucket.0].leased {
        20
    } else {
        60
    };
    let most = most.min(terms.most);
    let mode = match random.below(12) {
        0 => Mode::CheckOnly,
        1 => Mode::SpendOnly,
        2 if !terms.has_tiers() => Mode::Debit,
        _ => Mode::CheckAndSpend,
    };
    Ask {
        bucket,
        cost: if random.one_in(4) {
            random.units(1, most)
        } else {
            1
        },
        mode,
    }
}

/// Draws calls after which each process holds units that it has charged ahead, and calls that use all of these units.
fn surge(setup: &Setup, place: usize, random: &mut Random, events: &mut Events) {
    let bucket = || (place, "busy".to_owned());
    let begin = random.below(setup.end);
    for process in 0..setup.processes {
        for number in 0..random.within(3, 9) {
            let call = Call::one(bucket());
            events.push((begin + number * MILLI, Event::Call(process, call)));
        }
        // Units that are idle for longer are returned.
        let end = begin + random.within(500, 1_900) * MILLI;
        for _ in 0..80 / setup.processes {
            events.push((end, Event::Call(process, Call::one(bucket()))));
        }
    }
}

/// Draws refunds between the requests of a client.
fn refunds(setup: &Setup, random: &mut Random, events: &mut Events) {
    for (place, named) in setup.limits.iter().enumerate() {
        if named.leased || named.terms.has_tiers() || named.terms.is_at_once() {
            continue;
        }
        for _ in 0..random.within(1, 5) {
            let (at, process) = (random.below(setup.end), random.index(setup.processes));
            events.push((at, Event::Refund(process, place)));
        }
    }
}

/// Draws occasional events.
fn others(setup: &Setup, random: &mut Random, events: &mut Events) {
    for _ in 0..random.within(1, 3) {
        let (at, process) = (random.below(setup.end), random.index(setup.processes));
        let place = random.index(setup.limits.len());
        let terms = setup.limits[place].terms;
        let event = match random.below(4) {
            0 | 1 if terms.is_at_once() => Event::Clients(process, place),
            1 if !terms.is_at_once() => Event::Reset(process, bucket(place, random)),
            2 if !setup.calm && !terms.is_at_once() && random.one_in(8) => {
                let latency = (19 * MILLI, 21 * MILLI);
                events.push((at, Event::Fault(100 * MILLI, Fault::Slow { latency })));
                Event::Crowd(process, bucket(place, random))
            }
            // It gives back permits of work that goes on.
            _ if setup.limits.iter().any(|named| named.terms.is_at_once()) => continue,
            _ => Event::Close(process),
        };
        events.push((at, event));
    }
}
