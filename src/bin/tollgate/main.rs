//! The program `tollgate`: from traffic to limits.
//!
//! ```text
//! tollgate suggest access.log --key ip --deny-at-most 0.1%
//! tollgate replay --limits defaults.yml access.log
//! tollgate check --limits defaults.yml
//! tollgate show --redis redis://127.0.0.1:6379 --limits defaults.yml requests 203.0.113.7
//! ```
//!
//! `docs/command.md` describes it. Each subcommand is a module. The exit code is 0 for success, 1 if `check` found a mistake
//! or `reset` did nothing, and 2 for bad arguments and files that cannot be read.

mod args;
#[path = "../../../examples/shared/bound.rs"]
mod bound;
mod bucket;
mod busiest;
mod check;
#[path = "../../../examples/shared/client.rs"]
mod client;
mod clocked;
mod distinct;
mod failure;
mod key;
mod limit_files;
mod log;
mod output;
mod replay;
mod report;
mod rules;
mod suggest;

use std::{
    error::Error,
    io::{self, Write},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use self::{
    bucket::{BucketArgs, ResetArgs},
    check::CheckArgs,
    failure::Failure,
    replay::ReplayArgs,
    suggest::SuggestArgs,
};

/// From traffic to limits: replays access logs, suggests limits, and looks at buckets.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tells what limits would have done to the traffic of access logs
    Replay(Box<ReplayArgs>),
    /// Suggests limits for the traffic of access logs
    Suggest(Box<SuggestArgs>),
    /// Finds mistakes in files of limits, and says what the limits admit
    Check(CheckArgs),
    /// Shows a bucket on Redis
    Show(BucketArgs),
    /// Fills a bucket on Redis, after asking
    Reset(ResetArgs),
}

fn main() -> ExitCode {
    // Unusual limits are warned about. Without the level, each denial would be logged.
    let logs = tracing_subscriber::fmt().with_max_level(LevelFilter::WARN);
    logs.with_writer(io::stderr).without_time().init();
    let result = match Cli::parse().command {
        Command::Replay(args) => {
            replay::replay(&args).and_then(|replay| report::replayed(&replay, &args.report))
        }
        Command::Suggest(args) => suggest::suggest(&args)
            .and_then(|suggestion| report::suggested(&suggestion, &args.report)),
        Command::Check(args) => check::run(&args),
        Command::Show(args) => bucket::show(&args),
        Command::Reset(args) => bucket::reset(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&failure);
            failure.code()
        }
    }
}

/// Writes an error and its sources to standard error, which may be closed.
fn say(failure: &Failure) {
    if matches!(failure, Failure::Said(_)) {
        return;
    }
    let mut text = format!("tollgate: {failure}");
    let mut source = failure.source();
    while let Some(error) = source {
        let more = error.to_string();
        // Many errors already contain their cause.
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    let _ = writeln!(io::stderr(), "{text}");
}
