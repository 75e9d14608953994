//! Errors of Redis, and their meaning for a decision.

use std::fmt;

use fred::{
    error::{Error, ErrorKind},
    types::config::ServerConfig,
};
use thiserror::Error as ThisError;

use crate::{backend::BackendError, message::debug_is_message};

/// An error of Redis. It is the source of a [`BackendError::Unavailable`], a [`BackendError::NotDone`] or a
/// [`BackendError::Undecidable`]. The [guide](crate::guide::redis#when-redis-fails) has examples.
#[derive(Clone, ThisError)]
#[non_exhaustive]
pub enum RedisError {
    /// There was no answer in time. The charge may have been made.
    #[error("Redis did not answer in time")]
    Timeout,
    /// There is no connection. If it broke while the answer was on its way, the charge may have been made.
    #[error("there is no connection to Redis ({0})")]
    Disconnected(String),
    /// The server has failed several times in a row, so it is not asked for up to a second. Nothing was sent.
    #[error("Redis has failed several times in a row, and is not asked for a moment")]
    CircuitOpen,
    /// Too many decisions are waiting.
    #[error("too many decisions are waiting for Redis: it cannot keep up")]
    Busy,
    /// A batch of so many transactions does not fit into one command of Redis. Nothing was sent.
    #[error("a batch of {0} transactions is too large for one command of Redis: split it")]
    TooLarge(usize),
    /// Redis answered with an error, and nothing was charged. `CLUSTERDOWN` may be the answer to an earlier call, because it ends
    /// the connection, and fails all calls that wait on it.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// The answer does not come from the script.
    #[error(
        "Redis gave an unexpected answer, {0}: check that all processes that share these buckets run the same version of \
         tollgate, and that nothing else writes to its keys"
    )]
    Garbled(String),
    /// The key of a bucket holds a value that is not a bucket. The error concerns only the requests of this bucket.
    #[error(
        "the key `{key}` is not a bucket, because {found}: reset this bucket or remove the key; if the value returns, \
         something else uses these keys: give tollgate a prefix of its own"
    )]
    NotABucket {
        /// The key, without the id if ids are secret.
        key: String,
        /// What is wrong with the value.
        found: &'static str,
    },
    /// The URL or the configuration is not valid for a client.
    #[error("cannot create a Redis client from this configuration: {0}")]
    Config(String),
}

debug_is_message!(RedisError);

impl RedisError {
    pub(super) fn config(problem: &str) -> Self {
        Self::Config(problem.to_owned())
    }

    /// Creates the error for an error of the client.
    pub(super) fn of(error: &Error) -> Self {
        let reply = error.details();
        match (mistake(reply), error.kind()) {
            (Some(mistake), _) => Self::config(mistake),
            (None, ErrorKind::Timeout) => Self::Timeout,
            (None, _) if is_code(code(reply)) => Self::refused(reply),
            (None, ErrorKind::Config | ErrorKind::Url) => Self::config(reply),
            (None, _) => Self::Disconnected(reply.to_owned()),
        }
    }

    /// Creates the error for a connection that has ended, or could not be made to these servers.
    pub(super) fn disconnected(error: &Error, servers: &ServerConfig) -> Self {
        let reason = error.details();
        let text = with_remedy(reason, Some(servers));
        match Self::of(error) {
            Self::Refused(_) => Self::Refused(text),
            Self::Timeout | Self::Disconnected(_) => Self::Disconnected(text),
            error => error,
        }
    }

    /// Creates the error for a connection that this client has ended.
    pub(super) fn ended(reason: &str) -> Self {
        Self::Disconnected(reason.to_owned())
    }

    /// Creates the error for an error answer of Redis, with a remedy.
    pub(super) fn refused(reply: &str) -> Self {
        Self::Refused(with_remedy(reply, None))
    }

    /// Returns whether a server refused to write because it is a replica. This happens after a failover, and the client then
    /// looks for the new master.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Refused(text) if code(text) == "READONLY")
    }

    /// Returns whether waiting will not help, for example because the password is wrong or the server is of another kind.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Config(_) => true,
            Self::Refused(text) => matches!(code(text), "NOAUTH" | "WRONGPASS" | "NOPERM"),
            _ => false,
        }
    }
}

fn with_remedy(reply: &str, servers: Option<&ServerConfig>) -> String {
    let remedy = remedy(reply, servers);
    remedy.map_or_else(|| reply.to_owned(), |remedy| format!("{reply} ({remedy})"))
}

fn is_code(word: &str) -> bool {
    word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Returns the code of an error. Before Redis 7, a script's errors begin with `ERR Error running script`, and the error
/// itself follows a hyphen.
fn code(reply: &str) -> &str {
    let mut words = reply.split_whitespace();
    let first = words.next().unwrap_or_default();
    let mut within = words.filter_map(|word| word.strip_prefix('-'));
    let within = within.find(|word| is_code(word));
    match (first, within) {
        (_, Some(within)) if !is_code(first) || first == "ERR" => within,
        _ => first,
    }
}

/// The remedy if sentinels refuse the password, ask for one, or do not answer.
const SENTINELS: &str = "the user and the password in the URL are those of the servers: sentinels with a password of their own need \
    `sentinelPassword` in the URL, or `.sentinel_password()`";

/// Returns what is wrong with the URL, for an error that lasts until it is changed.
fn mistake(reply: &str) -> Option<&'static str> {
    Some(match reply {
        _ if reply.contains("cluster support disabled") => "this is no cluster: use `redis://`",
        _ if reply.contains("unknown command 'SENTINEL'") => "this is no sentinel: use `redis://`",
        // fred's message for a service that the sentinel does not have.
        _ if reply.contains("Missing primary address") => {
            "the sentinel has no service of this name: write the name of its `sentinel monitor` as `sentinelServiceName`"
        }
        _ => return None,
    })
}

/// Returns what to change if the configuration of a client or a server has caused the error.
fn remedy(reply: &str, servers: Option<&ServerConfig>) -> Option<&'static str> {
    Some(match (code(reply), servers) {
        ("NOAUTH" | "WRONGPASS", Some(ServerConfig::Sentinel { .. })) => SENTINELS,
        (_, Some(ServerConfig::Sentinel { .. })) if reply.contains("all sentinel nodes") => {
            SENTINELS
        }
        ("NOAUTH" | "WRONGPASS", Some(ServerConfig::Unix { .. })) => {
            "write the user and the password as `redis+unix://user:password@unix/path/to.sock`, or use `.password()`"
        }
        ("NOAUTH", _) => {
            "put the password in the URL, as `redis://:password@host`, or use `.password()`"
        }
        ("WRONGPASS", _) => "check the user and the password in the URL",
        ("NOPERM", _) => {
            "allow the user `+eval +evalsha +time +get +set +append +pttl +pexpire +del +ping +client|id +info` on these \
             keys, and `+select` for a database"
        }
        ("OOM", _) => "the server is out of memory: raise `maxmemory`",
        ("NOREPLICAS", _) => "start the master's replicas, or lower `min-replicas-to-write`",
        ("MISCONF", _) => {
            "the server cannot save its data: free its disk, or look for the reason in its log"
        }
        ("MOVED" | "ASK" | "CROSSSLOT", _) => "this is a cluster: use `redis-cluster://`",
        ("READONLY", _) => {
            "if this lasts, name the master, or use `redis-sentinel://` or `redis-cluster://`"
        }
        _ if reply.contains("unknown command 'EVAL") => {
            "it runs no scripts: if this is a sentinel, use `redis-sentinel://`"
        }
        _ => return None,
    })
}

/// The reason why a call has not led to a decision.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Some of the keys have moved to another server, and others have not yet. Each can still be asked for alone.
    TryAgain,
    /// The keys are on another server, or are being moved there. The host is missing if it is that of the answering server.
    Redirected {
        host: String,
        port: u16,
        asking: bool,
    },
    /// The server's clock shows this time, which is outside of the periods that were sent.
    Clock(u64),
    /// The debit of a member, by its index in the batch, does not fit.
    NoRoom(usize),
    /// The value of a member's key is not a bucket.
    NotABucket(usize, &'static str),
    /// Nothing was charged.
    NotDone(RedisError),
    /// It is not known whether anything was charged.
    Unknown(RedisError),
}

impl Failure {
    pub(super) fn garbled(reply: &impl fmt::Debug) -> Self {
        Self::Unknown(RedisError::Garbled(format!("{reply:?}")))
    }

    /// Returns whether a single call can have failed its whole command. Then the others may succeed if each is sent alone.
    pub(super) fn is_of_one_call(&self) -> bool {
        matches!(self, Self::TryAgain | Self::NotDone(RedisError::Refused(_)))
            && self.replica().is_none()
    }

    /// Returns the error if the server is a replica.
    pub(super) fn replica(&self) -> Option<RedisError> {
        match self {
            Self::NotDone(error) if error.is_read_only() => Some(error.clone()),
            _ => None,
        }
    }

    /// Reads the script's reason for which a batch cannot be decided: the index of a member, and an error.
    pub(super) fn of_script(reason: &str) -> Option<Self> {
        let (index, error) = reason.split_once(' ')?;
        let index = index.parse().ok()?;
        let clock = error
            .strip_prefix("CLOCK ")
            .and_then(|time| time.parse().ok());
        Some(match (clock, code(error)) {
            (Some(time), _) => Self::Clock(time),
            (_, "PARTLY") => Self::Unknown(RedisError::refused(error)),
            _ if error.contains("WRONGTYPE") => {
                Self::NotABucket(index, "its value is of another type (WRONGTYPE)")
            }
            (_, code) if code != "BROKEN" && is_code(code) => {
                Self::NotDone(RedisError::refused(error))
            }
            // An error of Lua itself has no code. The script has met a value that it cannot read.
            _ => Self::NotABucket(index, "tollgate has not written its value"),
        })
    }

    /// Returns whether the server has answered properly, which a circuit breaker counts as a success.
    pub(super) const fn is_answer(&self) -> bool {
        !matches!(self, Self::NotDone(_) | Self::Unknown(_))
    }

    /// Returns the failure of a batch whose other parts may have been charged.
    pub(super) fn partly(self) -> Self {
        match self {
            Self::NotDone(error) | Self::Unknown(error) => Self::Unknown(error),
            _ => Self::Unknown(RedisError::refused(
                "a part of the batch could not be decided",
            )),
        }
    }

    /// Returns the failure of a batch that has the only member of this one at an index.
    pub(super) fn at(self, index: usize) -> Self {
        match self {
            Self::NoRoom(_) => Self::NoRoom(index),
            Self::NotABucket(_, found) => Self::NotABucket(index, found),
            failure => failure,
        }
    }

    /// The result of the call, for metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::NoRoom(_) => "ok",
            Self::NotDone(error) if error.is_read_only() => "moving",
            Self::NotDone(RedisError::Timeout) | Self::Unknown(RedisError::Timeout) => "timeout",
            _ => "error",
        }
    }

    /// Returns the error of a batch. `key` names the key at an index.
    pub(super) fn error(self, key: impl FnOnce(usize) -> String) -> BackendError {
        let refused = |text: &str| BackendError::not_done(RedisError::refused(text));
        match self {
            Self::TryAgain => refused("TRYAGAIN the keys are being moved"),
            Self::Redirected { .. } => refused("MOVED to another server"),
            Self::Clock(_) => refused("CLOCK it is far from the time that it had shown before"),
            Self::NoRoom(member) => BackendError::NoRoom { member },
            Self::NotABucket(index, found) => {
                let key = key(index);
                BackendError::Undecidable(RedisError::NotABucket { key, found }.into())
            }
            Self::NotDone(error) => BackendError::not_done(error),
            Self::Unknown(error) => BackendError::unavailable(error),
        }
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::NotDone(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let reply = error.details();
        let (first, rest) = reply.split_once(' ').unwrap_or_default();
        let read = match first {
            "TRYAGAIN" => Some(Self::TryAgain),
            "MOVED" | "ASK" => redirected(rest, first == "ASK"),
            _ => None,
        };
        // These errors do not say that nothing was charged. An error within the script can follow its first write, and an error
        // that ends the connection fails all calls that wait on it.
        let is_unknown = match code(reply) {
            "CLUSTERDOWN" => true,
            "ERR" => reply.contains("user_script"),
            code => !is_code(code),
        };
        let error = RedisError::of(&error);
        read.unwrap_or(if is_unknown {
            Self::Unknown(error)
        } else {
            Self::NotDone(error)
        })
    }
}

/// Reads the target of a redirection, such as `3999 127.0.0.1:6381`.
fn redirected(target: &str, asking: bool) -> Option<Failure> {
    let (_slot, address) = target.split_once(' ')?;
    let (host, port) = address.rsplit_once(':')?;
    Some(Failure::Redirected {
        host: host.trim_matches(['[', ']']).to_owned(),
        port: port.parse().ok()?,
        asking,
    })
}
