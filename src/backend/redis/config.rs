//! The configuration of clients. It bounds how long a faulty server can delay a decision.

use std::{fmt, sync::Arc, time::Duration};

use fred::{
    clients::{Client, Pool},
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    rustls::{ClientConfig, RootCertStore, crypto::ring},
    rustls_native_certs,
    types::config::{
        Config, ConnectionConfig, ReconnectError, ServerConfig, TcpConfig, TlsConfig, TlsConnector,
    },
};

use super::error::RedisError;
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

/// The source of the connections of a [`RedisBackend`](super::RedisBackend): a URL, a configuration, or an existing
/// client or pool. [`RedisBackend::new`](super::RedisBackend::new) takes one. The [module docs](super) have an example.
#[derive(Clone)]
#[non_exhaustive]
pub enum ConnectionSource {
    /// A URL, as [`RedisBackend::from_url`](super::RedisBackend::new) takes it.
    Url(String),
    /// A configuration that a URL cannot express. The backend replaces its `fail_fast` and connection options.
    Config(Box<Config>),
    /// A client that its owner connects. It does not notice a silent server while decisions are sent to it, and may
    /// wait for minutes. The backend sends pings to its own clients: it replaces a client if two pings in a row get no
    /// answer within [a second](super::RedisBackendBuilder::ping_timeout) each.
    Client(Client),
    /// Several clients that are used in turn.
    Pool(Pool),
}

impl fmt::Debug for ConnectionSource {
    /// Leaves out the URL, because it can contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url(_) => "Url",
            Self::Config(_) => "Config",
            Self::Client(_) => "Client",
            Self::Pool(_) => "Pool",
        })
    }
}

impl From<&str> for ConnectionSource {
    fn from(url: &str) -> Self {
        Self::Url(url.to_owned())
    }
}

impl From<String> for ConnectionSource {
    fn from(url: String) -> Self {
        Self::Url(url)
    }
}

impl From<Config> for ConnectionSource {
    fn from(config: Config) -> Self {
        Self::Config(Box::new(config))
    }
}

impl From<Client> for ConnectionSource {
    fn from(client: Client) -> Self {
        Self::Client(client)
    }
}

impl From<Pool> for ConnectionSource {
    fn from(pool: Pool) -> Self {
        Self::Pool(pool)
    }
}

/// Parses a URL into a configuration.
pub(super) fn parse(url: &str) -> Result<Config, RedisError> {
    let invalid = |problem: &str| {
        RedisError::Config(format!(
            "{problem}: use `redis://host:6379`, `redis-cluster://host:6379?node=other:6379`, \
             `redis-sentinel://host:26379?sentinelServiceName=name`, `rediss://` with TLS, or \
             `redis+unix:///path/to.sock`"
        ))
    };
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| invalid("it has no scheme"))?;
    // fred would build the TLS configuration with the process's default cryptography provider. A process can have no
    // default, or two candidates.
    let (plain, tls) = match scheme
        .strip_prefix("rediss")
        .or_else(|| scheme.strip_prefix("valkeys"))
    {
        Some(kind) => (format!("redis{kind}"), true),
        None => (scheme.replacen("valkey", "redis", 1), false),
    };
    if !["redis", "redis-cluster", "redis-sentinel", "redis+unix"].contains(&plain.as_str()) {
        // The error does not repeat the scheme, because part of the password may be in it.
        return Err(invalid("it begins with another scheme"));
    }
    let config = Config::from_url(&format!("{plain}://{rest}"));
    let mut config = config.map_err(|error| invalid(problem(&plain, &error)))?;
    if tls {
        config.tls = Some(native_tls()?);
    }
    Ok(config)
}

/// Returns the mistake in a URL of this scheme, in place of the words of fred and of the crate `url`.
fn problem(scheme: &str, error: &Error) -> &'static str {
    match (error.kind(), error.details()) {
        (ErrorKind::Url, "InvalidPort") => "its port is not a number up to 65535",
        (ErrorKind::Url, "EmptyHost") | (_, "Invalid or missing host.") => "it has no host",
        (ErrorKind::Url, _) => "its host is not a name or an address",
        (_, details) if details.contains("service name") => "it has no `sentinelServiceName`",
        (_, details) if details.contains("UTF-8") => "its user or password is not UTF-8",
        _ if scheme == "redis" => "its path is not the number of a database",
        _ if scheme == "redis-cluster" => "a `node` is not written as `host:port`",
        _ => "its path is not the number of a database, or a `node` is not written as `host:port`",
    }
}

/// Rejects a configuration that leads to no server.
pub(super) fn validate(config: &Config) -> Result<(), RedisError> {
    match &config.server {
        ServerConfig::Unix { path } if path.file_name().is_none() => Err(RedisError::config(
            "it has no path to a socket: write it as `redis+unix:///path/to.sock`",
        )),
        server if server.hosts().is_empty() => Err(RedisError::config(
            "it has no servers: add the address of at least one",
        )),
        _ => Ok(()),
    }
}

/// Configures TLS with rustls and ring, and the certificates that the system trusts.
fn native_tls() -> Result<TlsConfig, RedisError> {
    let invalid = |error: fred::rustls::Error| RedisError::Config(format!("TLS: {error}"));
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        let problem = "TLS: the system has no root certificates: install `ca-certificates`";
        return Err(RedisError::config(problem));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(invalid)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(config).into())
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

/// Returns a random time between the starts of two attempts to connect, so that a fleet does not reconnect all at
/// once.
pub(super) fn pause() -> Duration {
    RECONNECT_DELAY + Duration::from_micros(random::number() % 50_000)
}

/// Lists the settings of a borrowed client that differ from our own clients, with the recommended values.
pub(super) fn differences(client: &Client) -> Vec<String> {
    let theirs = client.connection_config();
    let silence = theirs.unresponsive.max_timeout;
    let delay = client
        .client_reconnect_policy()
        .and_then(|mut policy| policy.next_delay());
    let soon = 2 * RECONNECT_DELAY;
    [
        too_long("connection_timeout", theirs.connection_timeout),
        too_long("internal_command_timeout", theirs.internal_command_timeout),
        (theirs.max_command_buffer_len > 0).then(|| {
            let bound = theirs.max_command_buffer_len;
            format!("max_command_buffer_len is {bound}, and what comes after that is reached waits: use 0")
        }),
        silence
            .is_none_or(|silence| silence > 2 * PING_TIMEOUT)
            .then(|| format!("unresponsive.max_timeout is {silence:?}: use {PING_TIMEOUT:?}")),
        (!theirs.reconnect_errors.contains(&ReconnectError::ReadOnly))
            .then(|| "reconnect_errors are without ReadOnly: add it".to_owned()),
        delay
            .is_none_or(|delay| Duration::from_millis(delay) > soon)
            .then(|| format!("the reconnect policy waits for {delay:?} ms: use at most {soon:?}")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns how often a borrowed client resends commands, if it does.
pub(super) fn replays(client: &Client) -> Option<u32> {
    let attempts = client.connection_config().max_command_attempts;
    (attempts != 1).then_some(attempts)
}

fn too_long(name: &str, timeout: Duration) -> Option<String> {
    (timeout > INTERNAL_TIMEOUT)
        .then(|| format!("{name} is {timeout:?}: use at most {INTERNAL_TIMEOUT:?}"))
}
