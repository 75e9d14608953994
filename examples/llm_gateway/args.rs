//! The command line.

use std::path::{Path, PathBuf};

use thiserror::Error;

pub(crate) const USAGE: &str = "usage: llm_gateway [--listen 127.0.0.1:3000] [--upstream http://127.0.0.1:8000] \
    [--redis redis://127.0.0.1:6379] [--gateways 1] [--limits limits.yml] [--overrides overrides.yml] \
    [--keys gateway.yml]";

/// The arguments of the gateway.
#[derive(Debug)]
pub(crate) struct Args {
    pub(crate) listen: String,
    /// The server behind the gateway; `None` for the parrot.
    pub(crate) upstream: Option<String>,
    /// The Redis that keeps the buckets. Without it, they are in memory.
    pub(crate) redis: Option<String>,
    /// The number of gateways that share the Redis.
    pub(crate) gateways: u32,
    pub(crate) limits: PathBuf,
    /// The limits of individual keys, by their ids.
    pub(crate) overrides: Option<PathBuf>,
    pub(crate) keys: PathBuf,
}

/// The error for wrong arguments.
#[derive(Debug, Error)]
pub(crate) enum ArgsError {
    #[error("unknown argument `{0}`\n{USAGE}")]
    Unknown(String),
    #[error("{0} needs a value\n{USAGE}")]
    NoValue(String),
    #[error("--gateways is `{0}`: use a number from 1\n{USAGE}")]
    Gateways(String),
}

impl Args {
    /// Parses the arguments that follow the program's name.
    pub(crate) fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, ArgsError> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/llm_gateway");
        let mut args = Self {
            listen: "127.0.0.1:3000".into(),
            upstream: None,
            redis: None,
            gateways: 1,
            limits: folder.join("limits.yml"),
            overrides: None,
            keys: folder.join("gateway.yml"),
        };
        while let Some(name) = given.next() {
            let value = given.next();
            let value = value.ok_or_else(|| ArgsError::NoValue(name.clone()))?;
            match name.as_str() {
                "--listen" => args.listen = value,
                "--upstream" => args.upstream = Some(value),
                "--redis" => args.redis = Some(value),
                "--gateways" => args.gateways = count(value)?,
                "--limits" => args.limits = value.into(),
                "--overrides" => args.overrides = Some(value.into()),
                "--keys" => args.keys = value.into(),
                _ => return Err(ArgsError::Unknown(name)),
            }
        }
        Ok(args)
    }
}

fn count(value: String) -> Result<u32, ArgsError> {
    let count = value.parse().ok().filter(|count| *count > 0);
    count.ok_or(ArgsError::Gateways(value))
}
