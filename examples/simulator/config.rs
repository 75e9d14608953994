//! A configuration in the form of the page's address.

use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use tollgate::{
    gcra::Gcra,
    limit::LimitError,
    quota::{Per, Quota},
    tiers::{Tier, Tiers},
    window::Window,
};

use crate::permits::Permits;

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
    /// Reads a query. A missing or malformed list is replaced by a default of five a second.
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

    pub(crate) fn tiers(&self) -> Result<Tiers, ConfigError> {
        let tiers = self.tiers.iter().map(|[limit, window, active, cooldown]| {
            Tier::new(*limit, seconds(*window))
                .active(seconds(*active))
                .cooldown(seconds(*cooldown))
        });
        Tiers::new(tiers).map_err(|error| ConfigError::of("tiers", error))
    }

    pub(crate) fn gcra(&self) -> Result<Gcra, ConfigError> {
        let [burst, count, period] = self.gcra;
        let gcra = Gcra::new(burst, count, seconds(period));
        gcra.map_err(|error| ConfigError::of("GCRA", error))
    }

    pub(crate) fn window(&self) -> Result<Window, ConfigError> {
        let [limit, window] = self.window;
        let window = Window::new(limit, seconds(window));
        window.map_err(|error| ConfigError::of("window", error))
    }

    pub(crate) fn quota(&self) -> Result<Quota, ConfigError> {
        let [quota, period] = self.quota;
        let per = Per::checked_first_use(seconds(period));
        let quota = per.and_then(|per| Quota::new(quota, per));
        quota.map_err(|error| ConfigError::of("quota", error))
    }

    pub(crate) fn permits(&self) -> Result<Permits, ConfigError> {
        let [limit, work] = self.concurrent;
        let permits = Permits::new(limit, seconds(work));
        permits.map_err(|error| ConfigError::of("concurrency", error))
    }
}

/// The reason why a configuration cannot be simulated.
#[derive(Debug, Error)]
#[error("{limit}: {source}")]
pub(crate) struct ConfigError {
    limit: &'static str,
    source: LimitError,
}

impl ConfigError {
    fn of(limit: &'static str, source: LimitError) -> Self {
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
