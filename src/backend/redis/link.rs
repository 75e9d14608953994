//! A link to one server. One task connects, collects calls, sends them, hands out the answers, and reconnects.
//!
//! | from | event | to |
//! |---|---|---|
//! | connecting for the first time | | calls wait in the channel |
//! | | the server has run the script | connected: calls are sent |
//! | | it cannot be reached | failed: calls fail at once, and the task tries again after 100 ms |
//! | connected | the connection ends, the server is silent, or it is a replica | failed: the calls in flight fail, and may be charged |
//! | any | the runtime of the task ends | the next call starts a task in its own runtime |
//!
//! Calls share a command if their keys are in one slot and their clocks show the same time. A slot of which nothing is in
//! flight sends what has come in, at once. While something is in flight, calls are collected; they leave when it has returned,
//! or as soon as they fill a command, which nothing could join any more. So nothing waits for a timer.
//!
//! Each call is sent once. It is sent again only if the server says that it has done nothing: because it does not have the
//! script, or because a call in a shared command cannot be decided. Then, each of them is sent alone. A call whose caller has
//! left is not sent. Once it is, it is charged.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    iter::zip,
    sync::Arc,
    time::Duration,
};

use ahash::RandomState;
use fred::{
    error::{Error, ErrorKind},
    types::{
        Value,
        cluster::ClusterRouting,
        config::{Config, Server, ServerConfig},
    },
};
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    time::{self, Instant},
};

use super::{
    connection::{Connection, Ending, PATIENCE},
    error::{Failure, RedisError},
    protocol::{self, Call, Reply},
    script,
};
use crate::{
    backend::breaker::{Attempt, Breaker},
    random,
};

/// The most calls that wait in the channel of a link, and the most that it has collected.
const MOST_WAITING: usize = 4096;

/// The most commands in flight for which a slot that has one in flight sends another. A silent server answers none of them.
const MOST_IN_FLIGHT: usize = 32;

/// The most buckets in a shared command. Twice as many would save little more, and block the server for twice as long.
const MOST_TOGETHER: usize = 128;

/// A server that has answered nothing for so long after a call has timed out counts as lost.
const SILENCE: Duration = Duration::from_secs(2);

/// The least time between the starts of two attempts to connect. Up to half of it is added at random, so that a fleet does
/// not reconnect all at once.
pub(super) const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// A client of one server.
pub(super) struct Link {
    shared: Arc<Shared>,
    /// The channel of the task, unless it has not begun.
    inbox: Mutex<Option<mpsc::Sender<Waiting>>>,
}

/// What a link shares with its task.
struct Shared {
    config: Config,
    standing: watch::Sender<Standing>,
    breaker: Breaker,
}

enum Standing {
    Connecting,
    Connected(Connection),
    Failed(RedisError),
}

/// A call that waits for its answer.
struct Waiting {
    call: Arc<Call>,
    slot: u16,
    /// Whether the server is importing the slot.
    asking: bool,
    deadline: Instant,
    attempt: Attempt,
    reply: oneshot::Sender<Result<Reply, Failure>>,
}

impl Link {
    pub(super) fn new(config: Config) -> Self {
        Self {
            shared: Arc::new(Shared {
                config,
                standing: watch::Sender::new(Standing::Connecting),
                breaker: Breaker::default(),
            }),
            inbox: Mutex::new(None),
        }
    }

    /// Starts to connect. Fails outside of a runtime.
    pub(super) fn begin(&self) -> Result<(), RedisError> {
        self.inbox().map(|_| ())
    }

    /// Returns the channel of the task, which is started unless it is running.
    fn inbox(&self) -> Result<mpsc::Sender<Waiting>, RedisError> {
        let mut inbox = self.inbox.lock();
        if let Some(sender) = inbox.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let runtime = Handle::try_current().map_err(|_| RedisError::no_runtime())?;
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        self.shared.standing.send_replace(Standing::Connecting);
        runtime.spawn(Desk::new(Arc::clone(&self.shared), receiver).run());
        *inbox = Some(sender.clone());
        Ok(sender)
    }

    /// Decides a call. It is in the queue of the link after the first poll, so a caller that is not polled delays nobody.
    pub(super) async fn run(
        &self,
        slot: u16,
        call: Arc<Call>,
        asking: bool,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let inbox = self.inbox().map_err(Failure::NotDone)?;
        let attempt = self.shared.breaker.attempt();
        let attempt = attempt.ok_or(Failure::NotDone(RedisError::CircuitOpen))?;
        if let Some(problem) = self.problem() {
            attempt.failed();
            return Err(Failure::NotDone(problem));
        }
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting {
            call,
            slot,
            asking,
            deadline,
            attempt,
            reply,
        };
        // A queue longer than the deadlines of its callers is useless.
        inbox
            .try_send(waiting)
            .map_err(|_| Failure::NotDone(RedisError::Busy))?;
        // A call is dropped without an answer if its connection or its runtime has ended.
        let ended = || self.problem().unwrap_or_else(RedisError::ended);
        match time::timeout_at(deadline, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(Failure::Unknown(ended()))),
            Err(_) => Err(Failure::Unknown(RedisError::Timeout)),
        }
    }

    /// Starts to connect, and waits until the server is connected, or returns a permanent error.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        self.begin()?;
        let mut standing = self.shared.standing.subscribe();
        let settled = standing.wait_for(|standing| match standing {
            Standing::Connecting => false,
            Standing::Connected(_) => true,
            Standing::Failed(error) => error.is_permanent(),
        });
        match settled.await.as_deref() {
            Ok(Standing::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Returns the reason why there is no connection, if it is known.
    pub(super) fn problem(&self) -> Option<RedisError> {
        match &*self.shared.standing.borrow() {
            Standing::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.shared.breaker.is_open()
    }

    /// Asks the server for the table of slots. If there is no connection yet, starts to connect.
    pub(super) async fn routing(&self) -> Result<ClusterRouting, RedisError> {
        self.begin()?;
        let connection = match &*self.shared.standing.borrow() {
            Standing::Connected(connection) => connection.clone(),
            Standing::Failed(error) => return Err(error.clone()),
            Standing::Connecting => return Err(RedisError::Timeout),
        };
        let slots = vec![Value::from_static_str("SLOTS")];
        let slots = connection.send("CLUSTER", slots, false, PATIENCE).await;
        slots
            .and_then(|slots| ClusterRouting::from_cluster_slots(slots, self.server().host))
            .map_err(|error| RedisError::of(&error))
    }

    /// Returns the server of this link.
    pub(super) fn server(&self) -> Server {
        self.shared.config.server.hosts().swap_remove(0)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_connected = matches!(*self.shared.standing.borrow(), Standing::Connected(_));
        f.debug_struct("Link")
            .field("servers", &self.shared.config.server.hosts())
            .field("connected", &is_connected)
            .finish()
    }
}

impl Waiting {
    /// Hands out the answer. One that comes after the deadline is a failure, even if the caller has left.
    fn answer(self, answer: Result<Reply, Failure>, now: Instant) {
        let is_answer = answer.as_ref().map_or_else(Failure::is_answer, |_| true);
        match is_answer && now < self.deadline {
            true => self.attempt.succeeded(),
            false => self.attempt.failed(),
        }
        let _caller_has_left = self.reply.send(answer);
    }
}

/// The task of a link.
struct Desk {
    shared: Arc<Shared>,
    config: Config,
    inbox: mpsc::Receiver<Waiting>,
    /// By slot, the calls that have come in, as long as there are any or something is in flight.
    lanes: HashMap<u16, Lane, RandomState>,
    /// The number of calls in all lanes.
    collected: usize,
    flights: FuturesUnordered<BoxFuture<'static, Flight>>,
    /// When the server counts as lost, unless it answers.
    lost_at: Option<Instant>,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Waiting>,
    weight: usize,
    in_flight: usize,
}

/// Calls that have travelled together.
struct Flight {
    calls: Vec<Waiting>,
    /// Whether the script went with them.
    has_script: bool,
    reply: Result<Value, Error>,
}

impl Desk {
    fn new(shared: Arc<Shared>, inbox: mpsc::Receiver<Waiting>) -> Self {
        Self {
            config: shared.config.clone(),
            shared,
            inbox,
            lanes: HashMap::default(),
            collected: 0,
            flights: FuturesUnordered::new(),
            lost_at: None,
        }
    }

    /// Serves the link until that is dropped.
    async fn run(mut self) {
        while !self.inbox.is_closed() {
            let pause = RECONNECT_DELAY + Duration::from_micros(random::number() % 50_000);
            let next = Instant::now() + pause;
            let error = match Connection::open(&self.config).await {
                Ok((connection, ending)) => {
                    self.shared.breaker.close();
                    let standing = Standing::Connected(connection.clone());
                    self.shared.standing.send_replace(standing);
                    match self.serve(&connection, ending).await {
                        Some(error) => error,
                        None => return,
                    }
                }
                Err(error) => error,
            };
            tracing::debug!(%error, "a connection to Redis has ended, or could not be made");
            self.fail(&error);
            if let ServerConfig::Sentinel { hosts, .. } = &mut self.config.server {
                hosts.rotate_left(1);
            }
            time::sleep_until(next).await;
        }
    }

    /// Sends calls and hands out answers until the connection is lost. Returns the reason, or nothing if the link is dropped.
    async fn serve(&mut self, connection: &Connection, mut ending: Ending) -> Option<RedisError> {
        loop {
            let lost_at = self.lost_at;
            tokio::select! {
                // An answer that is there counts, even if the connection has ended since.
                biased;
                Some(flight) = self.flights.next() => {
                    if let Some(error) = self.land(connection, flight) {
                        return Some(error);
                    }
                }
                call = self.inbox.recv(), if self.collected < MOST_WAITING => {
                    self.collect(connection, Some(call?));
                }
                error = ending.ended() => {
                    return Some(RedisError::disconnected(&error, &self.config.server));
                }
                () = time::sleep_until(lost_at.unwrap_or_else(Instant::now)), if lost_at.is_some() => {
                    let silence = "the server has answered nothing for two seconds";
                    return Some(RedisError::Disconnected(silence.to_owned()));
                }
            }
        }
    }

    /// Takes a call, and all others that are in the channel, to their lanes, from which they leave if they can.
    fn collect(&mut self, connection: &Connection, first: Option<Waiting>) {
        let mut slots = Vec::new();
        let mut next = first.or_else(|| self.inbox.try_recv().ok());
        while let Some(call) = next.take() {
            slots.push(call.slot);
            let lane = self.lanes.entry(call.slot).or_default();
            lane.weight += call.call.weight;
            lane.waiting.push_back(call);
            self.collected += 1;
            if self.collected < MOST_WAITING {
                next = self.inbox.try_recv().ok();
            }
        }
        slots.dedup();
        for slot in slots {
            self.depart(connection, slot);
        }
    }

    /// Sends what has been collected for a slot, if nothing is in flight there or nothing more could join.
    fn depart(&mut self, connection: &Connection, slot: u16) {
        while let Some(lane) = self.lanes.get_mut(&slot)
            && (lane.in_flight == 0
                || lane.weight >= MOST_TOGETHER && self.flights.len() < MOST_IN_FLIGHT)
        {
            if lane.waiting.is_empty() {
                self.lanes.remove(&slot);
                return;
            }
            let before = lane.waiting.len();
            let calls = lane.take();
            self.collected -= before - lane.waiting.len();
            if !calls.is_empty() {
                self.send(connection, calls, false);
            }
        }
    }

    fn send(&mut self, connection: &Connection, calls: Vec<Waiting>, has_script: bool) {
        let (slot, asking) = (calls[0].slot, calls[0].asking);
        self.lanes.entry(slot).or_default().in_flight += 1;
        let now = Instant::now();
        let deadline = calls.iter().map(|call| call.deadline).max().unwrap_or(now);
        let (command, script) = match has_script {
            true => ("EVAL", script::TEXT),
            false => ("EVALSHA", script::SHA.as_str()),
        };
        let parts: Vec<_> = calls.iter().map(|call| &*call.call).collect();
        let arguments = protocol::encode(script, &parts);
        let reply = connection.send(command, arguments, asking, deadline - now);
        let flight = reply.map(move |reply| Flight {
            calls,
            has_script,
            reply,
        });
        self.flights.push(flight.boxed());
    }

    /// Hands out the answers to a command, and sends the next one. Returns the reason if the connection has to be replaced.
    fn land(&mut self, connection: &Connection, flight: Flight) -> Option<RedisError> {
        let slot = flight.calls[0].slot;
        if let Some(lane) = self.lanes.get_mut(&slot) {
            lane.in_flight -= 1;
        }
        let replica = self.answer(connection, flight);
        self.collect(connection, None);
        self.depart(connection, slot);
        replica
    }

    /// Hands out answers, or sends the calls again. Returns the error of a server that is a replica.
    fn answer(&mut self, connection: &Connection, flight: Flight) -> Option<RedisError> {
        let Flight {
            calls,
            has_script,
            reply,
        } = flight;
        let now = Instant::now();
        match &reply {
            Err(error) if *error.kind() == ErrorKind::Timeout => {
                self.lost_at.get_or_insert(now + SILENCE);
            }
            _ => self.lost_at = None,
        }
        let failure = match reply {
            Ok(reply) => {
                let Some(replies) = protocol::decode(&reply, calls.len()) else {
                    answer_all(calls, &Failure::garbled(&reply));
                    return None;
                };
                zip(calls, replies).for_each(|(call, reply)| call.answer(Ok(reply), now));
                return None;
            }
            Err(error) if error.details().starts_with("NOSCRIPT") && !has_script => {
                self.send(connection, calls, true);
                return None;
            }
            Err(error) => Failure::from(error),
        };
        let replica = failure.read_only();
        if calls.len() > 1 && failure.is_of_one_call() {
            for call in calls {
                self.send(connection, vec![call], has_script);
            }
        } else {
            answer_all(calls, &failure);
        }
        replica
    }

    /// Fails all calls, because there is no connection. Those in flight may be charged: they are dropped, and their callers
    /// find the reason in the standing of the link.
    fn fail(&mut self, error: &RedisError) {
        let standing = Standing::Failed(error.clone());
        self.shared.standing.send_replace(standing);
        (self.lost_at, self.collected) = (None, 0);
        self.flights.clear();
        let collected = self.lanes.drain().flat_map(|(_, lane)| lane.waiting);
        answer_all(collected, &Failure::NotDone(error.clone()));
        while let Ok(call) = self.inbox.try_recv() {
            call.answer(Err(Failure::NotDone(error.clone())), Instant::now());
        }
    }
}

impl Lane {
    /// Takes calls that can travel together, from the first on. Those whose callers have left, or whose time is over, are not
    /// sent.
    fn take(&mut self) -> Vec<Waiting> {
        let (mut calls, mut weight, now) = (Vec::<Waiting>::new(), 0, Instant::now());
        while let Some(next) = self.waiting.pop_front() {
            let heavier = weight + next.call.weight;
            let joins = calls.first().is_none_or(|first| {
                let is_alike = first.call.now == next.call.now && !first.asking && !next.asking;
                is_alike && heavier <= MOST_TOGETHER
            });
            if !joins {
                self.waiting.push_front(next);
                break;
            }
            self.weight -= next.call.weight;
            if now >= next.deadline {
                next.answer(Err(Failure::NotDone(RedisError::Timeout)), now);
            } else if !next.reply.is_closed() {
                weight = heavier;
                calls.push(next);
            }
        }
        calls
    }
}

fn answer_all(calls: impl IntoIterator<Item = Waiting>, failure: &Failure) {
    let now = Instant::now();
    for call in calls {
        call.answer(Err(failure.clone()), now);
    }
}
