//! Metrics for operators, through the facade of the [`metrics`] crate, for whichever exporter the application
//! installs. The [guide](crate::guide::operating) has alerts and an example.
//!
//! | name | kind | labels | meaning |
//! |---|---|---|---|
//! | [`REQUESTS`] | counter | `policy`, `result` | decided transactions |
//! | [`REFUSALS`] | counter | `reason` | requests that layers refused |
//! | [`DECISION_DURATION`] | histogram, seconds | `operation` | duration of decisions, including the store |
//! | [`STORE_DURATION`] | histogram, seconds | `call`, `result` | duration of calls to Redis |
//! | [`CIRCUIT_TRANSITIONS`] | counter | `to` | transitions of the circuit breaker |
//! | [`FALLBACK_REQUESTS`] | counter | `action` | batches decided without the store |
//! | [`OVERRIDE_UTILIZATION`] | histogram, 0 to 1 | `policy` | how much of their buckets clients with an override have used |
//! | [`CONFIG_RELOADS`] | counter | `outcome` | reloads: limits `applied` or `refused`, files `unreadable` |
//! | [`BUCKETS`] | gauge | | buckets in memory |
//! | [`EVICTIONS`] | counter | | buckets evicted because memory was full |
//! | [`WAITING`] | gauge | | requests that wait in line in layers |
//! | [`PERMITS`] | gauge | `policy` | permits of concurrency limits that work in this process holds |
//! | [`CIRCUIT_STATE`] | gauge | | 0 while the store decides, 1 while the process decides without it |
//!
//! The names follow OpenTelemetry's conventions. An exporter for Prometheus writes them with underscores, and appends
//! the unit and `_total`. `policy` is the name of the limit. No label contains an id, because there would be as many
//! series as clients.
//!
//! | `result` | |
//! |---|---|
//! | `acquired` | charged, or checked and found to fit |
//! | `rejected` | denied |
//! | `blocked` | denied because the client is blocked |
//! | `cache_rejected` | denied by the deny cache, without asking the store |
//! | `fallback_acquired`, `fallback_rejected` | decided locally, because the store did not answer |
//! | `shadow_rejected` | would have been denied without shadow mode |
//! | `withheld` | would have passed, but another limit of the batch denied |
//! | `skipped` | had no vote, and did not fit |
//! | `error` | not decided: the store did not answer |
//!
//! The `result` of a call to the store is `ok`, `error`, `timeout` (the backend's own), `moving` (a master has become a replica),
//! or `dropped` (its caller has stopped waiting, for example after the deadline of a `FailurePolicy`).
//!
//! A refusal's `reason` is `over_limit`, `blocked`, `too_costly` (413), `listed` (403), `no_id`, `unavailable` (503) or
//! `misconfigured`.
//!
//! ```
//! use tollgate::{Limiter, Limits, MemoryBackend, metrics};
//!
//! // After the exporter is installed, and before limiters are created:
//! metrics::describe();
//! let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
//! // Before each scrape:
//! metrics::publish(&limiter.stats());
//! ```
//!
//! [`publish`] sets `BUCKETS`, `EVICTIONS` and `CIRCUIT_STATE`: call it before each scrape. The example `observability`
//! has a dashboard.
//!
//! Counters start at 0 for each combination of their labels, so that `increase()` sees the first event. Counters with
//! a `policy` are created with the limiter and on reload, the others by [`describe`]. So install the exporter and
//! call `describe` before you create limiters. A recorder is asked for each series once, at its first use.

mod durations;

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};

pub(crate) use self::durations::{Durations, Stopwatch, StoreDurations};
use crate::transaction::{OnFailure, ResultLabel, stats::Stats};

/// Decided transactions. The [module docs](self) describe each metric.
pub const REQUESTS: &str = "rate_limiting.requests";
/// Requests that layers refused. See the [module docs](self).
pub const REFUSALS: &str = "rate_limiting.refusals";
/// Duration of decisions, in seconds. See the [module docs](self).
pub const DECISION_DURATION: &str = "rate_limiting.decision.duration";
/// Duration of calls to Redis, in seconds. See the [module docs](self).
pub const STORE_DURATION: &str = "rate_limiting.store.duration";
/// Transitions of the circuit breaker of a [`FailurePolicy`](crate::backend::FailurePolicy).
pub const CIRCUIT_TRANSITIONS: &str = "rate_limiting.circuit.transitions";
/// Batches decided without the store. See the [module docs](self).
pub const FALLBACK_REQUESTS: &str = "rate_limiting.fallback.requests";
/// The used part of the buckets of clients with an override, from 0 to 1. See the [module docs](self).
pub const OVERRIDE_UTILIZATION: &str = "rate_limiting.override.utilization";
/// Reloads of limits, applied or refused. See the [module docs](self).
pub const CONFIG_RELOADS: &str = "rate_limiting.config.reloads";
/// Buckets in memory. [`publish`] sets it.
pub const BUCKETS: &str = "rate_limiting.buckets";
/// Buckets that were evicted because memory was full. [`publish`] sets it.
pub const EVICTIONS: &str = "rate_limiting.evictions";
/// Requests that wait in line in layers. See the [module docs](self).
pub const WAITING: &str = "rate_limiting.waiting";
/// Permits that work in this process holds, by its requests and by [`enter`](crate::limiter::LimitHandle::enter). See the
/// [module docs](self).
pub const PERMITS: &str = "rate_limiting.permits";
/// 0 while the store decides, 1 while the process decides without it. [`publish`] sets it.
pub const CIRCUIT_STATE: &str = "rate_limiting.circuit.state";

/// Upper bounds for histograms of both durations, in seconds. A decision in memory takes about a microsecond, and one
/// on Redis a fraction of a millisecond. The [guide](crate::guide::operating#metrics) shows how to set them.
pub const DURATION_BUCKETS: &[f64] = &[
    0.000_001, 0.000_002, 0.000_005, 0.000_02, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005,
    0.01, 0.025, 0.05, 0.25, 1.0,
];
/// Upper bounds for the histogram of [`OVERRIDE_UTILIZATION`]. See the [module docs](self).
pub const UTILIZATION_BUCKETS: &[f64] = &[0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0];

/// Every counter except [`REQUESTS`] and [`EVICTIONS`], with its label and all values of the label.
const COUNTERS: [(&str, &str, &str); 4] = [
    (REFUSALS, "reason", REASONS),
    (CIRCUIT_TRANSITIONS, "to", "open closed"),
    (FALLBACK_REQUESTS, "action", "local allow refuse"),
    (CONFIG_RELOADS, "outcome", "applied refused unreadable"),
];

const REASONS: &str = "over_limit blocked too_costly listed no_id unavailable misconfigured";

/// Describes the metrics and their units to the recorder, and starts the counters at 0. Call it once, after the
/// exporter is installed and before limiters are created. The [guide](crate::guide::operating#metrics) has an
/// example.
pub fn describe() {
    for (name, label, values) in COUNTERS {
        for value in values.split(' ') {
            counter!(name, label => value).increment(0);
        }
    }
    gauge!(WAITING).increment(0.0);
    for (name, meaning) in [
        (REQUESTS, "Transactions decided"),
        (REFUSALS, "Requests refused by layers"),
        (CIRCUIT_TRANSITIONS, "Transitions of the circuit breaker"),
        (FALLBACK_REQUESTS, "Batches decided without the store"),
        (CONFIG_RELOADS, "Reloads of limits"),
        (EVICTIONS, "Buckets evicted because memory was full"),
    ] {
        describe_counter!(name, Unit::Count, meaning);
    }
    for (name, meaning) in [
        (BUCKETS, "Buckets held in memory"),
        (WAITING, "Requests that wait in line in layers"),
        (PERMITS, "Permits that work in this process holds"),
        (
            CIRCUIT_STATE,
            "1 while the process decides without the store",
        ),
    ] {
        describe_gauge!(name, Unit::Count, meaning);
    }
    describe_histogram!(DECISION_DURATION, Unit::Seconds, "Duration of decisions");
    describe_histogram!(STORE_DURATION, Unit::Seconds, "Duration of calls to Redis");
    describe_histogram!(
        OVERRIDE_UTILIZATION,
        "Used part of the buckets of clients with an override"
    );
}

/// Sets the metrics of states: buckets held, evictions, and whether the breaker is open. Figures that a
/// backend does not have are left out.
///
/// ```
/// use tollgate::{Limiter, Limits, MemoryBackend, metrics};
///
/// let limiter = Limiter::new(Limits::default(), MemoryBackend::new());
/// // Before each scrape:
/// metrics::publish(&limiter.stats());
/// ```
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
pub fn publish(stats: &Stats) {
    if let Some(buckets) = stats.buckets {
        gauge!(BUCKETS).set(buckets as f64);
    }
    if let Some(evictions) = stats.evictions {
        counter!(EVICTIONS).absolute(evictions);
    }
    if let Some(is_open) = stats.is_open {
        gauge!(CIRCUIT_STATE).set(f64::from(u8::from(is_open)));
    }
}

/// The series of one limit, each registered at its first use. Clones share the series.
#[derive(Clone, Default)]
pub(crate) struct Meter(Arc<Series>);

#[derive(Default)]
struct Series {
    requests: [OnceLock<Counter>; ResultLabel::ALL.len()],
    utilization: OnceLock<Histogram>,
    permits: OnceLock<Gauge>,
}

impl Meter {
    /// Starts the series of a limit at 0. They are registered again at their first use, because the recorder may be
    /// installed later.
    pub(crate) fn begin(policy: &str, has_permits: bool) {
        for label in ResultLabel::ALL {
            requests(policy, label).increment(0);
        }
        if has_permits {
            permits(policy).increment(0.0);
        }
    }

    #[inline]
    pub(crate) fn decided(&self, policy: &str, label: ResultLabel) {
        let new = || requests(policy, label);
        self.0.requests[label as usize]
            .get_or_init(new)
            .increment(1);
    }

    /// Counts permits as long as the returned value exists.
    pub(crate) fn held(&self, policy: &str, held: u32) -> PermitCount {
        let gauge = self.0.permits.get_or_init(|| permits(policy)).clone();
        gauge.increment(f64::from(held));
        PermitCount { gauge, held }
    }

    /// Records the used part of the bucket of a client with an override.
    #[expect(clippy::float_arithmetic, reason = "it is a ratio")]
    pub(crate) fn used(&self, policy: &str, remaining: u32, most: u32) {
        let new = || histogram!(OVERRIDE_UTILIZATION, "policy" => policy.to_owned());
        let used = 1.0 - f64::from(remaining) / f64::from(most.max(1));
        self.0.utilization.get_or_init(new).record(used);
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meter")
    }
}

fn requests(policy: &str, label: ResultLabel) -> Counter {
    counter!(REQUESTS, "policy" => policy.to_owned(), "result" => label.as_str())
}

fn permits(policy: &str) -> Gauge {
    gauge!(PERMITS, "policy" => policy.to_owned())
}

/// Permits that are held until this is dropped.
pub(crate) struct PermitCount {
    gauge: Gauge,
    held: u32,
}

impl Drop for PermitCount {
    fn drop(&mut self) {
        self.gauge.decrement(f64::from(self.held));
    }
}

/// Counts that a breaker has opened or closed.
pub(crate) fn circuit_is(to: &'static str) {
    count(CIRCUIT_TRANSITIONS, "to", to);
}

/// Counts a batch that was decided without the store, by this policy.
pub(crate) fn fell_back(action: OnFailure) {
    let name = match action {
        OnFailure::Local => "local",
        OnFailure::Allow => "allow",
        OnFailure::Refuse => "refuse",
    };
    count(FALLBACK_REQUESTS, "action", name);
}

/// Counts a request that a layer has refused.
pub(crate) fn refused(reason: &'static str) {
    count(REFUSALS, "reason", reason);
}

/// Counts a request that begins to wait in line, or stops.
pub(crate) fn waits(begins: bool) {
    gauge!(WAITING).increment(if begins { 1.0 } else { -1.0 });
}

/// Counts a reload, by its outcome.
pub(crate) fn reloaded(outcome: &'static str) {
    count(CONFIG_RELOADS, "outcome", outcome);
}

/// Counts one event in one of the series that began at 0.
fn count(name: &'static str, label: &'static str, value: &'static str) {
    let mut known = COUNTERS.iter().filter(|counter| counter.0 == name);
    debug_assert!(
        known.any(|counter| counter.2.split(' ').any(|known| known == value)),
        "{value}"
    );
    counter!(name, label => value).increment(1);
}
