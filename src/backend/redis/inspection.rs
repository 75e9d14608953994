//! Inspects a connected server for missing permissions, and for settings that lose buckets or make times wrong.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fred::types::{FromValue, Value};

use super::{error::RedisError, link::Link, script::PROBE};
use crate::check::{Check, Checks, Finding};

/// The longest that an answer may take. Only a check waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The largest accepted difference between clocks.
const SKEW: Duration = Duration::from_secs(5);

/// Fails if the user of a connection may not run scripts. Without this, the first decision would be the first to fail.
///
/// A server that gives no clear answer passes.
pub(super) async fn may_run_scripts(link: &Link) -> Result<(), RedisError> {
    for (command, script) in [("EVAL", PROBE.text), ("EVALSHA", &PROBE.sha)] {
        let run: Result<Value, _> = link.query(command, &[script, "0"], PATIENCE).await;
        if let Err(error) = run
            && error.is_permanent()
        {
            return Err(error);
        }
    }
    Ok(())
}

/// Returns the findings about a server. Without the permission to ask, there are none.
pub(super) async fn inspect(link: &Link, checks: Checks) -> Vec<Finding> {
    let mut findings = Vec::new();
    if checks.has(Check::BucketsEvicted) {
        findings.extend(eviction(link).await);
    }
    if checks.has(Check::ClockSkew) {
        findings.extend(skew(link).await);
    }
    findings
}

async fn eviction(link: &Link) -> Option<Finding> {
    let info: String = ask(link, "INFO", &["memory"]).await?;
    let field = |name| {
        let mut fields = info.lines().filter_map(|line| line.trim().split_once(':'));
        fields
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    };
    let (most, policy) = (field("maxmemory")?, field("maxmemory_policy")?);
    let seen = format!("the Redis server evicts by `{policy}` when it holds {most} bytes");
    // `volatile-ttl` evicts the buckets first that would be full soonest.
    let is_harmless = most == "0" || ["noeviction", "volatile-ttl"].contains(&policy);
    (!is_harmless).then(|| Finding::new(Check::BucketsEvicted, seen))
}

async fn skew(link: &Link) -> Option<Finding> {
    let before = since_epoch();
    let (secs, micros): (u64, u32) = ask(link, "TIME", &[]).await?;
    let after = since_epoch();
    let theirs = Duration::new(secs, micros.checked_mul(1000)?);
    let apart = apart(before, theirs, after);
    let ahead = if theirs > after { "ahead" } else { "behind" };
    let seen = format!("the Redis server's clock is {apart:.0?} {ahead} of this machine's");
    (apart > SKEW).then(|| Finding::new(Check::ClockSkew, seen))
}

/// Returns the least difference between our clock and one that was read between two readings of ours.
fn apart(before: Duration, theirs: Duration, after: Duration) -> Duration {
    let (ahead, behind) = (theirs.saturating_sub(after), before.saturating_sub(theirs));
    ahead.max(behind)
}

fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

async fn ask<T: FromValue>(
    link: &Link,
    command: &'static str,
    arguments: &[&'static str],
) -> Option<T> {
    let answered = link.query(command, arguments, PATIENCE).await;
    answered
        .inspect_err(|error| tracing::debug!(%error, "a check could not ask the Redis server"))
        .ok()
}
