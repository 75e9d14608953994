//! The shared parts of the benches.

use std::{fs, time::Duration};

use tollgate::{Limit, tiers::Tier};

/// Returns the load of the machine, which affects figures on instants: the number of threads that run or are ready to,
/// as an average over a minute.
#[must_use]
pub fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}

/// The second of Charon's samples: five a second, and bursts of fifty for five seconds, fifteen seconds apart.
///
/// # Panics
///
/// Never, because these tiers are valid.
#[must_use]
pub fn penalties() -> Limit {
    let secs = Duration::from_secs;
    let burst = Tier::new(50, secs(5)).active(secs(5)).cooldown(secs(15));
    let tiers = Limit::tiers([Tier::new(5, secs(1)).active(secs(1)), burst]);
    tiers.expect("they are tiers")
}
