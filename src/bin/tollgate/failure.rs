//! Why the command ends without success, and its exit code.

use std::{error::Error, process::ExitCode};

use thiserror::Error;
use tollgate::limit::LimitsError;

use crate::{key::KeyError, limit_files::UnknownLimit, log::SourceError, rules::RulesError};

/// The exit code if nothing could be done.
pub(crate) const FAILED: u8 = 2;

/// The exit code of `check` if it found a mistake, and of `reset` if nothing was reset.
pub(crate) const NOT_DONE: u8 = 1;

/// The reason why the command ends without success.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Source(#[from] SourceError),
    // Its text has the causes.
    #[error("the limits cannot be used: {0}")]
    Limits(#[from] LimitsError),
    #[error(transparent)]
    Limit(#[from] UnknownLimit),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(
        "cannot write a temporary file: set TMPDIR to a folder with room for 16 bytes per line of the log"
    )]
    Spool(#[source] std::io::Error),
    #[error("cannot write the report {path}")]
    Report {
        path: String,
        #[source]
        error: std::io::Error,
    },
    #[error("cannot write the result")]
    Output(#[source] std::io::Error),
    #[error(transparent)]
    Store(Box<dyn Error>),
    #[error("{0}")]
    Usage(String),
    /// Everything was said already.
    #[error("")]
    Said(u8),
}

impl Failure {
    pub(crate) fn store(error: impl Error + 'static) -> Self {
        Self::Store(Box::new(error))
    }

    pub(crate) fn code(&self) -> ExitCode {
        match self {
            Self::Said(code) => ExitCode::from(*code),
            _ => ExitCode::from(FAILED),
        }
    }
}
