//! The URL of servers.

use fred::types::config::{Config, ServerConfig};

use super::error::RedisError;

/// Parses a URL. Returns the configuration, and whether the URL asks for TLS. Errors quote no part of the URL, because any part can
/// be a misplaced password.
pub(super) fn parse(url: &str) -> Result<(Config, bool), RedisError> {
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
    // The URL is parsed without TLS, because fred would use the process's default cryptography provider for it. A process can have
    // none, or two candidates.
    let plain = scheme.replacen("valkey", "redis", 1);
    let (plain, has_tls) = match plain.strip_prefix("rediss") {
        Some(kind) => (format!("redis{kind}"), true),
        None => (plain, false),
    };
    let parameters: &[&str] = match &*plain {
        "redis" | "redis+unix" => &[],
        "redis-cluster" => &["node"],
        "redis-sentinel" => &[
            "node",
            "sentinelServiceName",
            "sentinelUsername",
            "sentinelPassword",
        ],
        _ => return Err(invalid("it begins with another scheme")),
    };
    check_login(rest, plain == "redis+unix")?;
    check_query(rest, &plain, parameters)?;
    let config = Config::from_url(&format!("{plain}://{rest}"));
    // Replaces the messages of fred and of the crate `url`.
    let problem = "its host, port, path or a parameter is missing or not valid";
    let config = config.map_err(|_| invalid(problem))?;
    match &config.server {
        ServerConfig::Unix { path } if path.file_name().is_none() => Err(RedisError::config(
            "it has no path to a socket: write it as `redis+unix:///path/to.sock`",
        )),
        ServerConfig::Clustered { .. } if rest.trim_end_matches('/').contains('/') => Err(
            RedisError::config("a cluster has no databases: remove the path of its URL"),
        ),
        _ => Ok((config, has_tls)),
    }
}

/// Rejects a user or a password with reserved characters, which fred would read as something else.
fn check_login(rest: &str, is_unix: bool) -> Result<(), RedisError> {
    let (authority, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let login = authority.rsplit_once('@').map(|(login, _)| login);
    let is_reserved = match login {
        Some(login) => login.contains('@') || login.matches(':').count() > 1,
        None => is_unix && authority.contains(':'),
    };
    // Only the path of a socket can have this character.
    let is_cut = if is_unix {
        after
            .split_once(['?', '#'])
            .is_some_and(|(_, after)| after.contains('@'))
    } else {
        after.contains('@')
    };
    if is_reserved || is_cut {
        Err(RedisError::config(
            "a character of the password, or of the user, is reserved (`@`, `:`, `/`, `?` or `#`): percent-encode it, or use \
             `.password()` and `.user()`",
        ))
    } else {
        Ok(())
    }
}

/// Rejects the parts of a URL that fred would ignore: unknown parameters, and everything after a `#`.
fn check_query(rest: &str, scheme: &str, known: &[&str]) -> Result<(), RedisError> {
    if rest.contains('#') {
        return Err(RedisError::config(
            "nothing reads what follows the `#` in its URL: remove it",
        ));
    }
    let (_, query) = rest.split_once('?').unwrap_or_default();
    let parameters = query.split('&').filter(|parameter| !parameter.is_empty());
    for (name, value) in parameters.map(|text| text.split_once('=').unwrap_or((text, ""))) {
        let remedy = match (name, value.parse::<u8>()) {
            _ if known.contains(&name) => continue,
            ("db" | "database", Ok(number)) if ["redis", "redis-sentinel"].contains(&scheme) => {
                &format!("write `/{number}` after the host")
            }
            ("tls" | "ssl", _) => {
                let scheme = scheme.replacen("redis", "rediss", 1);
                &format!("remove it, and write `{scheme}://` for TLS")
            }
            _ => "remove it, or use a setter of the builder",
        };
        let unread = format!("nothing reads a query parameter of its URL: {remedy}");
        return Err(RedisError::Config(unread));
    }
    Ok(())
}
