//! A connection to one server: calls with one attempt each, and the task that keeps it up.

use std::{fmt, time::Duration};

use fred::{
    clients::{Client, WithOptions},
    interfaces::{ClientLike, EventInterface},
    types::{
        ClusterHash, CustomCommand, Value,
        config::{Options, Server},
    },
};
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{self, Instant},
};

use super::{
    config::{INTERNAL_TIMEOUT, RECONNECT_DELAY},
    error::{Failure, RedisError},
    script::{Answer, Call, scripts},
};

/// How long to wait before keys that are being moved are asked for again.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// When a decision has to be there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn after(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    /// What is left, which is never nothing.
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
    client: Client,
    _upkeep: Option<Task>,
}

/// A task that ends when it is dropped.
#[derive(Debug)]
pub(super) struct Task(JoinHandle<()>);

impl Task {
    pub(super) fn spawn(runtime: &Handle, task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(runtime.spawn(task))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Link {
    /// A link of our own, which connects in the background and stays connected.
    pub(super) fn connect(client: Client, runtime: &Handle) -> Self {
        Self {
            _upkeep: Some(Task::spawn(runtime, keep_connected(client.clone()))),
            client,
        }
    }

    /// A link through somebody's client, who connects it.
    pub(super) fn borrow(client: Client) -> Self {
        let runtime = Handle::try_current();
        Self {
            _upkeep: runtime
                .ok()
                .map(|runtime| Task::spawn(&runtime, keep_loaded(client.clone()))),
            client,
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.client.is_connected()
    }

    /// Waits until the server is there, or says why it will not be.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        let mut errors = self.client.error_rx();
        while !self.is_connected() {
            tokio::select! {
                _ = self.client.wait_for_connect() => {}
                error = errors.recv() => match error.map(|(error, _)| RedisError::from(error)) {
                    Ok(error) if error.is_permanent() => return Err(error),
                    _ => {}
                },
            }
        }
        Ok(())
    }

    /// Calls a script. It is sent once; what is retried, and once, has not been done: a script that was
    /// not loaded, and keys that were being moved.
    pub(super) async fn run(
        &self,
        call: &Call,
        asking: bool,
        deadline: Deadline,
    ) -> Result<Answer, Failure> {
        let script = call.script();
        let sha = ("EVALSHA", script.sha.as_str());
        let mut reply = self.send(sha, call, asking, deadline).await;
        if let Err(Failure::TryAgain) = reply {
            deadline.limit(time::sleep(TRY_AGAIN_AFTER)).await?;
            reply = self.send(sha, call, asking, deadline).await;
        }
        if let Err(Failure::NoScript) = reply {
            reply = self
                .send(("EVAL", script.text), call, asking, deadline)
                .await;
        }
        Answer::read(&reply?)
    }

    async fn send(
        &self,
        (command, script): (&'static str, &'static str),
        call: &Call,
        asking: bool,
        deadline: Deadline,
    ) -> Result<Value, Failure> {
        let client = self.client.with_options(&once(deadline.left()?));
        let arguments = call.arguments(script);
        match asking {
            true => ask(&client, command, arguments).await,
            false => Ok(client.custom(custom(command), arguments).await?),
        }
    }

    /// Asks for the table of a cluster's slots.
    pub(super) async fn slots(&self) -> Result<Value, RedisError> {
        let client = self.client.with_options(&once(INTERNAL_TIMEOUT));
        let arguments = vec![Value::from_static_str("SLOTS")];
        Ok(client.custom(custom("CLUSTER"), arguments).await?)
    }

    /// The server that it has been made for.
    pub(super) fn server(&self) -> Server {
        let mut hosts = self.client.client_config().server.hosts();
        hosts.swap_remove(0)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("servers", &self.client.client_config().server.hosts())
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

/// Runs a client for as long as this is polled, and starts it again should it give up.
async fn keep_connected(client: Client) {
    loop {
        let mut router = AbortOnDrop(client.connect());
        tokio::select! {
            ended = &mut router.0 => tracing::debug!(?ended, "a Redis client has ended, and is started again"),
            () = keep_loaded(client.clone()) => {}
        }
        time::sleep(RECONNECT_DELAY).await;
    }
}

struct AbortOnDrop<T>(JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Loads the scripts, now and whenever the client has connected again.
async fn keep_loaded(client: Client) {
    let mut reconnects = client.reconnect_rx();
    if client.is_connected() {
        load(&client).await;
    }
    while !matches!(
        reconnects.recv().await,
        Err(tokio::sync::broadcast::error::RecvError::Closed)
    ) {
        load(&client).await;
    }
}

/// Loads the scripts. If that fails, the first call loads its own.
async fn load(client: &Client) {
    let options = Options {
        fail_fast: false,
        ..once(INTERNAL_TIMEOUT)
    };
    let client = client.with_options(&options);
    for script in scripts() {
        let arguments = ["LOAD", script.text].map(Value::from_static_str).to_vec();
        if let Err(error) = client.custom::<Value, _>(custom("SCRIPT"), arguments).await {
            tracing::debug!(%error, "a script could not be loaded into Redis");
        }
    }
}
