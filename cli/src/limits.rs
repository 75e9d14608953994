//! Limits: their files, the limit of one client, and a limiter for the times of a log.

use std::{fmt, path::PathBuf, time::Duration};

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;
use tollgate::{
    Limit, Limiter, Limits, MemoryBackend,
    clock::{ManualClock, Timestamp},
    limit::{LimitsError, NamedLimit, format_duration},
};

use crate::output::shown;

/// The files with the limits.
#[derive(Args, Clone, Debug)]
pub(crate) struct LimitFiles {
    /// The file with the limits, in YAML, JSON or TOML
    #[arg(long, visible_alias = "defaults", value_name = "FILE")]
    limits: PathBuf,
    /// The file with the limits of single clients
    #[arg(long, value_name = "FILE")]
    overrides: Option<PathBuf>,
}

impl LimitFiles {
    pub(crate) fn read(&self) -> Result<Limits, LimitsError> {
        let mut recipe = Limits::builder().defaults_file(&self.limits);
        if let Some(overrides) = &self.overrides {
            recipe = recipe.overrides_file(overrides);
        }
        recipe.build()
    }

    /// Reads the files for commands other than `check`.
    pub(crate) fn usable(&self) -> Result<Limits> {
        // The text of the error includes the causes.
        let read = self.read();
        read.map_err(|error| anyhow!("the limits cannot be used: {error}"))
    }
}

/// Finds a limit.
pub(crate) fn named<'a>(limits: &'a Limits, name: &str) -> Result<&'a NamedLimit> {
    limits.get(name).ok_or_else(|| {
        let mut known: Vec<_> = limits.iter().map(NamedLimit::name).collect();
        known.sort_unstable();
        anyhow!(
            "unknown limit `{}`: known are {}",
            shown(name),
            known.join(", ")
        )
    })
}

/// Returns the default of a limit and the limits of its overrides.
pub(crate) fn all_of(named: &NamedLimit) -> impl Iterator<Item = &Limit> {
    named
        .limit()
        .into_iter()
        .chain(named.overrides().map(|own| own.limit()))
}

/// The limit of one client.
#[derive(Debug, Serialize)]
pub(crate) struct LimitedClient<'a> {
    limit: &'a str,
    /// The id as requested.
    id: &'a str,
    /// The key of its bucket, in canonical form.
    pub(crate) key: String,
    /// The values in force; `None` if the client is not limited.
    pub(crate) values: Option<&'a Limit>,
    /// The values in one line.
    pub(crate) summary: String,
    bound: Option<UpperBound>,
    #[serde(rename = "override")]
    own: Option<OverrideSummary<'a>>,
    shadow: bool,
}

#[derive(Debug, Serialize)]
struct OverrideSummary<'a> {
    /// The id as written.
    id: &'a str,
    comment: Option<&'a str>,
}

impl<'a> LimitedClient<'a> {
    /// Looks up the limit of a client whose requests have this id.
    pub(crate) fn look_up(limits: &'a Limits, limit: &'a str, id: &'a str) -> Result<Self> {
        let named = named(limits, limit)?;
        let values = named.limit_of(id);
        let values = values.map_err(|error| anyhow!("limit `{limit}`: {error}"))?;
        Ok(Self {
            limit,
            id,
            key: named.bucket_key(id)?,
            values,
            summary: values.map_or_else(|| "not limited".to_owned(), Limit::to_string),
            bound: values.and_then(UpperBound::of),
            own: named.override_of(id).map(|own| OverrideSummary {
                id: own.id(),
                comment: own.comment(),
            }),
            shadow: named.is_shadow(),
        })
    }
}

impl fmt::Display for LimitedClient<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.limit, shown(self.id))?;
        writeln!(f, "  limit: {}", self.summary)?;
        if let Some(bound) = &self.bound {
            writeln!(f, "  at most: {bound}")?;
        }
        match &self.own {
            None if self.values.is_none() => {
                writeln!(f, "  from: neither a default nor an override")?;
            }
            None => writeln!(f, "  from: the default")?,
            Some(own) => {
                let comment = own.comment.map(|comment| format!(" ({})", shown(comment)));
                let comment = comment.unwrap_or_default();
                writeln!(f, "  from: the override for `{}`{comment}", shown(own.id))?;
            }
        }
        writeln!(f, "  bucket: {}", shown(&self.key))?;
        if self.shadow {
            writeln!(f, "  shadow mode: it refuses nobody")
        } else {
            Ok(())
        }
    }
}

/// The most that a limit admits in any span of its own length.
#[derive(Debug, Serialize)]
pub(crate) struct UpperBound {
    most: u64,
    within: String,
}

impl UpperBound {
    /// The bound of a limit, if it has one.
    pub(crate) fn of(limit: &Limit) -> Option<Self> {
        let span: Duration = limit.period()?;
        Some(Self {
            most: limit.most_within(span)?,
            within: format_duration(span),
        })
    }
}

impl fmt::Display for UpperBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in any {}", self.most, self.within)
    }
}

/// A limiter in memory, with the times of a log as its clock.
pub(crate) struct LogLimiter {
    limiter: Limiter,
    clock: ManualClock,
}

impl LogLimiter {
    pub(crate) fn new(limits: Limits, buckets: usize, history_bytes: usize) -> Self {
        let backend = MemoryBackend::with_max_buckets(buckets).max_history_bytes(history_bytes);
        let clock = ManualClock::new(Timestamp::from_micros(0));
        let limiter = Limiter::new(limits, backend).with_clock(clock.clone());
        Self { limiter, clock }
    }

    /// The limiter at an instant, in microseconds since the epoch.
    pub(crate) fn at(&self, us: u64) -> &Limiter {
        self.clock.set(Timestamp::from_micros(us));
        &self.limiter
    }

    /// The buckets that were forgotten early, because the memory was full.
    pub(crate) fn evictions(&self) -> u64 {
        self.limiter.stats().evictions.unwrap_or_default()
    }
}
