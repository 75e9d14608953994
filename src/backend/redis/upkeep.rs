//! Keeps a connection up.
//!
//! fred can reconnect on its own, but not after every fault. It never treats a server as silent while commands are sent
//! to it. If a sentinel accepts connections but does not answer, fred asks it again and again. And a server that stops
//! reading blocks all other work of the client. So each of our clients serves one connection, and a task watches it.
//! When the connection ends, a new client replaces the old one.

use std::{
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
    interfaces::ClientLike,
    types::{
        Value,
        config::{Config, ServerConfig},
    },
};
use tokio::{
    sync::watch,
    time::{self, Instant},
};

use super::{
    background::AbortOnDrop,
    config::{self, INTERNAL_TIMEOUT, PING_TIMEOUT, custom, once},
    connection::Connection,
    error::{Failure, RedisError},
    script::scripts,
};

/// The longest that connecting may take in total, including several sentinels.
const CONNECTING: Duration = Duration::from_secs(5);

/// The pause between two checks of a server.
const BEAT: Duration = Duration::from_millis(500);

/// Our own connection, served by one client after another. It has no `Debug`, because a client holds the password.
pub(super) struct SupervisedConnection {
    connection: ArcSwap<Connection>,
    standing: watch::Sender<Standing>,
    /// The number of answers from the server.
    answers: AtomicU64,
    /// How long the server may take to answer a ping.
    ping_timeout: Duration,
    has_begun: AtomicBool,
}

/// The state of a connection. Before the first attempt ends, calls wait. In `Failed`, a call is sent only if the client is
/// connected again and the server is not a replica.
///
/// | from | event | to |
/// |---|---|---|
/// | connecting, failed | a new client has an answer to its first ping | connected |
/// | connected | an answer says that the server is a replica | failed, so that this client sends nothing more |
/// | any | the client's connection ends, or cannot be made | failed, and a new client connects |
/// | any | another runtime begins to serve it | connecting, with a new client |
///
/// Only [`keep_up`](SupervisedConnection::keep_up) changes it, apart from the second and the last event.
#[derive(Clone, Debug)]
enum Standing {
    Connecting,
    Connected,
    Failed(RedisError),
}

impl SupervisedConnection {
    pub(super) fn new(config: Config, ping_timeout: Duration) -> Self {
        Self {
            connection: ArcSwap::from_pointee(Connection::new(config)),
            standing: watch::Sender::new(Standing::Connecting),
            answers: AtomicU64::new(0),
            ping_timeout,
            has_begun: AtomicBool::new(false),
        }
    }

    /// Returns the current connection. It may not be established yet, or may have ended.
    pub(super) fn connection(&self) -> Arc<Connection> {
        self.connection.load_full()
    }

    fn configuration(&self) -> Config {
        self.connection.load().client().client_config()
    }

    pub(super) fn has_answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the reason why there is no connection. Returns `None` if there is one, or before the first attempt has ended.
    pub(super) fn problem(&self) -> Option<RedisError> {
        match &*self.standing.borrow() {
            Standing::Failed(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// Leaves a server whose answer says that it is a replica. Further calls fail with this error until a master is found.
    pub(super) fn leave_replica(&self, failure: &Failure) {
        let error = match failure {
            Failure::Redis(error) if error.is_read_only() => error,
            _ => return,
        };
        self.standing.send_if_modified(|standing| {
            let leaves = matches!(standing, Standing::Connected);
            if leaves {
                *standing = Standing::Failed(error.clone());
            }
            leaves
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

    /// Returns whether the first attempt to connect has ended.
    pub(super) fn has_attempted(&self) -> bool {
        !matches!(*self.standing.borrow(), Standing::Connecting)
    }

    /// Waits until the first attempt to connect has ended.
    pub(super) async fn attempted(&self) {
        if !self.has_attempted() {
            let mut standing = self.standing.subscribe();
            let attempted = |standing: &Standing| !matches!(standing, Standing::Connecting);
            // The sender is part of this value, so it is still there.
            let _is_over = standing.wait_for(attempted).await.is_ok();
        }
    }

    /// Waits until there is a connection, or returns a permanent error.
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

    /// Connects, and reconnects whenever a connection ends, as long as it is polled.
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

    /// Serves one connection, and returns the reason for its end.
    async fn serve(&self) -> Error {
        let connection = self.connection();
        let _ends_it = connection.ends_with();
        let mut router = AbortOnDrop(connection.client().connect());
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

    /// Returns when the server stops answering.
    async fn watch(&self, client: &Client) -> Error {
        if let Err(error) = ping(client, CONNECTING).await {
            return error;
        }
        load(client).await;
        let mut standing = self.standing.subscribe();
        self.standing.send_replace(Standing::Connected);
        loop {
            let left = standing.wait_for(|standing| matches!(standing, Standing::Failed(_)));
            let is_left = time::timeout(BEAT, left).await.is_ok();
            // Commands are answered in order, so calls before this ping have their answers.
            let silent = match is_left {
                true => ping(client, PING_TIMEOUT).await.err(),
                false => self.silence(client).await,
            };
            if let Some(error) = silent {
                return error;
            }
            if let Some(RedisError::Refused(text)) = self.problem() {
                return Error::new(ErrorKind::Unknown, text);
            }
        }
    }

    /// Returns an error if the server answers neither of two pings, nor anything else in that time. A single missing or
    /// late answer is tolerated, because this process itself may be overloaded.
    async fn silence(&self, client: &Client) -> Option<Error> {
        let answers = self.answers.load(Ordering::Relaxed);
        ping(client, self.ping_timeout).await.err()?;
        let error = ping(client, self.ping_timeout).await.err()?;
        (self.answers.load(Ordering::Relaxed) == answers).then_some(error)
    }
}

/// Returns the reason why there is no connection: the server's own error, if there is one.
fn reason(error: Error) -> RedisError {
    match RedisError::of(error.clone()) {
        reason @ (RedisError::Refused(_) | RedisError::Config(_)) => reason,
        _ => RedisError::disconnected(error),
    }
}

/// Pings a server. An error answer counts as an answer.
async fn ping(client: &Client, timeout: Duration) -> Result<(), Error> {
    let client = client.with_options(&once(timeout, false));
    let Err(error) = client.ping::<Value>(None).await else {
        return Ok(());
    };
    match RedisError::of(error.clone()) {
        RedisError::Refused(_) => Ok(()),
        _ => Err(error),
    }
}

/// Loads the scripts. If this fails, the first call of each script loads it.
async fn load(client: &Client) {
    let client = client.with_options(&once(INTERNAL_TIMEOUT, false));
    for script in scripts() {
        let arguments = ["LOAD", script.text].map(Value::from_static_str).to_vec();
        if let Err(error) = client.custom::<Value, _>(custom("SCRIPT"), arguments).await {
            tracing::debug!(%error, "a script could not be loaded into Redis");
        }
    }
}
