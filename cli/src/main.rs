//! The program `tollgate`: from traffic to limits.
//!
//! ```text
//! tollgate suggest access.log --key ip --deny-at-most 0.1%
//! tollgate replay --limits defaults.yml access.log
//! tollgate check --limits defaults.yml
//! tollgate show --redis redis://127.0.0.1:6379 --limits defaults.yml requests 203.0.113.7
//! ```
//!
//! `docs/command.md` describes it. Each subcommand is a module. The exit code is 0 for success; 1 if `check` found a mistake, if
//! `reset` did nothing, or if a log has no request that counts; and 2 for bad arguments and files that cannot be read.

mod bucket;
mod check;
mod clients;
mod limits;
mod log;
mod output;
mod replay;
mod suggest;

use std::{io, process::ExitCode};

use anyhow::Result;
use clap::{Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use self::{
    bucket::{BucketArgs, ResetArgs},
    check::CheckArgs,
    replay::ReplayArgs,
    suggest::SuggestArgs,
};

/// The exit code if nothing could be done.
const FAILED: u8 = 2;

/// The exit code if something was done, but not what was asked for.
const NOT_DONE: u8 = 1;

/// From traffic to limits: replays access logs, suggests limits, and looks at buckets.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Shows what limits would have done to the traffic of access logs
    Replay(Box<ReplayArgs>),
    /// Suggests limits for the traffic of access logs
    Suggest(Box<SuggestArgs>),
    /// Finds mistakes in files of limits, and shows what the limits admit
    Check(CheckArgs),
    /// Shows a bucket on Redis or in PostgreSQL
    Show(BucketArgs),
    /// Fills a bucket on Redis or in PostgreSQL, after asking
    Reset(ResetArgs),
}

fn main() -> ExitCode {
    // At this level, warnings about unusual limits are logged, but not each denial.
    let logs = tracing_subscriber::fmt().with_max_level(LevelFilter::WARN);
    logs.with_writer(io::stderr).without_time().init();
    match run(Cli::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::say(format_args!("tollgate: {error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Runs a subcommand, and returns the exit code.
fn run(command: Command) -> Result<u8> {
    match command {
        Command::Replay(args) => replay::run(&args),
        Command::Suggest(args) => suggest::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Show(args) => bucket::show(&args),
        Command::Reset(args) => bucket::reset(&args),
    }
}
