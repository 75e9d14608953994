//! The URL of servers.

use std::{future::Future, net::Ipv6Addr, path::Path, pin::Pin, sync::Arc};

use percent_encoding::percent_decode_str;
use tokio_rustls::TlsConnector;

use super::{
    error::RedisError,
    protocol::Call,
    server_set::{Login, ServerAddress, ServerSet},
};

/// Where the servers are, and how to log in to them.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) servers: ServerSet,
    pub(super) login: Login,
    /// The function that returns the login for each connection, if the application provides one.
    pub(super) ask_login: Option<Arc<AskLogin>>,
    pub(super) database: Option<u8>,
    pub(super) tls: Option<TlsConnector>,
    /// The call with which a server shows that it decides.
    pub(super) probe: Arc<Call>,
}

/// A function that returns a user and a password.
pub(super) type AskLogin =
    dyn Fn() -> Pin<Box<dyn Future<Output = Result<Login, RedisError>> + Send>> + Send + Sync;

/// Parses a URL. Returns the target, and whether the URL asks for TLS. Errors quote no part of the URL, because any part can be a
/// misplaced password.
pub(super) fn parse(url: &str, probe: Arc<Call>) -> Result<(Target, bool), RedisError> {
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
    let plain = scheme.replacen("valkey", "redis", 1);
    let (plain, has_tls) = match plain.strip_prefix("rediss") {
        Some(kind) => (format!("redis{kind}"), true),
        None => (plain, false),
    };
    let parameters: &[&str] = match &*plain {
        "redis" | "redis-proxy" | "redis+unix" => &[],
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
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = path.trim_end_matches('/');
    match &*plain {
        "redis+unix" if path.is_empty() => {
            return Err(RedisError::config(
                "it has no path to a socket: write it as `redis+unix:///path/to.sock`",
            ));
        }
        "redis-cluster" if !path.is_empty() => {
            return Err(RedisError::config(
                "a cluster has no databases: remove the path of its URL",
            ));
        }
        _ => {}
    }
    let target = target(&plain, authority, path, query, probe);
    let problem = "its host, port, path or a parameter is missing or not valid";
    Ok((target.ok_or_else(|| invalid(problem))?, has_tls))
}

/// Reads the parts of a URL.
fn target(
    scheme: &str,
    authority: &str,
    path: &str,
    query: &str,
    probe: Arc<Call>,
) -> Option<Target> {
    let (login, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let text = |text: &str| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
    let some_text = |part: &str| text(part).map(|part| Some(part).filter(|part| !part.is_empty()));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let values = |name| pairs.clone().filter(move |(found, _)| *found == name);
    let value = |name| {
        values(name)
            .next()
            .map_or(Some(None), |(_, value)| some_text(value))
    };
    let servers = |default_port| {
        let nodes = values("node").map(|(_, node)| server(node, None));
        let first = server(host, Some(default_port));
        [first].into_iter().chain(nodes).collect::<Option<Vec<_>>>()
    };
    let mut database = None;
    let servers = match scheme {
        "redis+unix" => ServerSet::One(ServerAddress::Unix(Path::new(&text(path)?).into())),
        "redis-cluster" => ServerSet::Cluster(servers(6379)?),
        scheme => {
            if let Some(number) = path.strip_prefix('/') {
                database = Some(number.parse().ok()?);
            }
            match scheme {
                "redis" => ServerSet::One(server(host, Some(6379))?),
                "redis-proxy" => ServerSet::Proxy(server(host, Some(6379))?),
                _ => ServerSet::Sentinels {
                    sentinels: servers(26379)?,
                    service: value("sentinelServiceName")??,
                    login: Login {
                        user: value("sentinelUsername")?,
                        password: value("sentinelPassword")?,
                    },
                },
            }
        }
    };
    Some(Target {
        servers,
        login: Login {
            user: some_text(user)?,
            password: some_text(password)?,
        },
        ask_login: None,
        database,
        tls: None,
        probe,
    })
}

/// Reads a host and a port, which may be missing if there is a default.
fn server(text: &str, default_port: Option<u16>) -> Option<ServerAddress> {
    let (host, port) = match text.strip_prefix('[') {
        Some(text) => {
            let (host, rest) = text.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            let port = rest.strip_prefix(':');
            if port.is_none() && !rest.is_empty() {
                return None;
            }
            (host, port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    let is_host = !host.is_empty() && host.bytes().all(is_of_host);
    let port = port.map_or(default_port, |port| port.parse().ok())?;
    let host = host.into();
    is_host.then_some(ServerAddress::Tcp { host, port })
}

/// Rejects a user or a password with reserved characters, which would be read as something else.
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

/// Rejects the parts of a URL that would be ignored: unknown parameters, and everything after a `#`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_of_version_6_stands_in_brackets() {
        for (text, shown) in [
            ("[::1]", Some("[::1]:6379")),
            ("[::1]:7", Some("[::1]:7")),
            ("[::1]7", None),
            ("[::1", None),
            ("[localhost]", None),
            ("localhost", Some("localhost:6379")),
        ] {
            let address = server(text, Some(6379)).map(|address| address.to_string());
            assert_eq!(address.as_deref(), shown, "{text}");
        }
    }

    #[test]
    fn remedy_for_a_database_fits_the_scheme() {
        for (scheme, remedy) in [
            ("redis", "write `/1` after the host"),
            ("redis-sentinel", "write `/1` after the host"),
            ("redis-cluster", "use a setter of the builder"),
        ] {
            let error = check_query("host?db=1", scheme, &["node"]).unwrap_err();
            assert!(error.to_string().contains(remedy), "{scheme}: {error}");
        }
    }
}
