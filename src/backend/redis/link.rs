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
//! script, because its clock has left the periods of a calendar, or because the keys of a shared command are not all there.
//! A call whose caller has left is not sent. Once it is, it is charged.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    pin::{Pin, pin},
    sync::Arc,
    time::{Duration, SystemTime},
};

use ahash::RandomState;
use fred::{
    error::{Error, ErrorKind},
    types::{
        Value,
        config::{Config, Server, ServerConfig},
    },
};
use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    time::{self, Instant},
};

use super::{
    connection::{Connection, Ending, PATIENCE},
    error::{Failure, RedisError},
    inspection::Inspection,
    protocol::{self, Call, Reply},
    script,
};
use crate::{
    backend::breaker::{Attempt, Breaker},
    clock::Timestamp,
    random,
};

/// The most calls that wait in the channel of a link, and the most that it has collected.
const MOST_WAITING: usize = 4096;

/// The most commands in flight for which a slot that has one in flight sends another. A silent server answers none of them.
const MOST_IN_FLIGHT: usize = 32;

/// The most calls that share a command. Twice as many would save little more, and block the server for twice as long.
const MOST_TOGETHER: usize = 128;

/// The largest weight of a shared command, in arguments.
const MOST_WEIGHT: usize = 2048;

/// A server that has answered nothing for so long, although a call has timed out, counts as lost.
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
    inspection: Arc<Inspection>,
    standing: watch::Sender<Standing>,
    breaker: Breaker,
}

#[derive(Clone)]
enum Standing {
    Connecting,
    Connected(Connection),
    Failed(RedisError),
}

/// A call that waits for its answer.
struct Waiting {
    call: Box<Call>,
    slot: u16,
    /// Whether the server is importing the slot.
    asking: bool,
    deadline: Instant,
    attempt: Attempt,
    /// Whether it has been sent again, by another clock.
    is_second: bool,
    reply: oneshot::Sender<Result<Reply, Failure>>,
}

impl Link {
    pub(super) fn new(config: Config, inspection: Arc<Inspection>) -> Self {
        Self {
            shared: Arc::new(Shared {
                config,
                inspection,
                standing: watch::Sender::new(Standing::Connecting),
                breaker: Breaker::default(),
            }),
            inbox: Mutex::new(None),
        }
    }

    /// Starts the task, unless it is running. Fails outside of a runtime.
    pub(super) fn begin(&self) -> Result<(), RedisError> {
        self.inbox().map(|_| ())
    }

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

    /// Decides a call. It is in the queue of the link when this returns, so a caller that is not polled delays nobody.
    pub(super) fn run(
        &self,
        slot: u16,
        call: Call,
        asking: bool,
        deadline: Instant,
    ) -> impl Future<Output = Result<Reply, Failure>> + Send + use<> {
        let posted = self.post(slot, call, asking, deadline);
        async move {
            match time::timeout_at(deadline, posted.map_err(Failure::NotDone)?).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(Failure::Unknown(RedisError::ended(
                    ErrorKind::Canceled,
                    "the runtime of the connection has ended",
                ))),
                Err(_) => Err(Failure::Unknown(RedisError::Timeout)),
            }
        }
    }

    fn post(
        &self,
        slot: u16,
        call: Call,
        asking: bool,
        deadline: Instant,
    ) -> Result<oneshot::Receiver<Result<Reply, Failure>>, RedisError> {
        call.validate()?;
        let inbox = self.inbox()?;
        let attempt = self
            .shared
            .breaker
            .attempt()
            .ok_or(RedisError::CircuitOpen)?;
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting {
            call: Box::new(call),
            slot,
            asking,
            deadline,
            attempt,
            is_second: false,
            reply,
        };
        // A queue longer than the deadlines of its callers is useless.
        inbox.try_send(waiting).map_err(|_| RedisError::Busy)?;
        Ok(answer)
    }

    /// Waits until the server is connected, or returns a permanent error.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        self.begin()?;
        let mut standing = self.shared.standing.subscribe();
        let settled = standing.wait_for(|standing| match standing {
            Standing::Connecting => false,
            Standing::Connected(..) => true,
            Standing::Failed(error) => error.is_permanent(),
        });
        match settled.await.as_deref() {
            Ok(Standing::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Returns whether the first attempt to connect has ended.
    pub(super) fn has_attempted(&self) -> bool {
        !matches!(*self.shared.standing.borrow(), Standing::Connecting)
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

    /// Sends a command that is no decision.
    pub(super) async fn query(
        &self,
        command: &'static str,
        argument: &'static str,
    ) -> Result<Value, RedisError> {
        let connection = match &*self.shared.standing.borrow() {
            Standing::Connected(connection) => connection.clone(),
            Standing::Failed(error) => return Err(error.clone()),
            Standing::Connecting => return Err(RedisError::Timeout),
        };
        let arguments = vec![Value::from_static_str(argument)];
        let reply = connection.send(command, arguments, false, PATIENCE);
        reply.await.map_err(RedisError::of)
    }

    /// Returns the server of this link.
    pub(super) fn server(&self) -> Server {
        self.shared.config.server.hosts().swap_remove(0)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_connected = matches!(*self.shared.standing.borrow(), Standing::Connected(..));
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
    flights: FuturesUnordered<Landing>,
    in_flight: HashMap<u64, Flight, RandomState>,
    next: u64,
    /// The server's time as it was last heard, and when that was.
    heard: (u64, Instant),
    /// When the first command was sent that is not answered.
    unanswered: Option<Instant>,
    /// When the server counts as lost, unless it answers.
    lost_at: Option<Instant>,
}

type Landing = Pin<Box<dyn Future<Output = (u64, Result<Value, Error>)> + Send>>;

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Waiting>,
    weight: usize,
    in_flight: usize,
}

/// Calls that travel together.
struct Flight {
    calls: Vec<Waiting>,
    /// Whether the script goes with them.
    has_script: bool,
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
            in_flight: HashMap::default(),
            next: 0,
            heard: (
                Timestamp::from(SystemTime::now()).as_micros(),
                Instant::now(),
            ),
            unanswered: None,
            lost_at: None,
        }
    }

    /// Serves the link until that is dropped.
    async fn run(mut self) {
        let mut next = Instant::now();
        while let Some(opened) = self.connect(next).await {
            next =
                Instant::now() + RECONNECT_DELAY + Duration::from_micros(random::number() % 50_000);
            let error = match opened {
                Ok((connection, ending)) => match self.serve(&connection, ending).await {
                    Some(error) => error,
                    None => return,
                },
                Err(error) => error,
            };
            tracing::debug!(%error, "a connection to Redis has ended, or could not be made");
            self.fail(&error);
            self.shared.standing.send_replace(Standing::Failed(error));
            if let ServerConfig::Sentinel { hosts, .. } = &mut self.config.server {
                hosts.rotate_left(1);
            }
        }
    }

    /// Connects. Before the first attempt has ended, calls wait in the channel. Later, they fail at once.
    async fn connect(&mut self, at: Instant) -> Option<Result<(Connection, Ending), RedisError>> {
        let (shared, config) = (Arc::clone(&self.shared), self.config.clone());
        let opened = async {
            time::sleep_until(at).await;
            open(&config, &shared.inspection).await
        };
        let mut opened = pin!(opened);
        loop {
            let problem = match &*self.shared.standing.borrow() {
                Standing::Failed(error) => Some(error.clone()),
                _ => None,
            };
            let opened = tokio::select! {
                opened = &mut opened => opened,
                call = self.inbox.recv(), if problem.is_some() => {
                    let problem = problem.unwrap_or(RedisError::Timeout);
                    call?.answer(Err(Failure::NotDone(problem)), Instant::now());
                    continue;
                }
            };
            return Some(opened.map(
                |Opened {
                     connection,
                     ending,
                     time,
                 }| {
                    self.heard = (time, Instant::now());
                    self.shared.breaker.close();
                    let standing = Standing::Connected(connection.clone());
                    self.shared.standing.send_replace(standing);
                    (connection, ending)
                },
            ));
        }
    }

    /// Sends calls and hands out answers until the connection is lost. Returns the reason, or nothing if the link is dropped.
    async fn serve(&mut self, connection: &Connection, mut ending: Ending) -> Option<RedisError> {
        loop {
            let lost_at = self.lost_at;
            tokio::select! {
                // An answer that is there counts, even if the connection has ended since.
                biased;
                Some((id, reply)) = self.flights.next() => {
                    if let Some(error) = self.land(connection, id, reply) {
                        return Some(error);
                    }
                }
                call = self.inbox.recv(), if self.collected < MOST_WAITING => {
                    self.collect(connection, Some(call?));
                }
                error = ending.ended() => {
                    return Some(RedisError::disconnected(error, &self.config.server));
                }
                () = time::sleep_until(lost_at.unwrap_or_else(Instant::now)), if lost_at.is_some() => {
                    return Some(RedisError::ended(ErrorKind::Timeout, "the server has answered nothing for two seconds"));
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
            lane.weight += call.call.weight();
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
            && (lane.in_flight == 0 || lane.is_full() && self.in_flight.len() < MOST_IN_FLIGHT)
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

    fn send(&mut self, connection: &Connection, mut calls: Vec<Waiting>, has_script: bool) {
        gather(&mut calls);
        let (slot, asking) = (calls[0].slot, calls[0].asking);
        self.lanes.entry(slot).or_default().in_flight += 1;
        let now = Instant::now();
        self.unanswered.get_or_insert(now);
        let deadline = calls.iter().map(|call| call.deadline).max().unwrap_or(now);
        let (time, at) = self.heard;
        let around = time + u64::try_from((now - at).as_micros()).unwrap_or_default();
        let (command, script) = match has_script {
            true => ("EVAL", script::TEXT),
            false => ("EVALSHA", script::SHA.as_str()),
        };
        let arguments: Vec<_> = calls.iter().map(|call| &*call.call).collect();
        let arguments = protocol::encode(script, &arguments, around);
        let reply = connection.send(command, arguments, asking, deadline - now);
        let id = self.next;
        self.next += 1;
        self.in_flight.insert(id, Flight { calls, has_script });
        self.flights
            .push(Box::pin(async move { (id, reply.await) }));
    }

    /// Hands out the answers to a command, and sends the next one. Returns the reason if the connection has to be replaced.
    fn land(
        &mut self,
        connection: &Connection,
        id: u64,
        reply: Result<Value, Error>,
    ) -> Option<RedisError> {
        let Flight { calls, has_script } = self.in_flight.remove(&id)?;
        let slot = calls[0].slot;
        if let Some(lane) = self.lanes.get_mut(&slot) {
            lane.in_flight -= 1;
        }
        let mut replica = None;
        match reply {
            Err(error) if *error.kind() == ErrorKind::Timeout => {
                self.lost_at = self.unanswered.map(|since| since + SILENCE);
                answer_all(calls, &Failure::from(error));
            }
            reply => {
                self.lost_at = None;
                self.unanswered = (!self.in_flight.is_empty()).then(Instant::now);
                replica = self.answer(connection, calls, has_script, reply);
            }
        }
        self.collect(connection, None);
        self.depart(connection, slot);
        replica
    }

    /// Hands out answers. Returns the error of a server that is a replica.
    fn answer(
        &mut self,
        connection: &Connection,
        calls: Vec<Waiting>,
        has_script: bool,
        reply: Result<Value, Error>,
    ) -> Option<RedisError> {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) if error.details().starts_with("NOSCRIPT") && !has_script => {
                self.send(connection, calls, true);
                return None;
            }
            Err(error) => {
                let failure = Failure::from(error);
                match failure.is_of_the_keys() && calls.len() > 1 {
                    true => calls
                        .into_iter()
                        .for_each(|call| self.send(connection, vec![call], has_script)),
                    false => answer_all(calls, &failure),
                }
                return failure.read_only();
            }
        };
        if let (Some(time), None) = (protocol::time(&reply), calls[0].call.now) {
            self.heard = (time, Instant::now());
        }
        let parts: Vec<_> = calls.iter().map(|call| &*call.call).collect();
        let answers = protocol::decode(&parts, &reply);
        let (mut replica, now) = (None, Instant::now());
        for (mut call, answer) in calls.into_iter().zip(answers) {
            match &answer {
                Err(Failure::Clock) if !call.is_second => {
                    call.is_second = true;
                    self.send(connection, vec![call], has_script);
                    continue;
                }
                Err(failure) => replica = replica.or(failure.read_only()),
                Ok(_) => {}
            }
            call.answer(answer, now);
        }
        replica
    }

    /// Fails all calls, because the connection is lost. Those in flight may be charged.
    fn fail(&mut self, error: &RedisError) {
        (self.unanswered, self.lost_at, self.collected) = (None, None, 0);
        self.flights.clear();
        for (_, flight) in self.in_flight.drain() {
            answer_all(flight.calls, &Failure::Unknown(error.clone()));
        }
        for (_, lane) in self.lanes.drain() {
            answer_all(lane.waiting, &Failure::NotDone(error.clone()));
        }
    }
}

impl Lane {
    fn is_full(&self) -> bool {
        self.waiting.len() >= MOST_TOGETHER || self.weight >= MOST_WEIGHT
    }

    /// Takes calls that can travel together, from the first on. Those whose callers have left, or whose time is over, are not
    /// sent.
    fn take(&mut self) -> Vec<Waiting> {
        let (mut calls, mut weight, now) = (Vec::<Waiting>::new(), 0, Instant::now());
        while let Some(next) = self.waiting.front() {
            let heavier = weight + next.call.weight();
            let joins = calls.first().is_none_or(|first| {
                let is_alike = first.call.now == next.call.now && !first.asking && !next.asking;
                is_alike && calls.len() < MOST_TOGETHER && heavier <= MOST_WEIGHT
            });
            if !joins {
                break;
            }
            let Some(next) = self.waiting.pop_front() else {
                break;
            };
            self.weight -= heavier - weight;
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

/// Puts calls about one bucket next to each other, because the script decides equal ones in less time. Calls about one bucket
/// stay in their order, and others do not depend on each other, unless one is about several buckets.
fn gather(calls: &mut [Waiting]) {
    let mut places = HashMap::<_, _, RandomState>::default();
    for (place, call) in calls.iter().enumerate() {
        match call.call.bucket {
            Some(bucket) => places.entry(bucket).or_insert(place),
            None => return,
        };
    }
    if places.len() < calls.len() {
        calls
            .sort_by_cached_key(|call| call.call.bucket.map(|bucket| places.get(&bucket).copied()));
    }
}

fn answer_all(calls: impl IntoIterator<Item = Waiting>, failure: &Failure) {
    let now = Instant::now();
    for call in calls {
        call.answer(Err(failure.clone()), now);
    }
}

/// A connection on which the script has run.
struct Opened {
    connection: Connection,
    ending: Ending,
    /// The server's time.
    time: u64,
}

/// Connects, loads the script and runs it without a batch. That shows whether the user may do so, and the server's time.
async fn open(config: &Config, inspection: &Inspection) -> Result<Opened, RedisError> {
    let (connection, ending) = Connection::open(config).await?;
    let send = |command, arguments| connection.send(command, arguments, false, PATIENCE);
    let load = ["LOAD", script::TEXT].map(Value::from_static_str);
    if let Err(error) = send("SCRIPT", load.to_vec()).await {
        // A proxy or the user's permissions can forbid it. Then, calls are sent with the script.
        tracing::debug!(%error, "the script could not be loaded into Redis");
    }
    let before = Timestamp::from(SystemTime::now());
    let mut run = send("EVALSHA", protocol::encode(&script::SHA, &[], 0)).await;
    if run
        .as_ref()
        .is_err_and(|error| error.details().starts_with("NOSCRIPT"))
    {
        run = send("EVAL", protocol::encode(script::TEXT, &[], 0)).await;
    }
    let run = run.map_err(|error| RedisError::disconnected(error, &config.server))?;
    let time = protocol::time(&run).ok_or_else(|| RedisError::Garbled(format!("{run:?}")))?;
    inspection.look(&connection, before, time).await;
    Ok(Opened {
        connection,
        ending,
        time,
    })
}
