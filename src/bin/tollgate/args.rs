//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use tollgate::limit::parse_duration;

use crate::{
    bucket::{ResetArgs, ShowArgs},
    check::CheckArgs,
    replay::ReplayArgs,
    suggest::SuggestArgs,
};

/// From traffic to limits: replays access logs, suggests limits, and looks at buckets.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Tells what limits would have done to the traffic of access logs
    Replay(Box<ReplayArgs>),
    /// Suggests limits for the traffic of access logs
    Suggest(Box<SuggestArgs>),
    /// Finds mistakes in files of limits, and says what the limits admit
    Check(CheckArgs),
    /// Shows a bucket on Redis
    Show(ShowArgs),
    /// Fills a bucket on Redis, after asking
    Reset(ResetArgs),
}

/// The logs to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// Access logs in Common or Combined Log Format or JSON lines, plain or gzip; standard input without any, or for -
    #[arg(value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// The field of JSON lines with the time, if it is not a usual one
    #[arg(long, value_name = "FIELD")]
    pub(crate) time: Option<String>,
    /// The field of JSON lines with the client's address, if it is not a usual one
    #[arg(long, value_name = "FIELD")]
    pub(crate) address: Option<String>,
}

impl LogArgs {
    /// The files to read, with `-` for standard input.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self.logs.is_empty() {
            true => vec!["-".into()],
            false => self.logs.clone(),
        }
    }
}

/// The forms of the result.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// Prints the result as JSON, for programs
    #[arg(long)]
    pub(crate) json: bool,
    /// Also writes the result as a page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The number of denied clients to list
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
}

/// Parses a time to wait.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
    let wait = parse_duration(text).map_err(|error| error.to_string())?;
    match wait.is_zero() || wait > LONGEST || wait.subsec_nanos() % 1000 > 0 {
        true => Err("use a time from 1us to 24h".to_owned()),
        false => Ok(wait),
    }
}
