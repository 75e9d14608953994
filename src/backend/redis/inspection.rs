//! Checks of a connected server: settings that lose buckets, and a clock that makes times wrong. Each mistake is logged once.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use fred::types::Value;

use super::connection::{Connection, PATIENCE};
use crate::clock::Timestamp;

/// The largest accepted difference between clocks.
const SKEW: Duration = Duration::from_secs(5);

/// What was logged about the servers of a backend.
#[derive(Debug, Default)]
pub(super) struct Inspection {
    eviction: AtomicBool,
    skew: AtomicBool,
}

impl Inspection {
    /// Looks at a server, which has shown its `time` after an instant. Without the permission to ask, nothing is found.
    pub(super) async fn look(&self, connection: &Connection, before: Timestamp, time: u64) {
        let after = Timestamp::from(SystemTime::now());
        if let Some(seen) = skew(before, Timestamp::from_micros(time), after) {
            let remedy = "synchronize the clocks of both machines with NTP";
            warn(&self.skew, "clock-skew", &seen, remedy);
        }
        let info = vec![Value::from_static_str("memory")];
        let info = connection.send("INFO", info, false, PATIENCE).await;
        let info = info.ok().and_then(|info| info.as_string());
        if let Some(seen) = info.as_deref().and_then(eviction) {
            let remedy = "set `maxmemory-policy noeviction` on the server, or use a separate server for buckets";
            warn(&self.eviction, "buckets-evicted", &seen, remedy);
        }
    }
}

fn warn(told: &AtomicBool, check: &str, seen: &str, remedy: &str) {
    if !told.swap(true, Ordering::Relaxed) {
        tracing::warn!(check, seen, "{remedy}");
    }
}

fn eviction(info: &str) -> Option<String> {
    let field = |name| {
        let mut fields = info.lines().filter_map(|line| line.trim().split_once(':'));
        fields
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    };
    let (most, policy) = (field("maxmemory")?, field("maxmemory_policy")?);
    // `volatile-ttl` evicts the buckets first that would be full soonest.
    let is_harmless = most == "0" || ["noeviction", "volatile-ttl"].contains(&policy);
    (!is_harmless)
        .then(|| format!("the Redis server evicts by `{policy}` when it holds {most} bytes"))
}

/// Compares the server's clock with ours, which was read before and after.
fn skew(before: Timestamp, theirs: Timestamp, after: Timestamp) -> Option<String> {
    let ahead = theirs.saturating_duration_since(after);
    let (apart, direction) = match ahead.is_zero() {
        true => (before.saturating_duration_since(theirs), "behind"),
        false => (ahead, "ahead of"),
    };
    (apart > SKEW)
        .then(|| format!("the Redis server's clock is {apart:.0?} {direction} this machine's"))
}
