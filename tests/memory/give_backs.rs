//! Every order of the answers of a store that gives something back, behind a cache of denials.
//!
//! The store decides the buckets of a batch one after the other, as a cluster does. It charges the first one, the second
//! one denies, and it refunds the first one. Meanwhile it denies another request.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{FutureExt, future::poll_fn, task::noop_waker};
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend, Transaction,
    backend::{Backend, BackendError, DenyCache, async_trait},
    clock::Timestamp,
    decision::Outcome,
    quota::Per,
    transaction::{Batch, Operation},
};

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A caller asks for something that gives back.
    GiverAsks,
    /// The store charges the first bucket for it.
    Charge,
    /// The store gives that back.
    GiveBack,
    GiverIsAnswered,
    /// The store answers with an error, and gives back all the same.
    GiverFails,
    /// The caller leaves, and the store gives back all the same.
    GiverLeaves,
    OtherAsks,
    OtherIsDecided,
    OtherIsAnswered,
}

use Event::*;

const OTHER: [Event; 3] = [OtherAsks, OtherIsDecided, OtherIsAnswered];

/// What gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Giver {
    /// A batch over two slots that the second one denies.
    Batch,
    Refund,
    Reset,
}

impl Giver {
    fn events(self) -> &'static [Event] {
        match self {
            Self::Batch => &[GiverAsks, Charge, GiveBack],
            Self::Refund | Self::Reset => &[GiverAsks, GiveBack],
        }
    }

    fn is(self, batch: &Batch<'_>) -> bool {
        match self {
            Self::Batch => batch.members.len() == 2,
            Self::Refund => batch.operation == Operation::Refund,
            Self::Reset => batch.operation == Operation::Reset,
        }
    }
}

#[derive(Clone, Debug)]
struct Store(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    memory: MemoryBackend,
    giver: Giver,
    /// Whether the giver is answered by an error, once it is answered.
    answer: Mutex<Option<Result<(), ()>>>,
    /// The steps that the other request may make.
    steps: AtomicUsize,
}

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

impl Store {
    async fn step(&self) {
        let take = |steps: usize| steps.checked_sub(1);
        poll_fn(|_| {
            let order = Ordering::SeqCst;
            match self.0.steps.fetch_update(order, order, take) {
                Ok(_) => Poll::Ready(()),
                Err(_) => Poll::Pending,
            }
        })
        .await;
    }

    async fn answer(&self) -> Result<(), ()> {
        poll_fn(|_| match self.0.answer.lock().unwrap().take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }
}

#[async_trait]
impl Backend for Store {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let memory = &self.0.memory;
        if !self.0.giver.is(batch) {
            self.step().await;
            let outcome = memory.apply(&batch.at(Some(NOW))).await;
            self.step().await;
            return outcome;
        }
        if self.answer().await.is_err() {
            return Err(BackendError::unavailable("late"));
        }
        // The test has made the change already.
        let look = match batch.operation {
            Operation::Spend => Operation::Check,
            _ => Operation::Refund,
        };
        memory
            .apply(&Batch::new(look, batch.members).at(Some(NOW)))
            .await
    }
}

/// All ways to merge sequences of events, as far as `may_follow` allows.
fn merge(
    before: &mut Vec<Event>,
    rest: &mut [&[Event]],
    may_follow: &impl Fn(&[Event], Event) -> bool,
    each: &mut impl FnMut(&[Event]),
) {
    if rest.iter().all(|events| events.is_empty()) {
        return each(before);
    }
    for i in 0..rest.len() {
        let all = rest[i];
        if let [next, others @ ..] = all
            && may_follow(before, *next)
        {
            rest[i] = others;
            before.push(*next);
            merge(before, rest, may_follow, each);
            before.pop();
            rest[i] = all;
        }
    }
}

fn may_follow(before: &[Event], next: Event) -> bool {
    match next {
        GiverIsAnswered => before.contains(&GiveBack),
        GiverFails | GiverLeaves => before.contains(&GiverAsks),
        _ => true,
    }
}

type Call<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

fn poll(call: &mut Option<Call<'_>>) {
    let waker = noop_waker();
    if let Some(pending) = call
        && pending
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_ready()
    {
        *call = None;
    }
}

fn limits(limit: &Limit) -> Limits {
    let limits = Limits::builder().limit("first", limit.clone());
    let limits = limits.limit("second", limit.clone());
    limits.build().unwrap()
}

/// The store without the cache, as its own process changes it.
#[derive(Debug)]
struct Direct(Arc<Shared>);

#[async_trait]
impl Backend for Direct {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        self.0.memory.apply(&batch.at(Some(NOW))).await
    }
}

fn transactions() -> [Transaction<'static>; 2] {
    ["first", "second"].map(|limit| Transaction::new(limit, "alice"))
}

/// One order of events.
struct Play<'a> {
    giver: Giver,
    shared: Arc<Shared>,
    direct: &'a Limiter,
    cached: &'a Limiter,
    batch: &'a [Transaction<'static>; 2],
    is_charged: bool,
    giving: Option<Call<'a>>,
    asking: Option<Call<'a>>,
}

impl Play<'_> {
    fn spend(&self, one: &Transaction<'_>) -> bool {
        let spent = self.direct.spend(one).now_or_never().unwrap();
        spent.unwrap().allowed()
    }

    fn go_on(&mut self, event: Event) {
        let (cached, [first, _]) = (self.cached, self.batch);
        match event {
            GiverAsks => {
                self.giving = Some(match self.giver {
                    Giver::Batch => Box::pin(cached.spend_batch(self.batch).map(drop)),
                    Giver::Refund => Box::pin(cached.refund(first).map(drop)),
                    Giver::Reset => Box::pin(cached.reset(&self.batch[..1]).map(drop)),
                });
                poll(&mut self.giving);
            }
            Charge => self.is_charged = self.spend(first),
            GiveBack if self.is_charged => {
                self.direct.refund(first).now_or_never().unwrap().unwrap();
            }
            GiverIsAnswered | GiverFails => {
                let answer = if event == GiverFails { Err(()) } else { Ok(()) };
                *self.shared.answer.lock().unwrap() = Some(answer);
                poll(&mut self.giving);
                assert!(self.giving.is_none());
            }
            GiverLeaves => self.giving = None,
            OtherAsks => {
                self.asking = Some(Box::pin(cached.spend(first).map(drop)));
                poll(&mut self.asking);
            }
            OtherIsDecided | OtherIsAnswered if self.asking.is_some() => {
                self.shared.steps.fetch_add(1, Ordering::SeqCst);
                poll(&mut self.asking);
            }
            // The cache has denied it, or there is nothing to give back.
            GiveBack | OtherIsDecided | OtherIsAnswered => {}
        }
    }
}

/// Returns whether the cache denies a request that the store would allow.
fn is_denied_wrongly(giver: Giver, limit: &Limit, events: &[Event]) -> bool {
    let shared = Arc::new(Shared {
        memory: MemoryBackend::new(),
        giver,
        answer: Mutex::default(),
        steps: AtomicUsize::new(0),
    });
    let direct = Limiter::new(limits(limit), Direct(Arc::clone(&shared)));
    let cached = DenyCache::new(Store(Arc::clone(&shared)));
    let cached = Limiter::new(limits(limit), cached);
    let batch @ [first, second] = transactions();
    let mut play = Play {
        giver,
        shared,
        direct: &direct,
        cached: &cached,
        batch: &batch,
        is_charged: false,
        giving: None,
        asking: None,
    };
    assert!(play.spend(&second));
    play.is_charged = giver != Giver::Batch && play.spend(&first);
    for event in events {
        play.go_on(*event);
    }
    let is_free = direct
        .check(&first)
        .now_or_never()
        .unwrap()
        .unwrap()
        .allowed();
    let known = cached.try_spend(&first);
    is_free && known.is_some_and(|denied| !denied.unwrap().allowed())
}

#[test]
fn no_denial_from_before_a_give_back_outlives_it_in_any_order_of_events() {
    let window = Duration::from_secs(3600);
    let mut orders = 0;
    for limit in [
        Limit::per_hour(1),
        Limit::window(1, window),
        Limit::quota(1, Per::first_use(window)),
    ] {
        for giver in [Giver::Batch, Giver::Refund, Giver::Reset] {
            for end in [GiverIsAnswered, GiverFails, GiverLeaves] {
                let mut rest = [giver.events(), &[end], &OTHER];
                merge(&mut Vec::new(), &mut rest, &may_follow, &mut |events| {
                    orders += 1;
                    assert!(
                        !is_denied_wrongly(giver, &limit, events),
                        "{giver:?} of {limit:?}: {events:?}"
                    );
                });
            }
        }
    }
    assert!(orders > 800, "{orders}");
}
