//! The rate limiter's part of the registry's configuration.

use std::{fs, io, path::Path};

use serde::Deserialize;
use thiserror::Error;
use tollgate::{RedisBackend, backend::redis::RedisBackendBuilder};

/// Reads the settings of the Redis servers, if rate limiting is enabled.
pub(crate) fn read(path: &Path) -> Result<Option<RedisBackendBuilder>, ConfigError> {
    let error = |problem| ConfigError {
        path: path.display().to_string(),
        problem,
    };
    let text = fs::read_to_string(path).map_err(|source| error(source.into()))?;
    // The lines around a mistake can contain the password.
    let options = serde_saphyr::options! { with_snippet: false };
    let config: Config = serde_saphyr::from_str_with_options(&text, options)
        .map_err(|source| error(Box::new(source).into()))?;
    let limiter = config.redis.ratelimiter;
    if limiter.enabled {
        limiter.servers().map(Some).map_err(error)
    } else {
        Ok(None)
    }
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    redis: Redis,
}

#[derive(Default, Deserialize)]
struct Redis {
    #[serde(default)]
    ratelimiter: RateLimiter,
}

/// Unknown fields, such as `tls`, are errors, because ignoring them would be worse.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RateLimiter {
    enabled: bool,
    addr: String,
    /// The sentinels' name of the master.
    mainname: Option<String>,
    username: Option<String>,
    password: Option<String>,
    db: u8,
}

impl RateLimiter {
    fn servers(self) -> Result<RedisBackendBuilder, Problem> {
        if self.addr.is_empty() {
            return Err(Problem::NoAddress);
        }
        let addresses = self.addr.split(',').map(address);
        let mut addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        let ((host, port), others) = (addresses.remove(0), addresses);
        let nodes = others
            .iter()
            .map(|(host, port)| format!("&node={host}:{port}"));
        let (nodes, db) = (nodes.collect::<String>(), self.db);
        let url = match (&self.mainname, others.len()) {
            (Some(name), _) if !is_main_name(name) => return Err(Problem::MainName(name.clone())),
            (Some(name), _) => {
                format!("redis-sentinel://{host}:{port}/{db}?sentinelServiceName={name}{nodes}")
            }
            (None, 0) => format!("redis://{host}:{port}/{db}"),
            (None, _) if db == 0 => format!("redis-cluster://{host}:{port}?{nodes}"),
            (None, _) => format!("redis-cluster://{host}:{port}/{db}?{nodes}"),
        };
        let mut redis = RedisBackend::builder(url);
        if let Some(user) = self.username {
            redis = redis.user(user);
        }
        if let Some(password) = self.password {
            redis = redis.password(password);
        }
        Ok(redis)
    }
}

/// Returns whether sentinels accept the name of a master.
fn is_main_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
}

/// Splits `host:port`, where the host may be an IPv6 address, which keeps its brackets.
fn address(text: &str) -> Result<(String, u16), Problem> {
    let text = text.trim();
    let split = text.rsplit_once(':').and_then(|(host, port)| {
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_whole = !host.is_empty() && (bare.is_some() || !host.contains(':'));
        let port = port.parse().ok()?;
        is_whole.then(|| (host.to_owned(), port))
    });
    split.ok_or_else(|| Problem::Address(text.to_owned()))
}

/// The error for an invalid file.
#[derive(Debug, Error)]
#[error("{path}: {problem}")]
pub(crate) struct ConfigError {
    path: String,
    problem: Problem,
}

#[derive(Debug, Error)]
enum Problem {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Yaml(#[from] Box<serde_saphyr::Error>),
    #[error("redis.ratelimiter is enabled and has no `addr`: name the server, as `127.0.0.1:6379`")]
    NoAddress,
    #[error("redis.ratelimiter.addr: `{0}` is no address: write it as `127.0.0.1:6379`")]
    Address(String),
    #[error("redis.ratelimiter.mainname: `{0}` is no name: use letters, digits, `.`, `-` and `_`")]
    MainName(String),
}
