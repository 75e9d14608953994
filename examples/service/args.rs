//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use thiserror::Error;
use tollgate::transaction::OnFailure;

const USAGE: &str = "usage: service --listen 127.0.0.1:8080 --defaults defaults.yml \
    [--overrides overrides.yml] [--redis redis://127.0.0.1:6379] [--manual-clock] \
    [--on-failure refuse|allow|local] [--deadline-ms 1000]";

/// The source of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockSource {
    /// The backend's own clock.
    Backend,
    /// `now_us` of each request.
    Requests,
}

/// The arguments of the service.
pub(crate) struct Args {
    pub(crate) listen: String,
    pub(crate) defaults: PathBuf,
    pub(crate) overrides: Option<PathBuf>,
    pub(crate) clock: ClockSource,
    /// The Redis that keeps the buckets. Without it, they are in memory.
    pub(crate) redis: Option<String>,
    /// The policy while Redis does not answer.
    pub(crate) on_failure: OnFailure,
    /// The longest that Redis may take for a decision.
    pub(crate) deadline: Duration,
}

impl Args {
    /// Parses the arguments that follow the program's name.
    pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, ArgsError> {
        let mut given = Given::default();
        let mut args = args.map(|arg| arg.into_string().map_err(ArgsError::Encoding));
        while let Some(arg) = args.next() {
            given.take(&arg?, &mut args)?;
        }
        let on_failure = match given.on_failure.as_deref() {
            None | Some("refuse") => OnFailure::Refuse,
            Some("allow") => OnFailure::Allow,
            Some("local") => OnFailure::Local,
            Some(policy) => return Err(ArgsError::OnFailure(policy.to_owned())),
        };
        let deadline = match given.deadline_ms {
            None => Duration::from_secs(1),
            Some(text) => match text.parse() {
                Ok(ms @ 1..) => Duration::from_millis(ms),
                _ => return Err(ArgsError::Deadline(text)),
            },
        };
        Ok(Self {
            listen: given.listen.ok_or(ArgsError::Missing("--listen"))?,
            defaults: given
                .defaults
                .ok_or(ArgsError::Missing("--defaults"))?
                .into(),
            overrides: given.overrides.map(Into::into),
            clock: given.clock.unwrap_or(ClockSource::Backend),
            redis: given.redis,
            on_failure,
            deadline,
        })
    }
}

/// The raw command line.
#[derive(Default)]
struct Given {
    listen: Option<String>,
    defaults: Option<String>,
    overrides: Option<String>,
    redis: Option<String>,
    on_failure: Option<String>,
    deadline_ms: Option<String>,
    clock: Option<ClockSource>,
}

impl Given {
    fn take(
        &mut self,
        arg: &str,
        rest: &mut impl Iterator<Item = Result<String, ArgsError>>,
    ) -> Result<(), ArgsError> {
        let (slot, name) = match arg {
            "--listen" => (&mut self.listen, "--listen"),
            "--defaults" => (&mut self.defaults, "--defaults"),
            "--overrides" => (&mut self.overrides, "--overrides"),
            "--redis" => (&mut self.redis, "--redis"),
            "--on-failure" => (&mut self.on_failure, "--on-failure"),
            "--deadline-ms" => (&mut self.deadline_ms, "--deadline-ms"),
            "--manual-clock" => {
                let before = self.clock.replace(ClockSource::Requests);
                return before.map_or(Ok(()), |_| Err(ArgsError::Twice("--manual-clock")));
            }
            _ => return Err(ArgsError::Unknown(arg.into())),
        };
        let value = rest.next().ok_or(ArgsError::NoValue(name))??;
        // The address is missing in `--listen --manual-clock`.
        if value.is_empty() || value.starts_with("--") {
            return Err(ArgsError::NoValue(name));
        }
        let before = slot.replace(value);
        before.map_or(Ok(()), |_| Err(ArgsError::Twice(name)))
    }
}

/// The error for invalid arguments.
#[derive(Debug, Error)]
pub(crate) enum ArgsError {
    #[error("the argument {0:?} is not UTF-8\n{USAGE}")]
    Encoding(OsString),
    #[error("unknown argument `{0}`\n{USAGE}")]
    Unknown(String),
    #[error("{0} needs a value\n{USAGE}")]
    NoValue(&'static str),
    #[error("{0} is given twice\n{USAGE}")]
    Twice(&'static str),
    #[error("{0} is missing\n{USAGE}")]
    Missing(&'static str),
    #[error("--on-failure is `{0}`: use refuse, allow or local\n{USAGE}")]
    OnFailure(String),
    #[error("--deadline-ms is `{0}`: use a whole number of milliseconds, at least 1\n{USAGE}")]
    Deadline(String),
}
