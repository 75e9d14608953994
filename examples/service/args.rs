//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};
use tollgate::transaction::OnFailure;

/// A small HTTP service that decides by rate limits.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The address to listen on.
    #[arg(long)]
    pub(crate) listen: String,
    #[arg(long)]
    pub(crate) defaults: PathBuf,
    #[arg(long)]
    pub(crate) overrides: Option<PathBuf>,
    /// Takes the time from `now_us` of each request.
    #[arg(long)]
    pub(crate) manual_clock: bool,
    /// The URL of the Redis that keeps the buckets. Without it, they are in memory.
    #[arg(long)]
    pub(crate) redis: Option<String>,
    /// What happens while Redis does not answer.
    #[arg(long, value_enum, default_value_t = Policy::Refuse)]
    on_failure: Policy,
    /// The longest that Redis may take for a decision, in milliseconds.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    deadline_ms: u64,
}

/// The policies, by their names on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Policy {
    Refuse,
    Allow,
    Local,
}

/// The source of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockSource {
    /// The backend's own clock.
    Backend,
    /// `now_us` of each request.
    Requests,
}

impl Args {
    pub(crate) fn clock(&self) -> ClockSource {
        if self.manual_clock {
            ClockSource::Requests
        } else {
            ClockSource::Backend
        }
    }

    pub(crate) fn on_failure(&self) -> OnFailure {
        match self.on_failure {
            Policy::Refuse => OnFailure::Refuse,
            Policy::Allow => OnFailure::Allow,
            Policy::Local => OnFailure::Local,
        }
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms)
    }
}
