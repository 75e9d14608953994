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
    pub(super) sentinel_password: Option<String>,
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
            sentinel_password: None,
            database: None,
            tls: TlsSettings::default(),
        }
    }

    /// Returns the configuration of a client of these servers.
    pub(super) fn config(&self) -> Result<Config, RedisError> {
        let mut config = parse(&self.url, &self.tls)?;
        let nodes = self
            .nodes
            .iter()
            .map(|(host, port)| Server::new(host.as_str(), *port));
        let mistake = match &mut config.server {
            ServerConfig::Clustered { .. } if self.database.is_some() => {
                Some("a cluster has no databases: leave out `database`")
            }
            ServerConfig::Clustered { hosts, .. } => {
                hosts.extend(nodes);
                self.no_sentinels()
            }
            ServerConfig::Sentinel {
                hosts, password, ..
            } => {
                hosts.extend(nodes);
                *password = self.sentinel_password.clone().or(password.take());
                None
            }
            _ if !self.nodes.is_empty() => Some(
                "a single server has no other nodes: leave out `node`, or use `redis-cluster://` or `redis-sentinel://`",
            ),
            _ => self.no_sentinels(),
        };
        config.username = self.user.clone().or(config.username);
        config.password = self.password.clone().or(config.password);
        config.database = self.database.or(config.database);
        // fred would wait for a server that is not there yet.
        config.fail_fast = true;
        match mistake {
            Some(mistake) => Err(RedisError::config(mistake)),
            None => Ok(config),
        }
    }

    fn no_sentinels(&self) -> Option<&'static str> {
        let is_set = self.sentinel_password.is_some();
        is_set.then_some(
            "there are no sentinels: leave out `sentinel_password`, or use `redis-sentinel://`",
        )
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

/// Parses a URL into a configuration. Errors repeat no part of it, because any part can be a password that was misplaced.
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
    let plain = scheme.replacen("valkey", "redis", 1);
    let (plain, has_tls) = match plain.strip_prefix("rediss") {
        Some(kind) => (format!("redis{kind}"), true),
        None => (plain, false),
    };
    if !["redis", "redis-cluster", "redis-sentinel", "redis+unix"].contains(&&*plain) {
        return Err(invalid("it begins with another scheme"));
    }
    check_parts(&plain, rest).map_err(RedisError::Config)?;
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

/// Checks what fred would read as something else, or drop: passwords with reserved characters, and unknown parameters.
fn check_parts(scheme: &str, rest: &str) -> Result<(), String> {
    const RESERVED: &str = "a character of the password, or of the user, is reserved (`@`, `:`, `/`, `?` or `#`): percent-encode it, or use \
         `.password()` and `.user()`";
    let (authority, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (before, fragment) = after.split_once('#').unwrap_or((after, ""));
    let (path, query) = before.split_once('?').unwrap_or((before, ""));
    let is_unix = scheme == "redis+unix";
    let is_reserved = match authority.rsplit_once('@') {
        Some((login, _)) => {
            login.contains('@') || login.matches(':').count() > 1 || !is_unix && path.contains('@')
        }
        None => {
            let is_cut = is_unix && authority.contains(':');
            is_cut || !is_unix && path.contains('@')
        }
    };
    if is_reserved || fragment.contains('@') {
        return Err(RESERVED.to_owned());
    }
    if after.contains('#') {
        return Err("nothing reads what follows the `#` in its URL: remove it".to_owned());
    }
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let is_read = match scheme {
            "redis-cluster" => name == "node",
            "redis-sentinel" => [
                "node",
                "sentinelServiceName",
                "sentinelUsername",
                "sentinelPassword",
            ]
            .contains(&name),
            _ => false,
        };
        if !is_read {
            let unread =
                |remedy: &str| format!("nothing reads a query parameter of its URL: {remedy}");
            return Err(match parameter.contains('@') {
                true => RESERVED.to_owned(),
                false => unread(&remedy(scheme, name, value)),
            });
        }
    }
    Ok(())
}

/// Returns what to write instead of a query parameter.
fn remedy(scheme: &str, name: &str, value: &str) -> String {
    let remedy = match (&*name.to_ascii_lowercase(), scheme) {
        ("db" | "database", "redis-cluster") => "a cluster has no databases, so remove it",
        ("db" | "database", "redis+unix") => "use `.database()`",
        ("db" | "database", _) => {
            let number = value
                .parse::<u8>()
                .map_or_else(|_| "number".to_owned(), |number| number.to_string());
            return format!("write `/{number}` after the host");
        }
        ("user" | "username" | "password", _) => {
            "write `user:password@` before the host, or use `.user()` and `.password()`"
        }
        ("timeout", _) => "use `.timeout()`",
        ("tls" | "ssl", _) => "use `rediss://`",
        _ => "remove it",
    };
    remedy.to_owned()
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
