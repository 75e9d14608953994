//! Limits in words: `10 per 1s, 20 at once`, `1000 per calendar day`. [`FromStr`](std::str::FromStr) reads them.

use std::fmt;

use super::{
    duration::{format_duration, format_span},
    limit::Limit,
};
use crate::{
    gcra::Gcra,
    quota::{Per, UtcOffset},
    tiers::{Tier, Tiers},
    transaction::Algorithm,
};

impl fmt::Display for Limit {
    /// Writes the limit in the words that [`FromStr`](#impl-FromStr-for-Limit) reads.
    ///
    /// | limit | text |
    /// |---|---|
    /// | burst, count and period | `10 per 1s, 20 at once` |
    /// | the same with a line | `10 per 1s, 20 at once, waiting up to 2s` |
    /// | window | `5 in any 15m0s` |
    /// | quota | `1000 per calendar day`, `1000 per calendar day at +02:00` or `1000 per 24h0m0s from first use` |
    /// | tiers | `5 per 1s for infinite, then 1 per 15s for 15s, cooldown 1m0s, skippable` |
    /// | all or nothing | `unlimited` or `blocked` |
    ///
    /// A limit with leases is written as it was configured.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.algorithm() {
            Some(Algorithm::Gcra(gcra)) => {
                write_bucket(f, self.before_split().unwrap_or(gcra.burst()), gcra)
            }
            Some(Algorithm::Tiers(tiers)) => write_tiers(f, tiers),
            Some(Algorithm::Window(window)) => {
                let span = format_duration(window.window());
                write!(f, "{} in any {span}", window.limit())
            }
            Some(Algorithm::Quota(quota)) => {
                write_quota(f, self.before_split().unwrap_or(quota.quota()), quota.per())
            }
            None if self.is_blocked() => f.write_str("blocked"),
            None => f.write_str("unlimited"),
        }
    }
}

fn write_bucket(f: &mut fmt::Formatter<'_>, burst: u32, gcra: &Gcra) -> fmt::Result {
    let period = format_duration(gcra.period());
    write!(f, "{} per {period}, {burst} at once", gcra.count())?;
    match gcra.max_wait() {
        wait if wait.is_zero() => Ok(()),
        wait => write!(f, ", waiting up to {}", format_duration(wait)),
    }
}

fn write_quota(f: &mut fmt::Formatter<'_>, quota: u32, per: Per) -> fmt::Result {
    match per.calendar_unit() {
        Some((unit, UtcOffset::UTC)) => write!(f, "{quota} per calendar {unit}"),
        Some((unit, offset)) => write!(f, "{quota} per calendar {unit} at {offset}"),
        None => {
            let length = format_duration(per.first_use_length().unwrap_or_default());
            write!(f, "{quota} per {length} from first use")
        }
    }
}

fn write_tiers(f: &mut fmt::Formatter<'_>, tiers: &Tiers) -> fmt::Result {
    for (i, tier) in tiers.iter().enumerate() {
        let then = if i > 0 { ", then " } else { "" };
        f.write_str(then)?;
        write_tier(f, tier)?;
    }
    Ok(())
}

fn write_tier(f: &mut fmt::Formatter<'_>, tier: Tier) -> fmt::Result {
    let (window, active) = (format_span(tier.window), format_span(tier.active));
    write!(f, "{} per {window} for {active}", tier.limit)?;
    if !tier.cooldown.is_zero() {
        write!(f, ", cooldown {}", format_span(tier.cooldown))?;
    }
    match tier.skippable {
        true => f.write_str(", skippable"),
        false => Ok(()),
    }
}
