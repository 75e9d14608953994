//! A configuration in the form of the page's address.

use std::{error::Error, time::Duration};

use serde::Serialize;
use thiserror::Error;
use tollgate::{Limit, tiers::Tier};

const MAX_TIERS: usize = 4;

/// The most digits of a number.
const MAX_DIGITS: usize = 9;

/// Numbers, not yet validated. Times are in seconds.
#[derive(Debug, Serialize)]
pub(crate) struct Config {
    /// The limit, window, active period and cooldown of each tier, lowest first.
    tiers: Vec<[u32; 4]>,
    /// Burst, count and period.
    gcra: [u32; 3],
    /// Limit and window.
    window: [u32; 2],
    /// Quota, and the period that starts with the first use.
    quota: [u32; 2],
    /// The number at once, and how long the work of each request lasts.
    concurrent: [u32; 2],
}

impl Config {
    /// Reads a query. A missing or malformed list is replaced by a default of five per second.
    pub(crate) fn of(query: &[(String, String)]) -> Self {
        let tiers = list(query, "tiers").and_then(|list| match list.as_chunks() {
            (tiers, []) if tiers.len() <= MAX_TIERS => Some(tiers.to_vec()),
            _ => None,
        });
        Self {
            tiers: tiers.unwrap_or_else(|| vec![[5, 1, 1, 0]]),
            gcra: list_of(query, "gcra").unwrap_or([5, 5, 1]),
            window: list_of(query, "window").unwrap_or([5, 1]),
            quota: list_of(query, "quota").unwrap_or([5, 1]),
            concurrent: list_of(query, "concurrent").unwrap_or([5, 1]),
        }
    }

    pub(crate) fn tiers(&self) -> Vec<Tier> {
        let tiers = self.tiers.iter().map(|[limit, window, active, cooldown]| {
            Tier::new(*limit, seconds(*window))
                .active(seconds(*active))
                .cooldown(seconds(*cooldown))
        });
        tiers.collect()
    }

    /// The limits without tiers: by GCRA, with a window, with a quota, with permits. Nothing renews permits here, so they are held
    /// for as long as possible.
    pub(crate) fn plain(&self) -> Result<[Limit; 4], ConfigError> {
        let [burst, count, period] = self.gcra;
        let ([limit, window], [quota, per]) = (self.window, self.quota);
        let [permits, _] = self.concurrent;
        let read = |limit, text: String| {
            let read = text.parse::<Limit>();
            read.map_err(|error| ConfigError::of(limit, error))
        };
        Ok([
            read("GCRA", format!("{count} per {period}s, {burst} at once"))?,
            read("window", format!("{limit} in any {window}s"))?,
            read("quota", format!("{quota} per {per}s from first use"))?,
            read("concurrency", format!("{permits} at once, held for 24h"))?,
        ])
    }

    /// How long the work of a request lasts that holds permits.
    pub(crate) fn work(&self) -> Duration {
        seconds(self.concurrent[1])
    }
}

/// The reason why a configuration cannot be simulated.
#[derive(Debug, Error)]
#[error("{limit}: {source}")]
pub(crate) struct ConfigError {
    limit: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

impl ConfigError {
    pub(crate) fn of(limit: &'static str, source: impl Error + Send + Sync + 'static) -> Self {
        let source = Box::new(source);
        Self { limit, source }
    }
}

/// Returns the list of a key, if it has this many numbers.
fn list_of<const LEN: usize>(query: &[(String, String)], key: &str) -> Option<[u32; LEN]> {
    list(query, key)?.try_into().ok()
}

fn list(query: &[(String, String)], key: &str) -> Option<Vec<u32>> {
    let pair = query.iter().find(|(name, _)| name == key);
    pair.and_then(|(_, text)| numbers(text))
}

/// Reads a comma-separated list of at least one whole number.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let number = |text: &str| {
        let is_number = text.len() <= MAX_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    text.split(',').map(number).collect()
}

fn seconds(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}
