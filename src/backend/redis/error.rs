//! Errors of Redis, and their meaning for a decision.

use std::{error, fmt, sync::Arc};

use thiserror::Error;

use super::server_set::{ServerAddress, ServerSet};
use crate::{backend::BackendError, message::debug_is_message};

/// An error of Redis. It is the source of a [`BackendError::Unavailable`], a [`BackendError::NotDone`] or a
/// [`BackendError::Undecidable`]. The [guide](crate::guide::redis#when-redis-fails) has examples.
#[derive(Clone, Error)]
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
    /// A batch of this number of transactions does not fit into one command of Redis. Nothing was sent.
    #[error("a batch of {0} transactions is too large for one command of Redis: split it")]
    TooLarge(usize),
    /// Redis answered with an error, and nothing was charged.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// The server, or a proxy in front of it, does not execute a command that tollgate needs. Nothing was charged.
    #[error("Redis, or a proxy in front of it, refused the command `{command}`: {reply}")]
    RefusedCommand {
        /// The name of the command.
        command: &'static str,
        /// The answer, and what to change.
        reply: String,
    },
    /// The [function for credentials](super::RedisBackendBuilder::credentials) failed.
    #[error("the function for credentials failed")]
    Credentials(#[source] Arc<dyn error::Error + Send + Sync>),
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

    /// Creates the error for a command that has failed while a connection was made to these servers.
    pub(super) fn connecting(
        failure: &CommandFailure,
        command: &'static str,
        servers: &ServerSet,
    ) -> Self {
        let CommandFailure::Refused(reply) = failure else {
            return Self::of(failure);
        };
        let remedy = login_remedy(reply, servers);
        match (remedy, mistake(reply)) {
            (Some(remedy), _) => Self::Refused(format!("{reply} ({remedy})")),
            (None, Some(mistake)) => Self::config(mistake),
            (None, None) if code(reply) == "ERR" || !is_code(code(reply)) => {
                Self::refused_command(command, reply)
            }
            (None, None) => Self::refused(reply),
        }
    }

    /// Creates the error for a command that has failed.
    pub(super) fn of(failure: &CommandFailure) -> Self {
        match failure {
            CommandFailure::Refused(reply) => match (mistake(reply), code(reply)) {
                (Some(mistake), _) => Self::config(mistake),
                (None, "NOTIME") => Self::refused_command("TIME", &reply["NOTIME ".len()..]),
                (None, _) => Self::refused(reply),
            },
            CommandFailure::Timeout => Self::Timeout,
            CommandFailure::Ended => Self::ended("it was closed"),
        }
    }

    fn refused_command(command: &'static str, reply: &str) -> Self {
        let remedy = match command {
            "TIME" => {
                "allow it, or use the process's clock: `limiter.with_clock(SystemClock::new())`"
            }
            "EVAL" | "EVALSHA" => {
                "it must run scripts: connect to the server itself; if this is a sentinel, use `redis-sentinel://`"
            }
            "AUTH" => "leave out the password, or set one on the server",
            "SELECT" => "leave out the database in the URL",
            _ => "if this is a proxy in front of a cluster, use `redis-proxy://`",
        };
        Self::RefusedCommand {
            command,
            reply: format!("{reply} ({remedy})"),
        }
    }

    /// Creates the error for a connection that this client has ended.
    pub(super) fn ended(reason: &str) -> Self {
        Self::Disconnected(reason.to_owned())
    }

    /// Creates the error for an error answer of Redis, with a remedy.
    pub(super) fn refused(reply: &str) -> Self {
        let reply = within_script(reply);
        let remedy = remedy(code(reply)).map(|remedy| format!("{reply} ({remedy})"));
        Self::Refused(remedy.unwrap_or_else(|| reply.to_owned()))
    }

    /// Returns the code of the server's answer, if that is the reason.
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(reply) => Some(code(reply)),
            _ => None,
        }
    }

    /// Returns whether a server refused to write because it is a replica. This happens after a failover, and the client then
    /// looks for the new master.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.code() == Some("READONLY")
    }

    /// Returns whether waiting will not help, for example because the password is wrong or the server is of another kind.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Config(_) | Self::RefusedCommand { .. } => true,
            error => matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM")),
        }
    }
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

/// Returns the error itself, without the lines of a script that stand before it in Redis 6.
fn within_script(reply: &str) -> &str {
    let hyphen = reply.find(&format!(" -{}", code(reply)));
    hyphen.map_or(reply, |place| &reply[place + 2..])
}

/// The remedy if sentinels refuse the password, ask for one, or do not answer.
const SENTINELS: &str = "the user and the password in the URL are those of the servers: sentinels with a password of their own need \
    `sentinelPassword` in the URL, or `.sentinel_password()`";

/// Returns what is wrong with the URL, for an error that lasts until it is changed.
fn mistake(reply: &str) -> Option<&'static str> {
    Some(match reply {
        _ if reply.contains("cluster support disabled") => "this is no cluster: use `redis://`",
        _ if reply.contains("unknown command 'SENTINEL'") => "this is no sentinel: use `redis://`",
        _ => return None,
    })
}

/// Returns what to change if servers refuse the login, or its absence.
fn login_remedy(reply: &str, servers: &ServerSet) -> Option<&'static str> {
    Some(match (code(reply), servers) {
        ("NOAUTH" | "WRONGPASS", ServerSet::Sentinels { .. }) => SENTINELS,
        ("NOAUTH" | "WRONGPASS", ServerSet::One(ServerAddress::Unix(_))) => {
            "write the user and the password as `redis+unix://user:password@unix/path/to.sock`, or use `.password()`"
        }
        _ => return None,
    })
}

/// Returns what to change if the configuration of a client or a server has caused the error.
fn remedy(code: &str) -> Option<&'static str> {
    Some(match code {
        "NOAUTH" => {
            "put the password in the URL, as `redis://:password@host`, or use `.password()`"
        }
        "WRONGPASS" => "check the user and the password in the URL",
        "NOPERM" => {
            "allow the user `+eval +evalsha +time +get +set +append +pttl +pexpire +del` on these keys, and `+select` for a \
             database"
        }
        "OOM" => "the server is out of memory: raise `maxmemory`",
        "NOREPLICAS" => "start the master's replicas, or lower `min-replicas-to-write`",
        "MISCONF" => {
            "the server cannot save its data: free its disk, or look for the reason in its log"
        }
        "MOVED" | "ASK" | "CROSSSLOT" => {
            "this is a cluster: use `redis-cluster://` or, if a proxy is in front of it, `redis-proxy://`"
        }
        "READONLY" => {
            "if this lasts, name the master, or use `redis-sentinel://` or `redis-cluster://`"
        }
        _ => return None,
    })
}

/// Why a command has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandFailure {
    /// The server answered with an error.
    Refused(String),
    Timeout,
    /// The connection ended before the answer.
    Ended,
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
        match self {
            // Before Redis 7, a server sends a whole command to the new master as soon as one of its keys has moved. There, the
            // buckets that have not moved would be created again.
            Self::TryAgain | Self::Redirected { asking: true, .. } => true,
            Self::NotDone(error) => {
                let code = error.code();
                code.is_some_and(|code| !["READONLY", "CLUSTERDOWN"].contains(&code))
            }
            _ => false,
        }
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

impl From<CommandFailure> for Failure {
    fn from(failure: CommandFailure) -> Self {
        let error = RedisError::of(&failure);
        let CommandFailure::Refused(reply) = failure else {
            return Self::Unknown(error);
        };
        let (first, rest) = reply.split_once(' ').unwrap_or_default();
        let read = match first {
            "TRYAGAIN" => Some(Self::TryAgain),
            "MOVED" | "ASK" => redirected(rest, first == "ASK"),
            _ => None,
        };
        // An error within the script can come after its writes.
        let is_unknown = match code(&reply) {
            "ERR" => reply.contains("user_script"),
            code => !is_code(code),
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_the_first_word_or_that_of_the_error_within_a_script() {
        for (reply, expected) in [
            ("READONLY You can't write", "READONLY"),
            ("ERR unknown command", "ERR"),
            (
                "ERR Error running script: 1: -READONLY You can't",
                "READONLY",
            ),
            ("@user_script: 5: -OOM command not allowed", "OOM"),
            ("NOPERM this user -ABC", "NOPERM"),
            ("ERR an argument is -NO", "ERR"),
            ("", ""),
        ] {
            assert_eq!(code(reply), expected, "{reply}");
        }
    }

    #[test]
    fn code_says_whether_waiting_helps() {
        for (code, is_read_only, is_permanent) in [
            ("READONLY", true, false),
            ("NOPERM", false, true),
            ("NOAUTH", false, true),
            ("OOM", false, false),
        ] {
            let error = RedisError::refused(&format!("{code} for a reason"));
            assert_eq!(error.is_read_only(), is_read_only, "{code}");
            assert_eq!(error.is_permanent(), is_permanent, "{code}");
        }
        assert!(RedisError::config("no").is_permanent());
    }

    fn refusal(reply: &str) -> Failure {
        Failure::from(CommandFailure::Refused(reply.to_owned()))
    }

    #[test]
    fn refusal_says_whether_calls_are_sent_alone_and_what_metrics_show() {
        for (reply, is_of_one_call, is_answer, label) in [
            ("TRYAGAIN Multiple keys request", true, true, "error"),
            ("ASK 3999 127.0.0.1:6381", true, true, "error"),
            ("MOVED 3999 127.0.0.1:6381", false, true, "error"),
            ("OOM command not allowed", true, false, "error"),
            ("READONLY You can't write", false, false, "moving"),
            ("CLUSTERDOWN Hash slot not served", false, false, "error"),
        ] {
            let failure = refusal(reply);
            assert_eq!(failure.is_of_one_call(), is_of_one_call, "{reply}");
            assert_eq!(failure.is_answer(), is_answer, "{reply}");
            assert_eq!(failure.label(), label, "{reply}");
        }
        assert_eq!(Failure::from(CommandFailure::Timeout).label(), "timeout");
        assert_eq!(Failure::NoRoom(0).label(), "ok");
    }

    #[test]
    fn error_within_the_script_may_have_charged() {
        for (reply, may_be_charged) in [
            ("OOM command not allowed", false),
            ("ERR unknown command", false),
            ("ERR user_script:1: out of memory", true),
            ("something else", true),
        ] {
            let failure = refusal(reply);
            assert_eq!(
                matches!(failure, Failure::Unknown(_)),
                may_be_charged,
                "{reply}"
            );
            assert!(matches!(failure.partly(), Failure::Unknown(_)), "{reply}");
        }
        let partly = Failure::of_script("1 PARTLY it has charged");
        assert!(matches!(partly, Some(Failure::Unknown(_))), "{partly:?}");
    }

    #[test]
    fn refused_command_has_a_remedy() {
        for (command, remedy) in [
            ("TIME", "with_clock"),
            ("EVAL", "scripts"),
            ("EVALSHA", "scripts"),
            ("AUTH", "leave out the password"),
            ("SELECT", "leave out the database"),
            ("CLUSTER SHARDS", "redis-proxy://"),
        ] {
            let error = RedisError::refused_command(command, "ERR no").to_string();
            assert!(error.contains(remedy), "{error}");
        }
        let replica = RedisError::refused("READONLY You can't write").to_string();
        assert!(replica.contains("redis-sentinel://"), "{replica}");
    }
}
