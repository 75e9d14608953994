//! `tollgate replay`: what limits would have done to the traffic of a log.

mod engine;
mod plan;
mod tally;
mod timeline;

use std::{path::PathBuf, time::Duration};

use clap::Args;
use tollgate::limit::parse_duration;

use self::{engine::Engine, plan::Plan};
pub(crate) use self::{tally::Tally, timeline::Timeline};
use crate::{
    args::{LogArgs, ReportArgs},
    failure::Failure,
    key::Key,
    limit_files::LimitFiles,
    log::{Log, LogEnd},
    rules,
};

/// What `replay` is asked.
#[derive(Args, Debug)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    pub(crate) limits: LimitFiles,
    /// The file that says which requests meet which limit; without it, every request meets every limit
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// What identifies a client: ip (IPv6 by /64), /48, everyone, or the name of a field
    #[arg(long, default_value = "ip", value_name = "KEY")]
    pub(crate) key: Key,
    /// Also tells what waiting in line for at most this long would have made of token buckets
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = wait)]
    pub(crate) max_wait: Duration,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
}

/// What the limits would have done.
pub(crate) struct Replay {
    pub(crate) end: LogEnd,
    pub(crate) tallies: Vec<Tally>,
    /// What deserves a warning.
    pub(crate) notes: Vec<String>,
    pub(crate) max_wait: Duration,
}

/// Runs the command.
pub(crate) fn replay(args: &ReplayArgs) -> Result<Replay, Failure> {
    let limits = args.limits.read()?;
    let rules = match &args.rules {
        Some(path) => rules::read(path, &limits, &args.key)?,
        None => rules::for_all(&limits, &args.key),
    };
    let mut wanted = args.log.wanted();
    let (plan, mut notes) = Plan::new(&limits, rules, &mut wanted);
    let mut engine = Engine::new(limits, plan, args.max_wait);
    let mut log = Log::open(&args.log.files(), wanted)?;
    while let Some(record) = log.next_record()? {
        engine.meet(&record);
    }
    let end = log.end();
    let (tallies, more) = engine.end();
    notes.extend(more);
    Ok(Replay {
        end,
        tallies,
        notes,
        max_wait: args.max_wait,
    })
}

/// Parses a time to wait.
fn wait(text: &str) -> Result<Duration, String> {
    const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
    let wait = parse_duration(text).map_err(|error| error.to_string())?;
    match wait.is_zero() || wait > LONGEST || wait.subsec_nanos() % 1000 > 0 {
        true => Err("use a time from 1us to 24h".to_owned()),
        false => Ok(wait),
    }
}
