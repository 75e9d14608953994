//! Hides fred behind three functions: connect, send, and wait for the end. Each connection has its own fred client, which never
//! reconnects. If it did, fred would resend commands, would not notice a silent server while commands are sent to it, and would
//! never answer a command that is sent right after a connection has ended.

use std::{iter, sync::LazyLock, time::Duration};

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::{
        ClusterHash, ConnectHandle, CustomCommand, Value,
        config::{Config, ConnectionConfig, Options, ServerConfig, TcpConfig},
    },
    util::sha1_hash,
};
use futures_util::future::{self, OptionFuture};
use tokio::{net::TcpStream, time};

use super::{error::RedisError, protocol};

/// The script that decides on the server: the driver, and within it the arithmetic of each algorithm, which is in its folder.
pub(super) const SCRIPT: &str = concat!(
    include_str!("head.lua"),
    include_str!("../../algorithm/gcra/gcra.lua"),
    include_str!("../../algorithm/block/block.lua"),
    include_str!("../../algorithm/quota/quota.lua"),
    include_str!("../../algorithm/window/window.lua"),
    include_str!("../../algorithm/concurrency/concurrency.lua"),
    include_str!("../../algorithm/tiers/tiers.lua"),
    include_str!("driver.lua"),
);

/// The hash with which `EVALSHA` names the script.
pub(super) static SHA: LazyLock<String> = LazyLock::new(|| sha1_hash(SCRIPT));

/// The longest time for connecting to one server or sentinel, and for commands other than decisions.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// The longest that connecting may take in total, including several sentinels.
const CONNECTING: Duration = Duration::from_secs(5);

/// An open connection.
#[derive(Clone)]
pub(super) struct Connection(Client);

/// The task that serves a connection, which ends when this is dropped.
pub(super) struct ConnectionTask(ConnectHandle);

impl Connection {
    /// Connects, once, and runs the script without a batch. That loads it, and shows whether the user may run it.
    pub(super) async fn open(config: &Config) -> Result<(Self, ConnectionTask), RedisError> {
        let settings = ConnectionConfig {
            connection_timeout: PATIENCE,
            internal_command_timeout: PATIENCE,
            max_command_attempts: 1,
            // No bound, because a link has one of its own. When fred reaches this one, it stops sending.
            max_command_buffer_len: 0,
            tcp: TcpConfig {
                nodelay: Some(true),
                ..TcpConfig::default()
            },
            // For such errors, fred would end the connection, and so fail other calls.
            reconnect_errors: Vec::new(),
            ..ConnectionConfig::default()
        };
        let client = Client::new(config.clone(), None, Some(settings), None);
        let mut task = ConnectionTask(client.connect());
        let connected = tokio::select! {
            connected = time::timeout(CONNECTING, client.wait_for_connect()) => connected.unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Timeout, "it takes too long to connect"))
            }),
            error = task.ended() => Err(error),
        };
        if let Err(error) = connected {
            return Err(match other_protocol(config).await {
                Some(mistake) => RedisError::config(mistake),
                None => RedisError::disconnected(&error, &config.server),
            });
        }
        let connection = Self(client);
        let run = protocol::encode(SCRIPT, iter::empty());
        let run = connection.send("EVAL", run, false, PATIENCE).await;
        run.map_err(|error| RedisError::disconnected(&error, &config.server))?;
        Ok((connection, task))
    }

    /// Sends a command once, without delay. If `asking`, the command is for a slot that the server is importing.
    pub(super) fn send(
        &self,
        command: &'static str,
        arguments: Vec<Value>,
        asking: bool,
        timeout: Duration,
    ) -> impl Future<Output = Result<Value, Error>> + Send + use<> {
        let once = Options {
            max_attempts: Some(1),
            // Zero would mean no timeout.
            timeout: Some(timeout.max(Duration::from_micros(1))),
            fail_fast: true,
            ..Options::default()
        };
        let client = self.0.with_options(&once);
        async move {
            let custom = |name, arguments: Vec<Value>| {
                let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
                client.custom::<Value, _>(command, arguments)
            };
            // Both commands are sent at their first poll, so no other command of the link comes between them.
            let asked = OptionFuture::from(asking.then(|| custom("ASKING", Vec::new())));
            let (_, reply) = future::join(asked, custom(command, arguments)).await;
            reply
        }
    }
}

impl ConnectionTask {
    /// Waits until the connection ends, and returns the reason.
    pub(super) async fn ended(&mut self) -> Error {
        match (&mut self.0).await {
            Ok(Err(error)) => error,
            _ => Error::new(ErrorKind::Canceled, "the connection was closed"),
        }
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Finds out whether the first server expects TLS and gets none, or the other way round. fred cannot tell, because the server's
/// answer then is of another protocol.
async fn other_protocol(config: &Config) -> Option<&'static str> {
    let server = match &config.server {
        ServerConfig::Unix { .. } => return None,
        servers => servers.hosts().into_iter().next()?,
    };
    let probe: &[u8] = match &config.tls {
        Some(_) => b"PING\r\n",
        // An empty handshake. A server with TLS answers it with an alert, and a server without closes the connection.
        None => &[0x16, 3, 1, 0, 4, 1, 0, 0, 0],
    };
    let mut first = [0];
    let answer = async {
        let stream = TcpStream::connect((&*server.host, server.port)).await?;
        stream.writable().await?;
        stream.try_write(probe)?;
        stream.readable().await?;
        stream.try_read(&mut first)
    };
    time::timeout(PATIENCE, answer).await.ok()?.ok()?;
    match (first[0], &config.tls) {
        (b'+' | b'-', Some(_)) => {
            Some("the server is without TLS: use `redis://`, without the second `s`")
        }
        // The type of an alert.
        (0x15, None) => Some("the server expects TLS: use `rediss://`"),
        _ => None,
    }
}
