//! The files of limits.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use thiserror::Error;
use tollgate::{
    Limit, Limits,
    limit::{LimitsError, NamedLimit},
    transaction::Algorithm,
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

/// The error for files with a mistake. Its text has the causes.
#[derive(Debug, Error)]
#[error("the limits cannot be used: {0}")]
pub(crate) struct LimitFilesError(#[from] LimitsError);

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

/// The same limits, where requests of token buckets wait in line for at most this time. `None` if no limit changes.
pub(crate) fn with_line(limits: &Limits, wait: Duration) -> Option<Limits> {
    let mut changed = false;
    let mut lined = |limit: &Limit| match limit.algorithm() {
        Some(Algorithm::Gcra(gcra)) if gcra.max_wait().is_zero() => {
            changed = true;
            limit.clone().max_wait(wait)
        }
        _ => limit.clone(),
    };
    let mut builder = Limits::builder();
    for named in limits.iter() {
        builder = match &named.limit {
            Some(limit) => builder.limit(named.name.clone(), lined(limit)),
            None => builder.name(named.name.clone()),
        };
        for own in named.overrides() {
            builder = builder.override_for(named.name.as_str(), own.id, lined(own.limit));
        }
    }
    let limits = builder.build().ok()?;
    changed.then_some(limits)
}
