//! The configuration of clients. It bounds how long a faulty server can delay a decision.

use std::time::Duration;

use fred::{
    clients::Client,
    types::{
        ClusterHash, CustomCommand,
        config::{Config, ConnectionConfig, Options, ReconnectError, TcpConfig},
    },
};

use crate::random;

/// The longest time for connecting, and for the client's own commands.
pub(super) const INTERNAL_TIMEOUT: Duration = Duration::from_millis(500);

/// The least time between the starts of two attempts to connect. Up to half of it is added at random.
pub(super) const RECONNECT_DELAY: Duration = Duration::from_millis(100);

/// How long a server may take to answer a ping, unless the backend says otherwise.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// The settings of a link besides those of its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkSettings {
    /// The most decisions that share a call.
    pub(super) together: usize,
    /// How long the server may take to answer a ping. After two that are late, its connection is replaced.
    pub(super) ping_timeout: Duration,
}

/// Creates a client for one connection.
pub(super) fn client(mut config: Config) -> Client {
    config.fail_fast = true;
    Client::new(config, None, Some(connection()), None)
}

fn connection() -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: INTERNAL_TIMEOUT,
        internal_command_timeout: INTERNAL_TIMEOUT,
        max_command_attempts: 1,
        // 0 means that there is no bound. Each link has its own bound, `MOST_WAITING`, and refuses calls above it. fred
        // must not have one as well: once it is reached, fred no longer sends later commands.
        max_command_buffer_len: 0,
        tcp: TcpConfig {
            nodelay: Some(true),
            ..TcpConfig::default()
        },
        // `ReadOnly` is not in this list, because fred would drop the calls whose answers come next. Links handle it
        // themselves.
        reconnect_errors: vec![
            ReconnectError::Loading,
            ReconnectError::MasterDown,
            ReconnectError::ClusterDown,
        ],
        ..ConnectionConfig::default()
    }
}

/// Options for one attempt, made immediately with `fail_fast`, and otherwise once there is a connection. A client that
/// resends commands after a lost connection charges twice.
pub(super) fn once(timeout: Duration, fail_fast: bool) -> Options {
    Options {
        max_attempts: Some(1),
        timeout: Some(timeout),
        fail_fast,
        ..Options::default()
    }
}

/// A command by its name.
pub(super) fn custom(command: &'static str) -> CustomCommand {
    CustomCommand::new_static(command, ClusterHash::FirstKey, false)
}

/// Returns a random time between the starts of two attempts to connect, so that a fleet does not reconnect all at
/// once.
pub(super) fn pause() -> Duration {
    RECONNECT_DELAY + Duration::from_micros(random::number() % 50_000)
}
