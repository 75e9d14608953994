//! What keeps a connection up.
//!
//! fred can reconnect by itself, but not after every fault: while more is sent to a server, it never counts that as
//! silent; a sentinel that accepts connections and says nothing is asked again and again; and a
//! server that takes no more bytes holds up all else. So each client of ours serves one connection, which is
//! watched, and is replaced by a new one when that ends.

use std::{
    future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::{ClientLike, EventInterface},
    types::{
        ClusterHash, CustomCommand, Value,
        config::{Config, Options, ServerConfig},
    },
};
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::{self, Instant},
};

use super::{
    background::Task,
    config::{self, INTERNAL_TIMEOUT, UNRESPONSIVE},
    connection::Connection,
    error::RedisError,
    script::scripts,
};

/// The longest that all steps of connecting may take together, by way of several sentinels.
const CONNECTING: Duration = Duration::from_secs(5);

/// How long a server is left alone between two looks at it.
const BEAT: Duration = Duration::from_millis(500);

/// A connection of our own, by one client after another. It has no `Debug`, since a client holds the password.
pub(super) struct SupervisedConnection {
    connection: ArcSwap<Connection>,
    standing: watch::Sender<Standing>,
    /// How often the server has answered.
    answers: AtomicU64,
    has_begun: AtomicBool,
}

#[derive(Clone, Debug)]
enum Standing {
    Connecting,
    Connected,
    Failed(RedisError),
}

impl SupervisedConnection {
    pub(super) fn new(config: Config) -> Self {
        Self {
            connection: ArcSwap::from_pointee(Connection::new(config)),
            standing: watch::Sender::new(Standing::Connecting),
            answers: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
        }
    }

    /// The connection that there is at present, or will be, or has ended.
    pub(super) fn connection(&self) -> Arc<Connection> {
        self.connection.load_full()
    }

    fn configuration(&self) -> Config {
        self.connection.load().client().client_config()
    }

    pub(super) fn has_answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Why there is no connection, unless there is one or the first attempt is not over.
    pub(super) fn problem(&self) -> Option<RedisError> {
        match &*self.standing.borrow() {
            Standing::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Turns calls away, because the server has said that it is a replica, and leaves it.
    pub(super) fn leave(&self, because: &RedisError) {
        self.standing.send_if_modified(|standing| {
            let is_first = matches!(standing, Standing::Connected);
            if is_first {
                *standing = Standing::Failed(because.clone());
            }
            is_first
        });
    }

    /// Prepares for [`keep_up`](Self::keep_up): a client that another runtime has served is replaced.
    pub(super) fn begin(&self) {
        if self.has_begun.swap(true, Ordering::Relaxed) {
            self.standing.send_replace(Standing::Connecting);
            let connection = Connection::new(self.configuration());
            self.connection.store(Arc::new(connection));
        }
    }

    /// Whether the first attempt to connect is over.
    pub(super) fn has_attempted(&self) -> bool {
        !matches!(*self.standing.borrow(), Standing::Connecting)
    }

    /// Waits until the first attempt to connect is over.
    pub(super) async fn attempted(&self) {
        if !self.has_attempted() {
            let mut standing = self.standing.subscribe();
            let attempted = |standing: &Standing| !matches!(standing, Standing::Connecting);
            // The sender is this.
            let _is_over = standing.wait_for(attempted).await.is_ok();
        }
    }

    /// Waits until there is a connection, or says why there will not be one.
    pub(super) async fn connected(&self) -> Result<(), RedisError> {
        let mut standing = self.standing.subscribe();
        let settled = standing.wait_for(|standing| match standing {
            Standing::Connecting => false,
            Standing::Connected => true,
            Standing::Failed(error) => error.is_permanent(),
        });
        match settled.await.as_deref() {
            Ok(Standing::Failed(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Connects, and again whenever a connection has ended, for as long as this is polled.
    pub(super) async fn keep_up(self: Arc<Self>) {
        loop {
            let next = Instant::now() + config::pause();
            let error = self.serve().await;
            tracing::debug!(%error, "a connection to Redis has ended, or could not be made");
            self.standing.send_replace(Standing::Failed(reason(error)));
            let mut config = self.configuration();
            if let ServerConfig::Sentinel { hosts, .. } = &mut config.server {
                hosts.rotate_left(1);
            }
            self.connection.store(Arc::new(Connection::new(config)));
            time::sleep_until(next).await;
        }
    }

    /// Serves one connection, and returns why it has ended.
    async fn serve(&self) -> Error {
        let connection = self.connection();
        let _ends_it = connection.ends_with();
        let mut router = Task(connection.client().connect());
        let error = tokio::select! {
            ended = &mut router.0 => match ended {
                Ok(Err(error)) => error,
                _ => Error::new(ErrorKind::Canceled, "the client has ended"),
            },
            error = self.watch(connection.client()) => error,
        };
        connection.end(error.clone());
        error
    }

    /// Returns when the server does not answer any more.
    async fn watch(&self, client: &Client) -> Error {
        if let Err(error) = ping(client, CONNECTING).await {
            return error;
        }
        load(client).await;
        let mut standing = self.standing.subscribe();
        self.standing.send_replace(Standing::Connected);
        loop {
            let left = standing.wait_for(|standing| matches!(standing, Standing::Failed(_)));
            let _is_left = time::timeout(BEAT, left).await.is_ok();
            // All that was sent before is answered before this.
            if let Some(error) = self.silence(client).await {
                return error;
            }
            if let Some(RedisError::Refused(text)) = self.problem() {
                return Error::new(ErrorKind::Unknown, text);
            }
        }
    }

    /// Whether a server has answered neither of two questions, nor anything else meanwhile. If only one was missed,
    /// or answers come late, it may be this process that has too much to do.
    async fn silence(&self, client: &Client) -> Option<Error> {
        let answers = self.answers.load(Ordering::Relaxed);
        ping(client, UNRESPONSIVE).await.err()?;
        let error = ping(client, UNRESPONSIVE).await.err()?;
        (self.answers.load(Ordering::Relaxed) == answers).then_some(error)
    }
}

/// Why there is no connection: the server's own words, if it has said anything.
fn reason(error: Error) -> RedisError {
    match RedisError::from(error.clone()) {
        reason @ (RedisError::Refused(_) | RedisError::Config(_)) => reason,
        _ => RedisError::Disconnected(error),
    }
}

/// Asks a server whether it is there, which it is even if it answers with an error.
async fn ping(client: &Client, timeout: Duration) -> Result<(), Error> {
    let client = client.with_options(&patient(timeout));
    let Err(error) = client.ping::<Value>(None).await else {
        return Ok(());
    };
    match RedisError::from(error.clone()) {
        RedisError::Refused(_) => Ok(()),
        _ => Err(error),
    }
}

/// Loads the scripts into the server of somebody's client, now and whenever that has connected again.
pub(super) async fn keep_loaded(client: Client) {
    let mut reconnects = client.reconnect_rx();
    if client.is_connected() {
        load(&client).await;
    }
    while !matches!(reconnects.recv().await, Err(RecvError::Closed)) {
        load(&client).await;
    }
    // Its client has ended for good, and there is nothing to begin again.
    future::pending::<()>().await;
}

/// Loads the scripts. If that fails, the first call loads its own.
async fn load(client: &Client) {
    let client = client.with_options(&patient(INTERNAL_TIMEOUT));
    for script in scripts() {
        let arguments = ["LOAD", script.text].map(Value::from_static_str).to_vec();
        let command = CustomCommand::new_static("SCRIPT", ClusterHash::FirstKey, false);
        if let Err(error) = client.custom::<Value, _>(command, arguments).await {
            tracing::debug!(%error, "a script could not be loaded into Redis");
        }
    }
}

/// One attempt, once there is a connection.
fn patient(timeout: Duration) -> Options {
    Options {
        max_attempts: Some(1),
        timeout: Some(timeout),
        fail_fast: false,
        ..Options::default()
    }
}
