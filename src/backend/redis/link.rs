//! A link to one server. One task connects, collects calls, sends them, hands out the answers, and reconnects.
//!
//! | from | event | to |
//! |---|---|---|
//! | connecting for the first time | | calls wait in the channel |
//! | | the server has run the script | connected: calls are sent |
//! | | it cannot be reached | failed: calls fail at once, and the task tries again after 100 ms |
//! | connected | the connection ends, the server is silent, or it is a replica | failed: the calls in flight fail, and may be charged |
//!
//! Calls share a command if their keys are in one slot and their clocks show the same time. When a call comes in, the task first
//! yields to other callers that are ready. Then it sends the collected calls if nothing is in flight. While a command is in flight,
//! it only sends large groups, and keeps the rest until all commands are answered. So server and client work at the same time, and no
//! call waits for a timer.
//!
//! Each call is sent once. It is sent again only if the server says that it has done nothing, either because it does not have the
//! script, or because it refuses a shared command for one of its keys. After such a refusal, each call is sent alone. A call whose
//! caller has left is not sent. A call that was sent is charged, even if its caller leaves.

use std::{
    iter::{self, zip},
    mem,
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot, watch},
    task,
    time::{self, Instant},
};

use super::{
    address::Target,
    connection::{Connection, SCRIPT, SHA},
    error::{CommandFailure, Failure, RedisError},
    protocol::{self, Call, Reply},
    resp::RedisValue,
    server_set::{ServerAddress, ServerSet},
    waiting::{LARGE, MOST_TOGETHER, WaitingCall, answer_all, together, weight},
    wire::ConnectionTask,
};
use crate::{backend::breaker::Breaker, random};

/// The most calls that wait in the channel of a link, and the most that it has collected.
const MOST_WAITING: usize = 4096;

/// The most commands in flight. It bounds the calls that are lost with a silent server.
const MOST_IN_FLIGHT: usize = 32;

/// The longest time for which the task yields to callers. Callers that are ready need a fraction of it.
const LONGEST_GATHERING: Duration = Duration::from_micros(500);

/// If a server answers nothing for this long after a call has timed out, its connection counts as lost.
const SILENCE: Duration = Duration::from_secs(2);

/// The least time between the starts of two attempts to connect. Up to half of it is added at random, so that a fleet does
/// not reconnect all at once.
pub(super) const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// A client of one server. Its task ends when this is dropped.
pub(super) struct Link {
    pub(super) server: ServerAddress,
    inbox: mpsc::Sender<WaitingCall>,
    status: watch::Receiver<ConnectionStatus>,
    breaker: Breaker,
}

enum ConnectionStatus {
    Connecting,
    Connected(Connection),
    Failed(RedisError),
}

impl Link {
    /// Starts to connect, in a runtime. `on_loss` is called each time that a connection has ended or could not be made.
    pub(super) fn new(
        target: Target,
        runtime: &Handle,
        on_loss: impl Fn() + Send + 'static,
    ) -> Self {
        let (sender, inbox) = mpsc::channel(MOST_WAITING);
        let (status, receiver) = watch::channel(ConnectionStatus::Connecting);
        let breaker = Breaker::default();
        let link = Self {
            server: target.servers.all()[0].clone(),
            inbox: sender,
            status: receiver,
            breaker: breaker.clone(),
        };
        let link_task = LinkTask {
            target,
            status,
            breaker,
            on_loss: Box::new(on_loss),
            inbox,
            queue: Vec::new(),
            scanned: 0,
            commands: FuturesUnordered::new(),
            lost_at: None,
        };
        runtime.spawn(link_task.run());
        link
    }

    /// Decides a call. It is in the queue of the link after the first poll, so a caller that is not polled does not delay others.
    pub(super) async fn run(
        &self,
        slot: u16,
        call: Call,
        asking: bool,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let attempt = self.breaker.attempt();
        let attempt = attempt.ok_or(RedisError::CircuitOpen)?;
        if let Some(problem) = self.problem() {
            attempt.failed();
            return Err(problem.into());
        }
        let call = Arc::new(call);
        let (reply, answer) = oneshot::channel();
        let waiting = WaitingCall {
            call: Arc::clone(&call),
            slot,
            asking,
            is_overtaken: false,
            deadline,
            attempt,
            reply,
        };
        // A queue longer than the deadlines of its callers is useless.
        self.inbox.try_send(waiting).map_err(|_| RedisError::Busy)?;
        // The answer's sender is dropped if the connection or its runtime has ended.
        Err(Failure::Unknown(
            match time::timeout_at(deadline, answer).await {
                Ok(Ok(answer)) => return answer,
                Ok(Err(_)) => {
                    (self.problem()).unwrap_or_else(|| RedisError::ended("it was closed"))
                }
                Err(_) => RedisError::Timeout,
            },
        ))
    }

    /// Waits until the server is connected, or returns a permanent error.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        let mut status = self.status.clone();
        let settled = status.wait_for(|status| match status {
            ConnectionStatus::Connecting => false,
            ConnectionStatus::Connected(_) => true,
            ConnectionStatus::Failed(error) => error.is_permanent(),
        });
        match settled.await.as_deref() {
            Ok(ConnectionStatus::Failed(error)) => Err(error.clone()),
            Ok(_) => Ok(()),
            Err(_) => Err(RedisError::ended("its runtime has ended")),
        }
    }

    /// Returns the reason why there is no connection, if it is known.
    pub(super) fn problem(&self) -> Option<RedisError> {
        match &*self.status.borrow() {
            ConnectionStatus::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.breaker.is_open()
    }

    /// Returns the connection.
    pub(super) fn connection(&self) -> Result<Connection, RedisError> {
        match &*self.status.borrow() {
            ConnectionStatus::Connected(connection) => Ok(connection.clone()),
            ConnectionStatus::Failed(error) => Err(error.clone()),
            ConnectionStatus::Connecting => Err(RedisError::Timeout),
        }
    }
}

/// The calls of one command, and the answer to it.
type AnsweredCommand = (Vec<WaitingCall>, Result<RedisValue, CommandFailure>);

/// The task of a link.
struct LinkTask {
    target: Target,
    status: watch::Sender<ConnectionStatus>,
    breaker: Breaker,
    on_loss: Box<dyn Fn() + Send>,
    inbox: mpsc::Receiver<WaitingCall>,
    /// The calls that have come in. Those before `scanned` do not form a large group.
    queue: Vec<WaitingCall>,
    scanned: usize,
    commands: FuturesUnordered<BoxFuture<'static, AnsweredCommand>>,
    /// When the server counts as lost, unless it answers.
    lost_at: Option<Instant>,
}

impl LinkTask {
    /// Serves the link until that is dropped.
    async fn run(mut self) {
        while !self.inbox.is_closed() {
            let pause = RECONNECT_DELAY + Duration::from_micros(random::number() % 50_000);
            let next = Instant::now() + pause;
            let error = match Connection::open(&self.target).await {
                Ok((connection, connection_task)) => {
                    self.breaker.close();
                    let status = ConnectionStatus::Connected(connection.clone());
                    self.status.send_replace(status);
                    match self.serve(&connection, connection_task).await {
                        Some(error) => error,
                        None => return,
                    }
                }
                Err(error) => error,
            };
            tracing::debug!(%error, "a connection to Redis has ended, or could not be made");
            self.fail(&error);
            if let ServerSet::Sentinels { sentinels, .. } = &mut self.target.servers {
                sentinels.rotate_left(1);
            }
            time::sleep_until(next).await;
        }
    }

    /// Sends calls and hands out answers until the connection is lost. Returns the reason, or nothing if the link is dropped.
    async fn serve(
        &mut self,
        connection: &Connection,
        mut connection_task: ConnectionTask,
    ) -> Option<RedisError> {
        loop {
            let lost_at = self.lost_at;
            let room = MOST_WAITING - self.queue.len();
            tokio::select! {
                // An answer that has arrived counts, even if the connection has ended since.
                biased;
                Some((calls, reply)) = self.commands.next() => {
                    if let Some(error) = self.handle_reply(connection, calls, reply) {
                        return Some(error);
                    }
                }
                count = self.inbox.recv_many(&mut self.queue, room), if room > 0 => {
                    if count == 0 {
                        return None;
                    }
                }
                reason = connection_task.ended() => {
                    return Some(RedisError::ended(&reason));
                }
                () = time::sleep_until(lost_at.unwrap_or_else(Instant::now)), if lost_at.is_some() => {
                    return Some(RedisError::ended("the server has answered nothing for two seconds"));
                }
            }
            self.gather().await;
            self.send_ready(connection);
        }
    }

    /// Yields to callers that are ready, so that their calls share a command. It does not take long, because no answers are handed
    /// out meanwhile, which would make more callers ready.
    async fn gather(&mut self) {
        let since = Instant::now();
        let mut count = 1;
        while count > 0 && self.queue.len() < MOST_TOGETHER && since.elapsed() < LONGEST_GATHERING {
            task::yield_now().await;
            let calls = self.inbox.recv_many(&mut self.queue, MOST_TOGETHER);
            count = calls.now_or_never().unwrap_or(0);
        }
    }

    /// Sends all collected calls if nothing is in flight. Otherwise, it only sends large groups, and groups with calls that a large
    /// group has overtaken before.
    fn send_ready(&mut self, connection: &Connection) {
        let is_idle = self.commands.is_empty();
        let is_large = weight(&self.queue[self.scanned..]) >= LARGE;
        if is_idle || is_large && self.commands.len() < MOST_IN_FLIGHT {
            for mut calls in together(mem::take(&mut self.queue)) {
                let is_overtaken = calls.iter().any(|call| call.is_overtaken);
                if is_idle || is_overtaken || weight(&calls) >= LARGE {
                    self.send(connection, calls, false);
                } else {
                    calls.iter_mut().for_each(|call| call.is_overtaken = true);
                    self.queue.extend(calls);
                }
            }
            self.scanned = self.queue.len();
        }
    }

    fn send(&self, connection: &Connection, calls: Vec<WaitingCall>, has_script: bool) {
        let now = Instant::now();
        let deadline = calls.iter().map(|call| call.deadline).max().unwrap_or(now);
        let (command, script) = if has_script {
            ("EVAL", SCRIPT)
        } else {
            ("EVALSHA", SHA.as_str())
        };
        let arguments = protocol::encode(script, calls.iter().map(|call| &*call.call));
        let asking = calls.iter().any(|call| call.asking);
        let reply = connection.send(command, &arguments, asking, deadline - now);
        self.commands
            .push(reply.map(|reply| (calls, reply)).boxed());
    }

    /// Hands out answers, or sends the calls again. Returns the reason if the connection has to be replaced.
    fn handle_reply(
        &mut self,
        connection: &Connection,
        calls: Vec<WaitingCall>,
        reply: Result<RedisValue, CommandFailure>,
    ) -> Option<RedisError> {
        let now = Instant::now();
        self.lost_at = match &reply {
            Err(CommandFailure::Timeout) => self.lost_at.or(Some(now + SILENCE)),
            _ => None,
        };
        let failure = match reply {
            Ok(reply) => match protocol::decode(&reply, calls.len()) {
                Some(replies) => {
                    let replica = replies
                        .iter()
                        .find_map(|reply| reply.as_ref().err()?.replica());
                    zip(calls, replies).for_each(|(call, reply)| call.answer(reply, now));
                    return replica;
                }
                None => Failure::garbled(&reply),
            },
            Err(CommandFailure::Refused(reply)) if reply.starts_with("NOSCRIPT") => {
                self.send(connection, calls, true);
                return None;
            }
            Err(error) => Failure::from(error),
        };
        if calls.len() > 1 && failure.is_of_one_call() {
            for call in calls {
                self.send(connection, vec![call], false);
            }
            return None;
        }
        answer_all(calls, &failure);
        failure.replica()
    }

    /// Fails all calls, because there is no connection. Calls in flight may have been charged. They are dropped, and their callers
    /// read the reason from the status of the link.
    fn fail(&mut self, error: &RedisError) {
        let status = ConnectionStatus::Failed(error.clone());
        self.status.send_replace(status);
        self.commands.clear();
        let failure = Failure::NotDone(error.clone());
        answer_all(mem::take(&mut self.queue), &failure);
        answer_all(iter::from_fn(|| self.inbox.try_recv().ok()), &failure);
        self.lost_at = None;
        self.scanned = 0;
        (self.on_loss)();
    }
}
