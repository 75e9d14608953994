//! The clients of a history.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use tollgate::{Limiter, backend::Backend, clock::Timestamp};

use super::{
    calls::Wish,
    checker::{Answer, BUCKETS, Call, History},
    random::Random,
    record::{Begun, Record},
    stack::{LIMITS, Stack},
};

const CLIENTS: usize = 3;

/// How many calls each client makes.
const CALLS: usize = 6;

/// How many calls of a history begin and end.
pub(crate) const TICKS: u64 = 2 * (CLIENTS * CALLS) as u64;

/// How long a client waits if the store is not there.
const REST: Duration = Duration::from_millis(2);

/// A moment before a full hour, so that quotas end in the middle of histories.
pub(super) const START: u64 = 1_767_229_200_000_000 - 600_000;

/// The calls of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Spends from one bucket: of a rate, or of a quota or a window. Simultaneous ones share a script of their own.
    Spends,
    Uses,
    /// Spends and refunds of all kinds, of one bucket or two.
    Mixed,
}

/// A time that several histories can share.
#[derive(Clone, Debug)]
pub(crate) struct Time(Arc<AtomicU64>);

impl Time {
    pub(crate) fn start() -> Self {
        Self(Arc::new(AtomicU64::new(START)))
    }

    fn now(&self) -> u64 {
        self.0.load(SeqCst)
    }

    fn pass(&self, us: u64) {
        self.0.fetch_add(us, SeqCst);
    }
}

/// What a history is made in.
#[derive(Debug)]
pub(crate) struct World {
    pub(super) stack: Stack,
    shape: Shape,
    services: Vec<Limiter>,
    /// The limits of the buckets, by their places in `LIMITS`.
    pub(super) picks: [usize; BUCKETS],
    pub(super) id: String,
    pub(super) random: Random,
    pub(super) record: Record,
    time: Time,
    /// How long a client is idle before one in so many calls, where time can be skipped.
    idle: Option<(Duration, u64)>,
    loses_answers: bool,
}

impl World {
    /// A history of a shape on processes with these stores.
    pub(crate) fn new(
        (stack, shape): (Stack, Shape),
        backends: impl IntoIterator<Item = Arc<dyn Backend>>,
        random: Random,
        id: String,
    ) -> Self {
        let services = backends.into_iter().map(|backend| stack.limiter(backend));
        let mut picks: Vec<_> = (0..LIMITS.len()).collect();
        let first = match shape {
            Shape::Spends => 0,
            Shape::Uses => 1 + random.place(picks.len() - 1),
            Shape::Mixed => random.place(picks.len()),
        };
        let first = picks.swap_remove(first);
        let second = picks.swap_remove(random.place(picks.len()));
        Self {
            stack,
            shape,
            services: services.collect(),
            picks: [first, second],
            id,
            random,
            record: Record::default(),
            time: Time::start(),
            idle: None,
            loses_answers: false,
        }
    }

    /// Lets time pass for this history whenever it does for others.
    pub(crate) fn at(self, time: Time) -> Self {
        Self { time, ..self }
    }

    /// Lets clients do nothing for so long, now and then or before each call: then all of them often rest at the same time.
    pub(crate) fn idle(self, idle: Duration) -> Self {
        let idle = Some((idle, [1, 4][self.random.place(2)]));
        Self { idle, ..self }
    }

    /// Expects that calls are lost on the way.
    pub(crate) fn loses_answers(self) -> Self {
        let loses_answers = true;
        Self {
            loses_answers,
            ..self
        }
    }

    pub(super) fn limiter(&self, begun: Begun) -> Limiter {
        let limiter = self.services[begun.service].clone();
        match self.stack.is_by_the_stores_clock() {
            true => limiter,
            false => limiter.with_clock(Timestamp::from_micros(begun.now)),
        }
    }

    /// How many calls have begun or ended.
    pub(crate) fn ticks(&self) -> u64 {
        self.record.ticks()
    }

    /// Notes the beginning of a failover, for [`failed_over`](Self::failed_over).
    pub(crate) fn begin_failover(&self) -> u64 {
        self.record.tick()
    }

    /// Notes that another server has taken over since `tick`, perhaps without what the first one was told last.
    pub(crate) fn failed_over(&self, tick: u64) {
        let begun = Begun {
            service: 0,
            now: self.time.now(),
            tick,
        };
        let answer = Answer::Passed([None; BUCKETS]);
        self.record.add(begun, Call::FailOver, answer);
    }

    /// Lets all clients make their calls, and returns what has become of them.
    pub(crate) async fn history(self: Arc<Self>) -> History {
        let clients = (0..CLIENTS).map(|client| {
            let service = client % self.services.len();
            tokio::spawn(Arc::clone(&self).be_client(service))
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        History {
            terms: self.picks.map(|pick| LIMITS[pick].1),
            events: self.record.take(self.loses_answers),
        }
    }

    async fn be_client(self: Arc<Self>, service: usize) {
        let (mut receipts, mut made) = (Vec::new(), 0);
        while made < CALLS {
            self.random.pause().await;
            self.rest().await;
            let wish = match self.shape {
                Shape::Mixed => Wish::any(&self.random, &mut receipts),
                _ => Wish::one(&self.random),
            };
            let begun = Begun {
                service,
                now: self.time.now(),
                tick: self.record.tick(),
            };
            match self.ask(begun, wish, &mut receipts).await {
                true => made += 1,
                false => {
                    made += usize::from(self.random.one_in(4));
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    /// Now and then, lets time pass, or lets the process give back what it holds.
    async fn rest(&self) {
        let steady = if self.shape == Shape::Mixed { 4 } else { 60 };
        if self.stack.is_by_the_stores_clock() {
            if let Some((idle, every)) = self.idle
                && self.random.one_in(every)
            {
                tokio::time::sleep(idle).await;
            }
        } else if self.random.one_in(steady) {
            self.time.pass(self.random.below(250_000));
        }
    }
}
