//! The command line.

use std::{ffi::OsString, path::PathBuf};

use thiserror::Error;

pub(crate) const USAGE: &str = "usage: check_limits --defaults defaults.yml [--overrides overrides.yml] \
    [--format text|json] [--] [LIMIT ID]...";

/// The format of the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Text,
    Json,
}

/// The files to check.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) defaults: PathBuf,
    pub(crate) overrides: Option<PathBuf>,
    pub(crate) format: Format,
    /// The clients to show: a limit and an id for each.
    pub(crate) clients: Vec<(String, String)>,
}

impl Args {
    /// Parses the arguments that follow the program's name.
    pub(crate) fn parse(args: impl Iterator<Item = OsString>) -> Result<Self, ArgsError> {
        let mut given = Given::default();
        let mut args = args.map(|arg| arg.into_string().map_err(ArgsError::Encoding));
        while let Some(arg) = args.next() {
            given.take(arg?, &mut args)?;
        }
        let defaults = given.defaults.ok_or(ArgsError::Missing("--defaults"))?;
        let format = match given.format.as_deref() {
            None | Some("text") => Format::Text,
            Some("json") => Format::Json,
            Some(format) => return Err(ArgsError::Format(format.to_owned())),
        };
        Ok(Self {
            defaults: defaults.into(),
            overrides: given.overrides.map(Into::into),
            format,
            clients: pairs(given.words)?,
        })
    }
}

fn pairs(words: Vec<String>) -> Result<Vec<(String, String)>, ArgsError> {
    let mut pairs = Vec::new();
    let mut words = words.into_iter();
    while let Some(limit) = words.next() {
        match words.next() {
            Some(id) => pairs.push((limit, id)),
            None => return Err(ArgsError::NoId(limit)),
        }
    }
    Ok(pairs)
}

/// The raw command line.
#[derive(Default)]
struct Given {
    defaults: Option<String>,
    overrides: Option<String>,
    format: Option<String>,
    words: Vec<String>,
}

impl Given {
    fn take(
        &mut self,
        arg: String,
        rest: &mut impl Iterator<Item = Result<String, ArgsError>>,
    ) -> Result<(), ArgsError> {
        let (slot, name) = match &*arg {
            "--defaults" => (&mut self.defaults, "--defaults"),
            "--overrides" => (&mut self.overrides, "--overrides"),
            "--format" => (&mut self.format, "--format"),
            // An id may begin like an option.
            "--" => {
                let words = rest.collect::<Result<Vec<_>, _>>()?;
                self.words.extend(words);
                return Ok(());
            }
            _ if arg.starts_with("--") => return Err(ArgsError::Unknown(arg)),
            _ => {
                self.words.push(arg);
                return Ok(());
            }
        };
        let value = rest.next().ok_or(ArgsError::NoValue(name))??;
        // In `--defaults --overrides`, the file is missing.
        if value.is_empty() || value.starts_with("--") {
            return Err(ArgsError::NoValue(name));
        }
        let before = slot.replace(value);
        before.map_or(Ok(()), |_| Err(ArgsError::Twice(name)))
    }
}

/// The reason why nothing can be checked with these arguments.
#[derive(Debug, Error)]
pub(crate) enum ArgsError {
    #[error("the argument {0:?} is not UTF-8\n{USAGE}")]
    Encoding(OsString),
    #[error("unknown argument `{0}`: write `--` before an id that begins like this\n{USAGE}")]
    Unknown(String),
    #[error("{0} needs a value\n{USAGE}")]
    NoValue(&'static str),
    #[error("{0} is given twice\n{USAGE}")]
    Twice(&'static str),
    #[error("{0} is missing\n{USAGE}")]
    Missing(&'static str),
    #[error("--format is `{0}`: use text or json\n{USAGE}")]
    Format(String),
    #[error("`{0}` has no id after it: write a limit, and then an id\n{USAGE}")]
    NoId(String),
}
