//! The files of limits.

use std::path::PathBuf;

use clap::Args;
use thiserror::Error;
use tollgate::{
    Limits,
    limit::{LimitsError, NamedLimit},
};

/// The files with the limits.
#[derive(Args, Clone, Debug)]
pub(crate) struct LimitFiles {
    /// The file with the limits, in YAML, JSON or TOML
    #[arg(long, visible_alias = "defaults", value_name = "FILE")]
    pub(crate) limits: PathBuf,
    /// The file with the limits of single clients
    #[arg(long, value_name = "FILE")]
    pub(crate) overrides: Option<PathBuf>,
}

/// The error for a limit that the files do not have.
#[derive(Debug, Error)]
#[error("unknown limit `{name}`: known are {known}")]
pub(crate) struct UnknownLimit {
    name: String,
    known: String,
}

/// Finds a limit.
pub(crate) fn named<'a>(limits: &'a Limits, name: &str) -> Result<&'a NamedLimit, UnknownLimit> {
    limits.get(name).ok_or_else(|| UnknownLimit {
        name: name.to_owned(),
        known: limits.names().join(", "),
    })
}

impl LimitFiles {
    pub(crate) fn read(&self) -> Result<Limits, LimitsError> {
        let mut recipe = Limits::builder().defaults_file(&self.limits);
        if let Some(overrides) = &self.overrides {
            recipe = recipe.overrides_file(overrides);
        }
        recipe.build()
    }
}
