//! A configuration as the page's address has it.

use std::time::Duration;

use serde::Serialize;
use thiserror::Error;
use tollgate::{
    gcra::{Gcra, GcraError},
    tiers::{Tier, Tiers, TiersError},
};

const MAX_TIERS: usize = 4;

/// The most digits of a number.
const MAX_DIGITS: usize = 9;

/// Numbers, not yet validated. Times are in seconds.
#[derive(Debug, Serialize)]
pub(crate) struct Config {
    /// Limit, window, active and cooldown of each, lowest first.
    tiers: Vec<[u32; 4]>,
    /// Burst, count and period.
    gcra: [u32; 3],
}

impl Config {
    /// Reads a query. A list that is malformed, or is missing, counts as a whole as five a second.
    pub(crate) fn of(query: &[(String, String)]) -> Self {
        let list = |key| {
            let pair = query.iter().find(|(name, _)| name == key);
            pair.and_then(|(_, text)| numbers(text))
        };
        let tiers = list("tiers").and_then(|list| match list.as_chunks() {
            (tiers, []) if tiers.len() <= MAX_TIERS => Some(tiers.to_vec()),
            _ => None,
        });
        let gcra = list("gcra").and_then(|list| list.try_into().ok());
        Self {
            tiers: tiers.unwrap_or_else(|| vec![[5, 1, 1, 0]]),
            gcra: gcra.unwrap_or([5, 5, 1]),
        }
    }

    pub(crate) fn tiers(&self) -> Result<Tiers, ConfigError> {
        let tiers = self.tiers.iter().map(|[limit, window, active, cooldown]| {
            Tier::new(*limit, seconds(*window))
                .active(seconds(*active))
                .cooldown(seconds(*cooldown))
        });
        Ok(Tiers::new(tiers)?)
    }

    pub(crate) fn gcra(&self) -> Result<Gcra, ConfigError> {
        let [burst, count, period] = self.gcra;
        Ok(Gcra::new(burst, count, seconds(period))?)
    }
}

/// Why a configuration cannot be simulated.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error(transparent)]
    Tiers(#[from] TiersError),
    #[error("GCRA: {0}")]
    Gcra(#[from] GcraError),
}

/// Whole numbers between commas, at least one.
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
