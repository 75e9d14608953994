//! A connection to one server, and calls with one attempt each.

use std::{fmt, mem::take, sync::Arc, time::Duration};

use fred::{
    clients::Client,
    interfaces::ClientLike,
    types::{
        FromValue, Value,
        cluster::ClusterRouting,
        config::{Config, Server},
    },
};
use tokio::sync::oneshot;

use super::{
    answer::ScriptAnswer,
    background::Background,
    call::ScriptCall,
    config::{INTERNAL_TIMEOUT, LinkSettings},
    connection::Connection,
    deadline::Deadline,
    error::{Failure, RedisError},
    group::{Answers, Group},
    lanes::{Generation, Lanes, Reply, WaitingCall},
    server_health::ServerHealth,
    upkeep::SupervisedConnection,
};
use crate::backend::slot::Slots;

/// The most calls that wait for one server.
const MOST_WAITING: usize = 8192;

/// A client of one server. The tasks that serve the link end when it is dropped.
pub(super) struct Link {
    line: Arc<SupervisedConnection>,
    /// The places of calls that wait.
    waiting: Slots,
    lanes: Lanes,
    upkeep: Background,
    health: ServerHealth,
}

impl Link {
    /// Creates a link with its own client. It connects in the background once it has [begun](Self::begin), and stays
    /// connected.
    pub(super) fn new(config: Config, settings: LinkSettings) -> Self {
        let line = Arc::new(SupervisedConnection::new(config, settings.ping_timeout));
        let kept_up = Arc::clone(&line);
        let keep_up = move || {
            kept_up.begin();
            Arc::clone(&kept_up).keep_up()
        };
        Self {
            upkeep: Background::new(keep_up),
            line,
            waiting: Slots::new(MOST_WAITING),
            lanes: Lanes::new(settings.together),
            health: ServerHealth::new(),
        }
    }

    /// Starts to serve the link, unless it is being served. Fails outside of a runtime.
    pub(super) fn begin(&self) -> Result<(), RedisError> {
        self.upkeep.ensure()
    }

    /// Starts to serve the link if there is a runtime. Otherwise, the first call starts it.
    pub(super) fn begin_if_possible(&self) {
        let _begins_later = self.begin();
    }

    pub(super) fn client(&self) -> Arc<Client> {
        Arc::clone(self.line.connection().client())
    }

    /// Returns the connection for a command, or the reason why a command would fail.
    fn open(&self) -> Result<Arc<Connection>, RedisError> {
        self.begin()?;
        let connection = self.line.connection();
        if let Some(error) = self.line.problem()
            // A replica keeps its connection open, but would refuse each write.
            && (error.is_read_only() || !connection.client().is_connected())
        {
            return Err(error);
        }
        match connection.problem() {
            Some(error) => Err(error),
            None => Ok(connection),
        }
    }

    /// Returns the record of the server's decisions.
    pub(super) fn health(&self) -> &ServerHealth {
        &self.health
    }

    /// Returns the reason why there is no connection, if it is known.
    pub(super) fn problem(&self) -> Option<RedisError> {
        self.line.problem()
    }

    /// Returns whether the first attempt to connect has ended.
    pub(super) fn has_attempted(&self) -> bool {
        self.line.has_attempted()
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client().is_connected()
    }

    /// Waits until the server is connected, or returns a permanent error.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        self.begin()?;
        self.line.connected().await
    }

    /// Decides one caller's call: immediately if its lane is free, otherwise together with the other waiting calls. A task
    /// sends it, so a caller that is not polled delays no other one.
    pub(super) fn run<'a>(
        self: &'a Arc<Self>,
        lane: u16,
        call: ScriptCall,
        deadline: Deadline,
    ) -> impl Future<Output = Result<ScriptAnswer, Failure>> + Send + 'a {
        // Not an `async fn`, whose future would have room for the call.
        let place = self.waiting.take();
        let started = match place {
            Some(_) => self.start(lane, call, deadline),
            // Refuse at once if too many calls wait: a queue longer than the deadlines of its callers is useless.
            None => Err(RedisError::Busy),
        };
        async move {
            let _place = place;
            // A caller that leaves here drops its receiver. If its group has not been sent yet, its call is left out.
            match deadline.limit(started?).await? {
                Ok(Reply::Answer(answer)) => answer,
                // Boxed, because this future is large, and rarely needed.
                Ok(Reply::Alone(call)) => Box::pin(self.decide_alone(&call, false, deadline)).await,
                // The runtime in which the call was sent has ended.
                Err(_) => Err(RedisError::Timeout.into()),
            }
        }
    }

    /// Enters a lane, and sends the groups that are complete.
    fn start(
        self: &Arc<Self>,
        lane: u16,
        call: ScriptCall,
        deadline: Deadline,
    ) -> Result<oneshot::Receiver<Reply>, RedisError> {
        call.validate()?;
        self.begin()?;
        let entered = self.lanes.enter(lane, call, deadline);
        for calls in entered.ready {
            Flight::begin(self, lane, entered.generation, calls);
        }
        Ok(entered.reply)
    }

    /// Decides one caller's call for a slot that this server is importing.
    pub(super) async fn ask(
        &self,
        call: &ScriptCall,
        deadline: Deadline,
    ) -> Result<ScriptAnswer, Failure> {
        let _place = self.waiting.take().ok_or(RedisError::Busy)?;
        self.decide_alone(call, true, deadline).await
    }

    async fn decide_alone(
        &self,
        call: &ScriptCall,
        asking: bool,
        deadline: Deadline,
    ) -> Result<ScriptAnswer, Failure> {
        let mut answers = self.decide(&Group::new([call]), asking, deadline).await?;
        let garbled = || RedisError::Garbled("nothing".to_owned());
        answers.pop().unwrap_or_else(|| Err(garbled().into()))
    }

    /// Calls a script. It is sent once, and once more only if the server had not loaded it.
    async fn decide(
        &self,
        group: &Group<'_>,
        asking: bool,
        deadline: Deadline,
    ) -> Result<Answers, Failure> {
        // Send the hash of the script. Its text is larger than everything else in the command.
        let script = group.script();
        let arguments = group.arguments(&script.sha);
        let mut reply = self.send("EVALSHA", arguments, asking, deadline).await;
        // Only this answer allows a second attempt, because the server has run nothing.
        if let Err(Failure::NoScript) = reply {
            let arguments = group.arguments(script.text);
            reply = self.send("EVAL", arguments, asking, deadline).await;
        }
        let answers = reply.map(|reply| group.answers(&reply));
        match &answers {
            Ok(answers) => {
                self.line.has_answered();
                let failures = answers.iter().filter_map(|answer| answer.as_ref().err());
                failures.for_each(|failure| self.line.leave_replica(failure));
            }
            Err(failure) => self.line.leave_replica(failure),
        }
        answers
    }

    /// Returns the connection for a call and the time left for it, once the first attempt to connect has ended.
    async fn ready(&self, deadline: Deadline) -> Result<(Arc<Connection>, Duration), RedisError> {
        self.begin()?;
        // The first decisions after startup wait for the connection. Later ones fail at once without one, so that a
        // server that is down costs its callers nothing.
        deadline.limit(self.line.attempted()).await?;
        let left = deadline.left()?;
        Ok((self.open()?, left))
    }

    async fn send(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
        asking: bool,
        deadline: Deadline,
    ) -> Result<Value, Failure> {
        let ready = self.ready(deadline).await;
        let (connection, left) = ready.map_err(Failure::Unsent)?;
        match asking {
            true => connection.send_asking(command, arguments, left).await,
            false => connection.send(command, arguments, left).await,
        }
    }

    /// Asks for the table of a cluster's slots.
    pub(super) async fn slots(&self) -> Result<ClusterRouting, RedisError> {
        let slots: Value = self.query("CLUSTER", &["SLOTS"], INTERNAL_TIMEOUT).await?;
        let routing = ClusterRouting::from_cluster_slots(slots, self.server().host);
        routing.map_err(RedisError::of)
    }

    /// Asks the server about itself.
    pub(super) async fn query<T: FromValue>(
        &self,
        command: &'static str,
        arguments: &[&'static str],
        timeout: Duration,
    ) -> Result<T, RedisError> {
        let arguments = arguments.iter().copied().map(Value::from_static_str);
        let connection = self.open()?;
        // Boxed, because the compiler bounds how deeply the types of futures nest, also for the callers of this crate.
        let reply = Box::pin(connection.send(command, arguments.collect(), timeout));
        Ok(reply.await?)
    }

    /// Returns the server of this link.
    pub(super) fn server(&self) -> Server {
        let mut hosts = self.client().client_config().server.hosts();
        hosts.swap_remove(0)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("servers", &self.client().client_config().server.hosts())
            .field("connected", &self.is_connected())
            .finish()
    }
}

/// Calls in flight on a lane, which a task sends together.
///
/// - Until they [depart](Self::depart), nothing was sent. If the task is dropped before, because its runtime has ended, each
///   caller sends its own call.
/// - If it is dropped later, the callers do not learn the outcome.
/// - Dropping a flight leaves the lane exactly once, and sends the waiting calls.
struct Flight {
    link: Arc<Link>,
    lane: u16,
    generation: Generation,
    calls: Vec<WaitingCall>,
    has_departed: bool,
}

impl Flight {
    /// Sends calls in a task, which no single caller can cancel or delay.
    fn begin(link: &Arc<Link>, lane: u16, generation: Generation, calls: Vec<WaitingCall>) {
        // The runtime of the newest caller is the least likely to have stopped.
        let runtime = calls.last().map(|newest| newest.runtime.clone());
        let flight = Self {
            link: Arc::clone(link),
            lane,
            generation,
            calls,
            has_departed: false,
        };
        if let Some(runtime) = runtime {
            runtime.spawn(flight.deliver());
        }
    }

    async fn deliver(mut self) {
        let Some(deadline) = self.depart() else {
            return;
        };
        let group = Group::new(self.calls.iter().map(|waiting| &waiting.call));
        let answers = self.link.decide(&group, false, deadline).await;
        drop(group);
        let calls = take(&mut self.calls);
        // Leave the lane first, so that the next calls are on their way while these are answered.
        drop(self);
        answer(calls, answers);
    }

    /// Leaves out the calls whose callers have left by now. Returns the latest deadline of the others, if there are any.
    fn depart(&mut self) -> Option<Deadline> {
        self.has_departed = true;
        self.calls.retain(|call| !call.reply.is_closed());
        self.calls.iter().map(|call| call.deadline).max()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.has_departed {
            let calls = take(&mut self.calls).into_iter();
            calls.for_each(WaitingCall::reply_alone);
        }
        if let Some(waiting) = self.link.lanes.leave(self.lane, self.generation) {
            Self::begin(&self.link, self.lane, self.generation, waiting);
        }
    }
}

/// Hands out the answers to calls. A caller that has left by now stays charged.
fn answer(calls: Vec<WaitingCall>, answers: Result<Answers, Failure>) {
    let is_shared = calls.len() > 1;
    match answers {
        Ok(answers) => {
            for (waiting, answer) in calls.into_iter().zip(answers) {
                waiting.reply(answer);
            }
        }
        Err(failure) if is_shared && failure.is_of_the_keys() => {
            calls.into_iter().for_each(WaitingCall::reply_alone);
        }
        Err(failure) => {
            for waiting in calls {
                waiting.reply(Err(failure.clone()));
            }
        }
    }
}
