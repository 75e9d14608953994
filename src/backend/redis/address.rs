//! The servers of a backend: a URL, and what stands beside it.

use std::fmt;

use fred::{
    error::{Error, ErrorKind},
    types::config::{Config, Server, ServerConfig},
};

use super::{error::RedisError, tls::TlsSettings};

/// The servers, and how to log in to them.
#[derive(Clone)]
pub(super) struct ServerAddress {
    pub(super) url: String,
    /// Further nodes of a cluster, or sentinels.
    pub(super) nodes: Vec<(String, u16)>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: Option<u8>,
    pub(super) tls: TlsSettings,
}

impl ServerAddress {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            nodes: Vec::new(),
            user: None,
            password: None,
            database: None,
            tls: TlsSettings::default(),
        }
    }

    /// Returns the configuration of a client of these servers.
    pub(super) fn config(&self) -> Result<Config, RedisError> {
        let mut config = parse(&self.url, &self.tls)?;
        self.add_nodes(&mut config.server)?;
        if let Some(user) = &self.user {
            config.username = Some(user.clone());
        }
        if let Some(password) = &self.password {
            config.password = Some(password.clone());
        }
        if let Some(database) = self.database {
            if config.server.is_clustered() {
                return Err(RedisError::config(
                    "a cluster has no databases: leave out `database`",
                ));
            }
            config.database = Some(database);
        }
        Ok(config)
    }

    fn add_nodes(&self, server: &mut ServerConfig) -> Result<(), RedisError> {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|(host, port)| Server::new(host.as_str(), *port));
        match server {
            ServerConfig::Clustered { hosts, .. } | ServerConfig::Sentinel { hosts, .. } => {
                hosts.extend(nodes);
            }
            _ if self.nodes.is_empty() => {}
            _ => {
                return Err(RedisError::config(
                    "a single server has no other nodes: leave out `node`, or use `redis-cluster://` or \
                     `redis-sentinel://`",
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ServerAddress {
    /// Leaves out the URL, because it can contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerAddress")
            .field("nodes", &self.nodes)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// Parses a URL into a configuration.
fn parse(url: &str, tls: &TlsSettings) -> Result<Config, RedisError> {
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
    let (plain, has_tls) = match scheme
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
    if has_tls {
        config.tls = Some(tls.connector()?);
    } else if !tls.is_default() {
        return Err(RedisError::config(
            "it has certificates, but its URL is without TLS: use `rediss://`, `rediss-cluster://` or \
             `rediss-sentinel://`",
        ));
    }
    match &config.server {
        ServerConfig::Unix { path } if path.file_name().is_none() => Err(RedisError::config(
            "it has no path to a socket: write it as `redis+unix:///path/to.sock`",
        )),
        _ => Ok(config),
    }
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
