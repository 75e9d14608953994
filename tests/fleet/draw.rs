//! Draws a plan from a seed.

use tollgate::{
    testing::random::Random,
    transaction::{Mode, OnFailure},
};

use crate::{
    clock::SECOND,
    plan::{Ask, Bucket, Call, Event, Fault, Plan, Setup, Work},
    terms::{Kind, Terms},
};

struct Draw {
    random: Random,
    setup: Setup,
    events: Vec<(u64, Event)>,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random(seed);
        let setup = setup(&mut random);
        let mut draw = Draw {
            random,
            setup,
            events: Vec::new(),
        };
        draw.events();
        let mut events = draw.events;
        events.retain(|(at, _)| *at < draw.setup.end);
        events.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            setup: draw.setup,
            events,
        }
    }
}

fn setup(random: &mut Random) -> Setup {
    let lease = random.one_in(3);
    let is_cluster = random.one_in(3);
    // A batch over several slots takes several round trips within the deadline.
    let slowest = if is_cluster { 3 } else { 9 };
    Setup {
        calm: random.one_in(4),
        policy: !random.one_in(5),
        lease,
        cache: random.one_in(2),
        processes: random.units(1, 4),
        limits: (0..random.within(1, 3))
            .map(|_| terms(lease, random))
            .collect(),
        on_failure: match random.below(8) {
            0 => OnFailure::Allow,
            1 => OnFailure::Refuse,
            _ => OnFailure::Local,
        },
        latency: *random.pick(&[0, 1, 3, slowest]),
        connections: random.within(1, if is_cluster { 4 } else { 2 }),
        is_cluster,
        end: random.within(3 * SECOND, 8 * SECOND),
    }
}

fn terms(lease: bool, random: &mut Random) -> Terms {
    if lease && random.one_in(2) {
        // The burst is large enough for leases. Some give back hardly anything while the fleet runs.
        let period = *random.pick(&[SECOND, 100 * SECOND]);
        let count = random.units(1, 60);
        return Terms {
            most: random.units(40, 60),
            kind: Kind::Rate { count, period },
            leased: true,
        };
    }
    let (most, kind) = match random.below(4) {
        0 => {
            let mut hold = random.within(SECOND, 4 * SECOND);
            // Some are so long that nothing but a refund gives a permit back while the fleet runs.
            if random.one_in(3) {
                hold = 20 * SECOND;
            }
            (5, Kind::AtOnce { hold })
        }
        1 => {
            let span = random.within(300, 3_000);
            let kind = if span.is_multiple_of(2) {
                Kind::Window { span }
            } else {
                Kind::Quota { span }
            };
            (20, kind)
        }
        _ => {
            let count = random.units(1, 20);
            let period = SECOND;
            (40, Kind::Rate { count, period })
        }
    };
    Terms {
        most: random.units(1, most),
        kind,
        leased: false,
    }
}

impl Draw {
    fn events(&mut self) {
        let mut faults = Vec::new();
        if !self.setup.calm {
            let count = self.random.within(1, 5);
            faults = (0..count).map(|_| self.fault()).collect();
        }
        for limit in 0..self.setup.limits.len() {
            self.calls(limit, &faults);
        }
        if self.random.one_in(3) {
            self.others();
        }
        if self.setup.calm {
            self.refunds();
        }
    }

    fn push(&mut self, at: u64, event: Event) {
        self.events.push((at, event));
    }

    fn time(&mut self) -> u64 {
        self.random.below(self.setup.end)
    }

    fn process(&mut self) -> usize {
        self.random.index(self.setup.processes as usize)
    }

    /// Draws a fault, and returns when it begins, and when it ends or its effects are looked at.
    fn fault(&mut self) -> (u64, u64) {
        let at = self.time();
        let process = self.process();
        let random = &mut self.random;
        let most = *random.pick(&[300, 3_000]);
        let lasts = random.within(20, most).min(self.setup.end - at);
        let loses_data = random.one_in(3);
        let nth = random.within(1, 5);
        let answers = random.one_in(2);
        let after = random.within(1, 2_000);
        let by = i64::try_from(random.within(1, 4_000)).unwrap();
        let fault = match random.below(15) {
            0 | 1 => Fault::Down { loses_data },
            2 => Fault::Paused,
            3 => Fault::Busy(random.within(2, 20)),
            4 => Fault::Slow(1, random.within(10, 80)),
            5 => Fault::Cut(None),
            6 => Fault::Cut(Some(process)),
            7 | 8 => Fault::Loses { nth, answers },
            9 => Fault::Kill(process, lasts),
            10 => Fault::Repeats { nth, after },
            11 => Fault::Late { nth, after },
            12 => Fault::Clock(by),
            13 => Fault::StoreClock(by),
            _ => Fault::StoreClock(-by),
        };
        let lasting = if fault.is_instant() { 0 } else { lasts };
        self.push(at, Event::Fault(lasting, fault));
        (at, at + lasts)
    }

    /// Draws the calls of a limit: some at all times, and many at once, mostly when a fault begins or has just ended.
    fn calls(&mut self, limit: usize, faults: &[(u64, u64)]) {
        for _ in 0..self.random.within(10, 120) {
            let at = self.time();
            self.call(limit, at);
        }
        if self.setup.limits[limit].leased {
            self.surge((limit, "busy"));
        }
        for _ in 0..self.random.within(1, 5) {
            let mut begin = self.time();
            if !faults.is_empty() {
                let (from, until) = *self.random.pick(faults);
                let between = self.random.within(from, until);
                let about = *self.random.pick(&[from, from, until, between]);
                begin = about.saturating_sub(50) + self.random.below(300);
            }
            let pause = *self.random.pick(&[0, 1, 7]);
            for number in 0..self.random.within(5, 60) {
                self.call(limit, begin + number * pause);
            }
        }
    }

    fn call(&mut self, limit: usize, at: u64) {
        let process = self.process();
        let bucket = self.bucket(limit);
        let may_leave = !self.setup.calm && self.random.one_in(8);
        let leaves = may_leave.then(|| self.random.within(0, 60));
        if self.setup.limits[limit].is_at_once() {
            let longest = *self.random.pick(&[100, 4_000]);
            let work = Work {
                bucket,
                lasts: self.random.within(0, longest),
                leaves,
                releases: self.random.one_in(2),
            };
            return self.push(at, Event::Work(process, work));
        }
        let mut asks = vec![self.ask(bucket)];
        for other in 0..self.setup.limits.len() {
            let is_at_once = self.setup.limits[other].is_at_once();
            if other != limit && !is_at_once && self.random.one_in(6) {
                let bucket = self.bucket(other);
                asks.push(self.ask(bucket));
            }
        }
        if self.setup.is_cluster && self.random.one_in(3) {
            // The other client of the limit can have another tag.
            let id = if bucket.1 == "busy" { "rare" } else { "busy" };
            asks.push(self.ask((limit, id)));
        }
        let call = Call {
            asks,
            is_check: self.random.one_in(10),
            leaves,
            refund: self.random.one_in(8).then(|| self.random.below(500)),
        };
        self.push(at, Event::Call(process, call));
    }

    /// Most calls are those of one client.
    fn bucket(&mut self, limit: usize) -> Bucket {
        let is_rare = self.random.one_in(6);
        (limit, if is_rare { "rare" } else { "busy" })
    }

    fn ask(&mut self, bucket: Bucket) -> Ask {
        let terms = self.setup.limits[bucket.0];
        let most = if terms.leased { 20 } else { terms.most };
        let is_large = self.random.one_in(4);
        Ask {
            bucket,
            cost: if is_large {
                self.random.units(1, most)
            } else {
                1
            },
            mode: match self.random.below(12) {
                0 => Mode::CheckOnly,
                1 => Mode::SpendOnly,
                2 => Mode::Debit,
                _ => Mode::CheckAndSpend,
            },
        }
    }

    /// Draws calls after which each process holds units that it has charged ahead, and calls that use all of these units.
    fn surge(&mut self, bucket: Bucket) {
        let begin = self.time();
        let processes = self.setup.processes as usize;
        for process in 0..processes {
            for number in 0..self.random.within(3, 9) {
                self.push(begin + number, Event::Call(process, Call::one(bucket)));
            }
            // Units that are idle for longer are returned.
            let end = begin + self.random.within(500, 1_900);
            for _ in 0..80 / processes {
                self.push(end, Event::Call(process, Call::one(bucket)));
            }
        }
    }

    /// Draws refunds between the requests of a client.
    fn refunds(&mut self) {
        for limit in 0..self.setup.limits.len() {
            let terms = self.setup.limits[limit];
            if terms.leased || terms.is_at_once() {
                continue;
            }
            for _ in 0..self.random.within(1, 5) {
                let at = self.time();
                let process = self.process();
                self.push(at, Event::Refund(process, limit));
            }
        }
    }

    /// Draws occasional events.
    fn others(&mut self) {
        for _ in 0..self.random.within(1, 3) {
            let at = self.time();
            let process = self.process();
            let limit = self.random.index(self.setup.limits.len());
            let is_at_once = self.setup.limits[limit].is_at_once();
            let event = match self.random.below(4) {
                0 | 1 if is_at_once => Event::Clients(process, limit),
                1 => Event::Reset(process, self.bucket(limit)),
                2 if !self.setup.calm && !is_at_once && self.random.one_in(8) => {
                    self.push(at, Event::Fault(100, Fault::Slow(19, 21)));
                    Event::Crowd(process, self.bucket(limit))
                }
                // It gives back permits of work that goes on.
                _ if self.setup.limits.iter().any(|terms| terms.is_at_once()) => continue,
                _ => Event::Close(process),
            };
            self.push(at, event);
        }
    }
}
