//! Errors of Redis, and their meaning for a decision.

use fred::{
    error::{Error, ErrorKind},
    types::{Value, config::Server},
};
use thiserror::Error as ThisError;

use crate::{backend::BackendError, check::Finding, clock::InvalidNow, message::debug_is_message};

/// An error of Redis. It is the source of a [`BackendError::Unavailable`] or a [`BackendError::NotDone`]. The
/// [guide](crate::guide::redis#when-redis-fails) has examples.
#[derive(Clone, ThisError)]
#[non_exhaustive]
pub enum RedisError {
    /// There was no answer in time. The charge may have been made.
    #[error("Redis did not answer in time")]
    Timeout,
    /// There is no connection. If it broke while the answer was on its way, the charge may have been made.
    #[error("there is no connection to Redis ({0})")]
    Disconnected(DisconnectReason),
    /// Too many decisions are waiting.
    #[error("too many decisions are waiting for Redis: it cannot keep up")]
    Busy,
    /// A batch of so many transactions does not fit into one command of Redis. Nothing was sent.
    #[error("a batch of {0} transactions is too large for one command of Redis: split it")]
    TooLarge(usize),
    /// Redis answered with an error, and nothing was charged. `CLUSTERDOWN`, `LOADING` and `MASTERDOWN` may be the
    /// answer to an earlier call: they end the connection, and everything that waits on it fails for the same reason.
    #[error("Redis refused: {0}")]
    Refused(String),
    /// The answer is not one of the script's.
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
        found: BrokenValue,
    },
    /// The URL or the configuration is not valid for a client.
    #[error("cannot create a Redis client from this configuration: {0}")]
    Config(String),
    /// A [check](crate::check) has found a mistake, and the checks are strict.
    #[error(transparent)]
    Check(#[from] Finding),
}

debug_is_message!(RedisError);

/// The reason why there is no connection: a part of [`RedisError::Disconnected`]. The
/// [guide](crate::guide::redis#when-redis-fails) says what happens then.
#[derive(Clone, Debug, ThisError)]
#[error("{}", .0.details())]
pub struct DisconnectReason(pub(super) Error);

impl DisconnectReason {
    /// Returns whether the server did not answer in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        *self.0.kind() == ErrorKind::Timeout
    }
}

/// What is wrong with a value that is not a bucket: a part of [`RedisError::NotABucket`]. The
/// [guide](crate::guide::failures#events) says what happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum BrokenValue {
    /// It is a list, a set or another type, and no string.
    #[error("its value is of another type (WRONGTYPE)")]
    OfAnotherType,
    /// It is a string that this crate has not written.
    #[error("tollgate has not written its value")]
    Unreadable,
}

impl BrokenValue {
    /// Reads the error of a script: the place of the key in its call, counted from 0, and what is wrong with it.
    fn parse(reply: &str) -> Option<(usize, Self)> {
        let found = match code(reply) {
            "WRONGTYPE" => return Some((0, Self::OfAnotherType)),
            "BROKEN" => match reply.contains("BROKEN type") {
                true => Self::OfAnotherType,
                false => Self::Unreadable,
            },
            _ => return None,
        };
        let mut words = reply.split_whitespace();
        let place = words.find_map(|word| word.parse::<usize>().ok());
        Some((place.map_or(0, |place| place.saturating_sub(1)), found))
    }
}

impl RedisError {
    pub(super) fn config(problem: &str) -> Self {
        Self::Config(problem.to_owned())
    }

    /// Creates the error for an error of the client.
    pub(super) fn of(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Timeout => Self::Timeout,
            ErrorKind::Backpressure => Self::Busy,
            ErrorKind::Url => Self::config(error.details()),
            _ if is_reply(error.details()) => Self::refused(error.details()),
            ErrorKind::Config => Self::config(error.details()),
            _ => Self::disconnected(error),
        }
    }

    pub(super) fn disconnected(because: Error) -> Self {
        Self::Disconnected(DisconnectReason(because))
    }

    /// Creates the error for an error answer of Redis, with a remedy.
    pub(super) fn refused(reply: &str) -> Self {
        Self::Refused(explained(reply))
    }

    /// Returns whether a server refused to write because it is a replica. This happens after a failover, and the client then
    /// looks for the new master.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Self::Refused(text) if code(text) == "READONLY")
    }

    /// Returns whether the server has certainly changed nothing.
    fn is_certain(&self) -> bool {
        // These errors end the connection, and all waiting calls fail with the same error.
        const CONTAGIOUS: [&str; 3] = ["CLUSTERDOWN", "LOADING", "MASTERDOWN"];
        match self {
            Self::Refused(text) => !CONTAGIOUS.contains(&code(text)),
            Self::Busy
            | Self::TooLarge(_)
            | Self::NotABucket { .. }
            | Self::Config(_)
            | Self::Check(_) => true,
            Self::Timeout | Self::Disconnected(_) | Self::Garbled(_) => false,
        }
    }

    /// Returns whether waiting will not help, for example because the password is wrong or the server is of another kind.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        const PERMANENT: [&str; 6] = [
            "NOAUTH",
            "WRONGPASS",
            "NOPERM",
            "invalid password",
            "cluster support disabled",
            NO_SENTINEL,
        ];
        match self {
            Self::Config(_) | Self::Check(_) => true,
            Self::Refused(text) => PERMANENT.iter().any(|part| text.contains(part)),
            _ => false,
        }
    }
}

/// Returns whether the text is from a server: it begins with a code in capital letters.
fn is_reply(details: &str) -> bool {
    is_code(details.split(' ').next().unwrap_or_default())
}

fn is_code(word: &str) -> bool {
    word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

const NO_SENTINEL: &str = "this is no sentinel: use `redis://`";

/// Adds a remedy to errors that are caused by a server's configuration.
fn explained(reply: &str) -> String {
    match remedy(reply) {
        Some(remedy) if !reply.contains(remedy) => format!("{reply} ({remedy})"),
        _ => reply.to_owned(),
    }
}

fn remedy(reply: &str) -> Option<&'static str> {
    let remedy = match code(reply) {
        "NOAUTH" => "put the password in the URL, as `redis://:password@host`",
        "WRONGPASS" => "check the user and the password in the URL",
        "NOPERM" => {
            "allow the user `+eval +evalsha +script|load +get +set +getrange +setrange +strlen +del +pexpire \
             +persist +time` on these keys, and `+select` for a database"
        }
        "OOM" => "the server is out of memory: raise `maxmemory`",
        "NOREPLICAS" => {
            "too few replicas are connected to the master: start them, or lower `min-replicas-to-write`"
        }
        "MISCONF" => {
            "the server cannot save its data and takes no writes: free its disk, or look for the reason in its \
             log; `stop-writes-on-bgsave-error no` lets it write without snapshots"
        }
        "MOVED" | "ASK" | "CROSSSLOT" => "this is a cluster: use `redis-cluster://`",
        "READONLY" => {
            "it is a replica: if this lasts, name the master, or use `redis-sentinel://` or `redis-cluster://`"
        }
        _ if reply.contains("cluster support disabled") => "this is no cluster: use `redis://`",
        _ if reply.contains("unknown command") && reply.contains("SENTINEL") => NO_SENTINEL,
        _ if reply.contains("unknown command") && reply.contains("EVALSHA") => {
            "it runs no scripts: if this is a sentinel, use `redis-sentinel://`"
        }
        _ => return None,
    };
    Some(remedy)
}

/// Returns the code of an error. Before Redis 7, a script's errors begin with `ERR Error running script`, and the error
/// itself follows a hyphen.
fn code(reply: &str) -> &str {
    let mut words = reply.split_whitespace();
    let first = words.next().unwrap_or_default();
    let mut within = words.filter_map(|word| word.strip_prefix('-'));
    let within = within.find(|word| is_code(word));
    match (first, within) {
        ("ERR", Some(within)) => within,
        _ => first,
    }
}

/// The reason why a call has not led to a decision.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The script is not loaded, and can be sent.
    NoScript,
    /// Some of the keys are being moved to another server. They can be asked for one by one.
    TryAgain,
    /// The keys are on another server.
    Moved(Redirect),
    /// The keys are being moved to another server.
    Ask(Redirect),
    InvalidNow(InvalidNow),
    /// The value of a key, by its place in the call, is not a bucket. Nothing was done.
    NotABucket(usize, BrokenValue),
    /// Nothing was sent.
    Unsent(RedisError),
    /// A part of a batch may have been charged.
    Partly(RedisError),
    Redis(RedisError),
}

/// The target of a redirection, `host:port`. A server leaves out the host if it is its own.
#[derive(Clone, Debug)]
pub(super) struct Redirect {
    host: String,
    port: u16,
}

impl Redirect {
    /// Reads the end of `MOVED 3999 127.0.0.1:6381`.
    fn parse(reply: &str) -> Option<Self> {
        let (host, port) = reply.split(' ').nth(2)?.rsplit_once(':')?;
        Some(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: port.parse().ok()?,
        })
    }

    pub(super) fn server(&self, from: &Server) -> Server {
        let host = match self.host.as_str() {
            "" => from.host.clone(),
            host => host.into(),
        };
        Server::new(host, self.port)
    }
}

impl Failure {
    /// Returns whether the call failed because its keys were in one call. Single calls can succeed.
    pub(super) fn is_of_the_keys(&self) -> bool {
        match self {
            Self::TryAgain => true,
            Self::Redis(RedisError::Refused(text)) => ["NOPERM", "CROSSSLOT"]
                .iter()
                .any(|code| text.starts_with(code)),
            _ => false,
        }
    }

    /// Reads the text of an error, which a script answers.
    pub(super) fn refused(reply: &str) -> Self {
        match BrokenValue::parse(reply) {
            Some((place, found)) => Self::NotABucket(place, found),
            None => RedisError::refused(reply).into(),
        }
    }

    /// Returns the failure of a batch, in which the keys of this call have other places.
    pub(super) fn within(self, places: &[usize]) -> Self {
        match self {
            Self::NotABucket(place, found) => {
                Self::NotABucket(places.get(place).copied().unwrap_or(0), found)
            }
            failure => failure,
        }
    }

    /// Returns the same failure in a form that nobody answers with another attempt.
    pub(super) fn final_one(self) -> Self {
        match self {
            Self::NoScript | Self::TryAgain | Self::Moved(_) | Self::Ask(_) => {
                Self::Redis(self.into())
            }
            failure => failure,
        }
    }

    /// Returns whether the call has certainly changed nothing.
    pub(super) fn is_certain(&self) -> bool {
        match self {
            Self::Partly(_) => false,
            Self::Redis(error) => error.is_certain(),
            _ => true,
        }
    }

    pub(super) fn garbled(reply: &Value) -> Self {
        Self::Redis(RedisError::Garbled(format!("{reply:?}")))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let reply = error.details();
        let redirect = || Redirect::parse(reply);
        match reply.split(' ').next() {
            Some("NOSCRIPT") => Self::NoScript,
            Some("TRYAGAIN") => Self::TryAgain,
            Some("MOVED") if let Some(to) = redirect() => Self::Moved(to),
            Some("ASK") if let Some(to) = redirect() => Self::Ask(to),
            _ if BrokenValue::parse(reply).is_some() => Self::refused(reply),
            _ => Self::Redis(RedisError::of(error)),
        }
    }
}

impl From<InvalidNow> for Failure {
    fn from(error: InvalidNow) -> Self {
        Self::InvalidNow(error)
    }
}

impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl From<Failure> for RedisError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NoScript => Self::Refused("NOSCRIPT, twice".to_owned()),
            Failure::TryAgain => Self::Refused("TRYAGAIN the keys are being moved".to_owned()),
            Failure::Moved(_) | Failure::Ask(_) => {
                Self::Refused(explained("MOVED to another server"))
            }
            Failure::InvalidNow(error) => Self::Refused(error.to_string()),
            Failure::NotABucket(_, found) => Self::NotABucket {
                key: "?".to_owned(),
                found,
            },
            Failure::Unsent(error) | Failure::Partly(error) | Failure::Redis(error) => error,
        }
    }
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::InvalidNow(error) => error.into(),
            Failure::Partly(error) => Self::unavailable(error),
            failure => {
                let is_unsent = matches!(failure, Failure::Unsent(_));
                match RedisError::from(failure) {
                    error @ (RedisError::NotABucket { .. } | RedisError::TooLarge(_)) => {
                        Self::Undecidable(error.into())
                    }
                    error if error.is_read_only() => Self::Moving(error.into()),
                    error if is_unsent || error.is_certain() => Self::not_done(error),
                    error => Self::unavailable(error),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_is_known_by_the_answers_of_all_versions() {
        for (text, is_read_only) in [
            (
                "READONLY You can't write against a read only replica.",
                true,
            ),
            (
                "ERR Error running script (call to f_0123): @user_script:47: @user_script: 47: \
                 -READONLY You can't write against a read only replica.",
                true,
            ),
            ("LOADING Redis is loading the dataset in memory", false),
        ] {
            let error = RedisError::Refused(text.to_owned());
            assert_eq!(error.is_read_only(), is_read_only, "{text}");
        }
    }

    #[test]
    fn refused_write_is_explained_by_its_own_reason_in_the_words_of_all_versions() {
        for (error, remedy) in [
            (
                "NOREPLICAS Not enough good replicas to write.",
                "min-replicas-to-write",
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots, but it cannot.",
                "its disk",
            ),
            (
                "OOM command not allowed when used memory > 'maxmemory'.",
                "raise `maxmemory`",
            ),
        ] {
            for text in [
                format!("{error} script: 0123, on @user_script:47."),
                format!(
                    "ERR Error running script (call to f_0123): @user_script:47: @user_script: 47: -{error}"
                ),
            ] {
                let once = explained(&text);
                assert!(once.contains(remedy), "{once}");
                assert_eq!(explained(&once), once);
            }
        }
    }

    #[test]
    fn value_that_is_no_bucket_is_an_error_of_its_key() {
        let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
        for (text, expected) in [
            (wrong, (0, BrokenValue::OfAnotherType)),
            (
                "ERR Error running script (call to f_0123): @user_script:47: @user_script: 47: -WRONGTYPE Operation",
                (0, BrokenValue::OfAnotherType),
            ),
            ("BROKEN value", (0, BrokenValue::Unreadable)),
            ("BROKEN value 3", (2, BrokenValue::Unreadable)),
            ("BROKEN type 2", (1, BrokenValue::OfAnotherType)),
        ] {
            assert_eq!(BrokenValue::parse(text), Some(expected), "{text}");
            let failure = Failure::refused(text).within(&[7, 8, 9]);
            let place = 7 + expected.0;
            assert!(
                matches!(failure, Failure::NotABucket(at, _) if at == place),
                "{failure:?}"
            );
            assert!(matches!(failure.into(), BackendError::Undecidable(_)));
        }
        assert_eq!(BrokenValue::parse("OOM command not allowed"), None);
    }
}
