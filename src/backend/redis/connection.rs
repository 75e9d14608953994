//! Connects to a server: finds it, logs in, and lets it decide about a bucket that no client has. A connection is never repaired,
//! and a command is never sent again.

use std::{io, iter, sync::LazyLock, time::Duration};

use sha1_smol::Sha1;
use tokio::{net::TcpStream, time};
use tokio_rustls::rustls;

use super::{
    address::Target,
    error::{CommandFailure, Failure, RedisError},
    protocol,
    resp::RedisValue,
    server_set::{Login, ServerAddress, ServerSet},
    wire::{ConnectionTask, Wire},
};

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
pub(super) static SHA: LazyLock<String> = LazyLock::new(|| Sha1::from(SCRIPT).hexdigest());

/// The longest time for connecting to one server or sentinel, and for commands other than decisions.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

/// The longest that connecting may take in total, including several sentinels.
const CONNECTING: Duration = Duration::from_secs(5);

/// An open connection to a server that decides.
#[derive(Clone)]
pub(super) struct Connection(Wire);

impl Connection {
    /// Connects once, and lets the server decide about a bucket that no client has. This loads the script, and shows whether the
    /// user may run it.
    pub(super) async fn open(target: &Target) -> Result<(Self, ConnectionTask), RedisError> {
        let opened = time::timeout(CONNECTING, Self::find(target));
        let opened = opened.await;
        let opened =
            opened.unwrap_or_else(|_| Err(RedisError::ended("it takes too long to connect")));
        match opened {
            Err(RedisError::Disconnected(reason)) => Err(match other_protocol(target).await {
                Some(mistake) => RedisError::config(mistake),
                None => RedisError::Disconnected(reason),
            }),
            opened => opened,
        }
    }

    async fn find(target: &Target) -> Result<(Self, ConnectionTask), RedisError> {
        let server = match &target.servers {
            ServerSet::One(server) | ServerSet::Proxy(server) => server.clone(),
            ServerSet::Cluster(servers) => servers[0].clone(),
            ServerSet::Sentinels { .. } => master(target).await?,
        };
        let asked = match &target.ask_login {
            Some(ask) => Some(ask().await?),
            None => None,
        };
        let mut opening = Opening::new(&server, target).await?;
        opening
            .log_in(asked.as_ref().unwrap_or(&target.login))
            .await?;
        if let Some(database) = target.database {
            let database = RedisValue::Integer(database.into());
            opening.command("SELECT", &[database]).await?;
        }
        opening.probe().await?;
        Ok((Self(opening.wire), opening.ending))
    }

    /// Sends a command once, without delay. If `asking`, the command is for a slot that the server is importing.
    pub(super) fn send(
        &self,
        command: &'static str,
        arguments: &[RedisValue],
        asking: bool,
        timeout: Duration,
    ) -> impl Future<Output = Result<RedisValue, CommandFailure>> + Send + use<> {
        self.0.send(command, arguments, asking, timeout)
    }
}

/// Asks one sentinel after the other for the master.
async fn master(target: &Target) -> Result<ServerAddress, RedisError> {
    let ServerSet::Sentinels {
        sentinels,
        service,
        login,
    } = &target.servers
    else {
        return Err(RedisError::config("there are no sentinels"));
    };
    let mut trouble = RedisError::Timeout;
    for sentinel in sentinels {
        match ask_sentinel(sentinel, target, login, service).await {
            Ok(RedisValue::Nothing) => {
                return Err(RedisError::config(
                    "the sentinel has no service of this name: write the name of its `sentinel monitor` as `sentinelServiceName`",
                ));
            }
            Ok(found) => {
                let parts = found.as_array().unwrap_or_default();
                if let [host, port] = parts
                    && let (Some(host), Some(Ok(port))) =
                        (host.as_str(), port.as_str().map(str::parse))
                {
                    let host = host.into();
                    return Ok(ServerAddress::Tcp { host, port });
                }
                trouble = RedisError::Garbled(format!("{found:?}"));
            }
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

async fn ask_sentinel(
    sentinel: &ServerAddress,
    target: &Target,
    login: &Login,
    service: &str,
) -> Result<RedisValue, RedisError> {
    let mut opening = Opening::new(sentinel, target).await?;
    opening.log_in(login).await?;
    let question = [
        RedisValue::from_static_str("get-master-addr-by-name"),
        service.to_owned().into(),
    ];
    opening.command("SENTINEL", &question).await
}

/// A connection that is not ready yet.
struct Opening<'a> {
    target: &'a Target,
    wire: Wire,
    ending: ConnectionTask,
}

impl<'a> Opening<'a> {
    async fn new(server: &ServerAddress, target: &'a Target) -> Result<Self, RedisError> {
        let opened = time::timeout(PATIENCE, Wire::open(server, target.tls.as_ref())).await;
        let opened = opened.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (wire, ending) = opened.map_err(|error| unreachable_server(&error, server))?;
        Ok(Self {
            target,
            wire,
            ending,
        })
    }

    /// Sends a command, and names it if it is refused.
    async fn command(
        &mut self,
        name: &'static str,
        arguments: &[RedisValue],
    ) -> Result<RedisValue, RedisError> {
        match self.wire.send(name, arguments, false, PATIENCE).await {
            Ok(reply) => Ok(reply),
            Err(CommandFailure::Ended) => {
                let reason = self.ending.ended().await;
                Err(RedisError::ended(&format!(
                    "{reason}, after the command `{name}`"
                )))
            }
            Err(failure) => Err(RedisError::connecting(&failure, name, &self.target.servers)),
        }
    }

    async fn log_in(&mut self, login: &Login) -> Result<(), RedisError> {
        let Some(password) = login.password.clone() else {
            return Ok(());
        };
        let arguments: Vec<_> = login
            .user
            .clone()
            .into_iter()
            .chain([password])
            .map(RedisValue::from)
            .collect();
        self.command("AUTH", &arguments).await.map(drop)
    }

    /// Runs the script on a bucket that no client has, with a time of our own. Two errors are accepted: the bucket's slot may be on
    /// another master of the cluster, and a server that accepts no writes at present reports that to later decisions.
    async fn probe(&mut self) -> Result<(), RedisError> {
        // The hash goes first, because the script is too long for a server that still waits for a password.
        let run = match self.run("EVALSHA", &SHA).await {
            Err(error) if error.code() == Some("NOSCRIPT") => self.run("EVAL", SCRIPT).await,
            run => run,
        };
        let Err(error) = run else {
            return Ok(());
        };
        let is_cluster = self.target.servers.is_cluster();
        match error.code() {
            Some("MOVED" | "ASK" | "TRYAGAIN" | "CLUSTERDOWN") if is_cluster => Ok(()),
            Some("MOVED" | "ASK") => Err(RedisError::config(
                "this is a cluster: use `redis-cluster://`",
            )),
            Some("OOM" | "MISCONF" | "NOREPLICAS") => Ok(()),
            _ => Err(error),
        }
    }

    async fn run(&mut self, command: &'static str, script: &'static str) -> Result<(), RedisError> {
        let arguments = protocol::encode(script, iter::once(&*self.target.probe));
        let reply = self.command(command, &arguments).await?;
        match protocol::decode(&reply, 1).and_then(|mut one| one.pop()) {
            Some(Ok(_)) => Ok(()),
            Some(Err(Failure::NotDone(error) | Failure::Unknown(error))) => Err(error),
            _ => Err(RedisError::Garbled(format!("{reply:?}"))),
        }
    }
}

/// Creates the error for a server that cannot be reached. Certificates are the most common mistake.
fn unreachable_server(error: &io::Error, server: &ServerAddress) -> RedisError {
    use rustls::{CertificateError, Error::InvalidCertificate};

    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let remedy = match inner {
        Some(InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) if server.is_ip() => {
            "if the URL has this address, write the server's name; if the servers announce it, let them announce their names, by \
             `cluster-announce-hostname` and `cluster-preferred-endpoint-type hostname` or, with sentinels, by \
             `replica-announce-ip`, `sentinel resolve-hostnames yes` and `sentinel announce-hostnames yes`"
        }
        Some(InvalidCertificate(CertificateError::UnknownIssuer)) => {
            "set the authority that has signed the certificate, with `.root_certificates()`"
        }
        _ => return RedisError::ended(&error.to_string()),
    };
    RedisError::Config(format!("TLS with {server}: {error}: {remedy}"))
}

/// Finds out whether the first server expects TLS and gets none, or the other way round.
async fn other_protocol(target: &Target) -> Option<&'static str> {
    let ServerAddress::Tcp { host, port } = target.servers.all().first()? else {
        return None;
    };
    let probe: &[u8] = match &target.tls {
        Some(_) => b"PING\r\n",
        // An empty handshake. A server with TLS answers it with an alert, and a server without closes the connection.
        None => &[0x16, 3, 1, 0, 4, 1, 0, 0, 0],
    };
    let mut first = [0];
    let answer = async {
        let stream = TcpStream::connect((&**host, *port)).await?;
        stream.writable().await?;
        stream.try_write(probe)?;
        stream.readable().await?;
        stream.try_read(&mut first)
    };
    time::timeout(PATIENCE, answer).await.ok()?.ok()?;
    match (first[0], &target.tls) {
        (b'+' | b'-', Some(_)) => {
            Some("the server is without TLS: use `redis://`, without the second `s`")
        }
        // The type of an alert.
        (0x15, None) => Some("the server expects TLS: use `rediss://`"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_has_to_become_a_name() {
        for (host, is_permanent) in [("127.0.0.1", true), ("::1", true), ("localhost", false)] {
            let server = ServerAddress::Tcp {
                host: host.into(),
                port: 6379,
            };
            let wrong_name = rustls::CertificateError::NotValidForName;
            let error = io::Error::other(rustls::Error::InvalidCertificate(wrong_name));
            let error = unreachable_server(&error, &server);
            assert_eq!(error.is_permanent(), is_permanent, "{error}");
        }
    }
}
