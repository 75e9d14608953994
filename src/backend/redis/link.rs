//! A connection to one server, and calls with one attempt each.

use std::{fmt, sync::Arc, time::Duration};

use fred::{
    clients::{Client, WithOptions},
    interfaces::{ClientLike, EventInterface},
    types::{
        ClusterHash, CustomCommand, Value,
        cluster::ClusterRouting,
        config::{Config, Options, Server},
    },
};
use tokio::{
    sync::Semaphore,
    time::{self, Instant},
};

use super::{
    background::Background,
    config::{INTERNAL_TIMEOUT, RECONNECT_DELAY},
    error::{Failure, RedisError},
    pulse::Pulse,
    script::{ScriptAnswer, ScriptCall},
    upkeep::{SupervisedConnection, keep_loaded},
};

/// How many calls may wait for one server.
const MOST_WAITING: usize = 8192;

/// When a decision has to be there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

/// The longest that a call may take. Neither clocks nor timers can go on for as long as a [`Duration`] may be.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout.min(LONGEST))
    }

    /// What is left, which is never nothing: fred would wait without an end.
    fn left(self) -> Result<Duration, RedisError> {
        let left = self.0.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(RedisError::Timeout),
            false => Ok(left),
        }
    }

    pub(super) async fn limit<T>(self, future: impl Future<Output = T>) -> Result<T, RedisError> {
        time::timeout_at(self.0, future)
            .await
            .map_err(|_| RedisError::Timeout)
    }
}

/// A client of one server. The tasks that serve it end with it.
pub(super) struct Link {
    route: Route,
    places: Semaphore,
    upkeep: Background,
    pulse: Pulse,
}

enum Route {
    Own(Arc<SupervisedConnection>),
    Borrowed(Arc<Client>),
}

impl Link {
    /// A link of our own, which connects in the background once it has [begun](Self::begin), and stays connected.
    pub(super) fn new(config: Config) -> Self {
        let line = Arc::new(SupervisedConnection::new(config));
        let kept_up = Arc::clone(&line);
        let keep_up = move || {
            kept_up.begin();
            Arc::clone(&kept_up).keep_up()
        };
        Self {
            upkeep: Background::new(keep_up),
            route: Route::Own(line),
            places: Semaphore::new(MOST_WAITING),
            pulse: Pulse::new(),
        }
    }

    /// A link through somebody's client, who connects it.
    pub(super) fn borrow(client: Client) -> Self {
        let loaded = client.clone();
        Self {
            upkeep: Background::new(move || keep_loaded(loaded.clone())),
            route: Route::Borrowed(Arc::new(client)),
            places: Semaphore::new(MOST_WAITING),
            pulse: Pulse::new(),
        }
    }

    /// Begins to serve the link, unless that is done already. It fails outside of a runtime.
    pub(super) fn begin(&self) -> Result<(), RedisError> {
        self.upkeep.ensure()
    }

    /// The same if there is a runtime. Without one, the first call begins.
    pub(super) fn begin_if_possible(&self) {
        let _begins_later = self.begin();
    }

    pub(super) fn client(&self) -> Arc<Client> {
        match &self.route {
            Route::Own(line) => line.client(),
            Route::Borrowed(client) => Arc::clone(client),
        }
    }

    /// The client for one call, or why it would not get through.
    fn for_call(&self, timeout: Duration) -> Result<WithOptions<Client>, RedisError> {
        self.begin()?;
        let client = self.client();
        if let Route::Own(line) = &self.route
            && let Some(error) = line.problem()
            && (error.is_read_only() || !client.is_connected())
        {
            return Err(error);
        }
        Ok(client.with_options(&once(timeout)))
    }

    /// Whether its server decides.
    pub(super) fn pulse(&self) -> &Pulse {
        &self.pulse
    }

    /// Why there is no connection, as far as that is known.
    pub(super) fn problem(&self) -> Option<RedisError> {
        match &self.route {
            Route::Own(line) => line.problem(),
            Route::Borrowed(_) => None,
        }
    }

    /// Whether the first attempt to connect is over.
    pub(super) fn has_attempted(&self) -> bool {
        match &self.route {
            Route::Own(line) => line.has_attempted(),
            Route::Borrowed(_) => true,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client().is_connected()
    }

    /// Waits until the server is there, or says why it will not be.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        self.begin()?;
        let client = match &self.route {
            Route::Own(line) => return line.connected().await,
            Route::Borrowed(client) => client,
        };
        let mut errors = client.error_rx();
        while !client.is_connected() {
            tokio::select! {
                // It misses what happens while it begins to wait.
                _ = time::timeout(RECONNECT_DELAY, client.wait_for_connect()) => {}
                error = errors.recv() => match error.map(|(error, _)| RedisError::from(error)) {
                    Ok(error) if error.is_permanent() => return Err(error),
                    _ => {}
                },
            }
        }
        Ok(())
    }

    /// Calls a script. It is sent once, and once more only if it was not done because it was not loaded.
    pub(super) async fn run(
        &self,
        call: &ScriptCall,
        asking: bool,
        deadline: Deadline,
    ) -> Result<ScriptAnswer, Failure> {
        let script = call.script();
        let sha = ("EVALSHA", script.sha.as_str());
        let mut reply = self.send(sha, call, asking, deadline).await;
        if let Err(Failure::NoScript) = reply {
            reply = self
                .send(("EVAL", script.text), call, asking, deadline)
                .await;
        }
        ScriptAnswer::read(&reply?)
    }

    /// The client for one call, once the first attempt to connect is over.
    async fn ready(&self, deadline: Deadline) -> Result<WithOptions<Client>, RedisError> {
        self.begin()?;
        if let Route::Own(line) = &self.route {
            deadline.limit(line.attempted()).await?;
        }
        self.for_call(deadline.left()?)
    }

    async fn send(
        &self,
        (command, script): (&'static str, &'static str),
        call: &ScriptCall,
        asking: bool,
        deadline: Deadline,
    ) -> Result<Value, Failure> {
        let _place = self.places.try_acquire().map_err(|_| RedisError::Busy)?;
        let client = self.ready(deadline).await.map_err(Failure::Unsent)?;
        let arguments = call.arguments(script);
        let reply = match asking {
            true => ask(&client, command, arguments).await,
            false => client
                .custom(custom(command), arguments)
                .await
                .map_err(Failure::from),
        };
        match (&self.route, &reply) {
            (Route::Own(line), Ok(_)) => line.has_answered(),
            (Route::Own(line), Err(Failure::Redis(error))) if error.is_read_only() => {
                line.leave(error);
            }
            _ => {}
        }
        reply
    }

    /// Asks for the table of a cluster's slots.
    pub(super) async fn slots(&self) -> Result<ClusterRouting, RedisError> {
        let client = self.for_call(INTERNAL_TIMEOUT)?;
        let arguments = vec![Value::from_static_str("SLOTS")];
        let reply = client
            .custom::<Value, _>(custom("CLUSTER"), arguments)
            .await?;
        Ok(ClusterRouting::from_cluster_slots(
            reply,
            self.server().host,
        )?)
    }

    /// The server that it has been made for.
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

/// One attempt, at once or not at all. A client that repeats what was in flight when a connection broke charges
/// twice.
fn once(timeout: Duration) -> Options {
    Options {
        max_attempts: Some(1),
        timeout: Some(timeout),
        fail_fast: true,
        ..Options::default()
    }
}

fn custom(command: &'static str) -> CustomCommand {
    CustomCommand::new_static(command, ClusterHash::FirstKey, false)
}

/// Sends a command for a slot that its server is only about to get. No other command comes between the two.
async fn ask(
    client: &WithOptions<Client>,
    command: &'static str,
    arguments: Vec<Value>,
) -> Result<Value, Failure> {
    let pipeline = client.pipeline().with_options(client.options());
    let _: Value = pipeline
        .custom(custom("ASKING"), Vec::<Value>::new())
        .await?;
    let _: Value = pipeline.custom(custom(command), arguments).await?;
    let mut replies = pipeline.try_all::<Value>().await;
    let last = replies.pop().unwrap_or(Ok(Value::Null));
    Ok(last?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn deadline_after_any_timeout_is_an_instant() {
        assert!(Deadline::after(Duration::ZERO).left().is_err());
        for timeout in [Duration::MAX, Duration::MAX / 2] {
            let deadline = Deadline::after(timeout);
            assert_eq!(deadline.left().unwrap(), LONGEST);
            assert_eq!(deadline.limit(async { 1 }).await.unwrap(), 1);
        }
    }
}
