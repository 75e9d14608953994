//! The rate limiter's part of the registry's configuration.

use std::{fs, io, path::Path};

use serde::Deserialize;
use thiserror::Error;
use tollgate::backend::redis::fred::types::config::{Config as Servers, ServerConfig};

/// Reads the Redis servers, if rate limiting is enabled.
pub(crate) fn read(path: &Path) -> Result<Option<Servers>, ConfigError> {
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
    match limiter.enabled {
        true => limiter.servers().map(Some).map_err(error),
        false => Ok(None),
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
    fn servers(self) -> Result<Servers, Problem> {
        if self.addr.is_empty() {
            return Err(Problem::NoAddress);
        }
        let addresses = self.addr.split(',').map(address);
        let mut addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        let server = match (self.mainname, addresses.len()) {
            (Some(name), _) => ServerConfig::new_sentinel(addresses, name),
            (None, 1) => {
                let (host, port) = addresses.remove(0);
                ServerConfig::new_centralized(host, port)
            }
            (None, _) => ServerConfig::new_clustered(addresses),
        };
        Ok(Servers {
            server,
            username: self.username,
            password: self.password,
            database: (self.db > 0).then_some(self.db),
            ..Servers::default()
        })
    }
}

/// Splits `host:port`, where the host may be an IPv6 address in brackets.
fn address(text: &str) -> Result<(String, u16), Problem> {
    let text = text.trim();
    let split = text.rsplit_once(':').and_then(|(host, port)| {
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_whole = !host.is_empty() && (bare.is_some() || !host.contains(':'));
        let port = port.parse().ok()?;
        is_whole.then(|| (bare.unwrap_or(host).to_owned(), port))
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
}
