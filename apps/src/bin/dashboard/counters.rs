//! Keeps the metrics of tollgate in memory, so that the page can show them without a Prometheus.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SetRecorderError,
    SharedString, Unit,
};
use serde::Serialize;
use tollgate::metrics::{
    CIRCUIT_TRANSITIONS, FALLBACK_REQUESTS, REQUESTS, STORE_DURATION, WAITING,
};

/// All counters, gauges and durations of the process. Clones share them.
///
/// An application that exports metrics as well installs both recorders with `metrics_util::layers::FanoutBuilder`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters(Arc<Mutex<Series>>);

#[derive(Debug, Default)]
struct Series {
    values: HashMap<Key, Arc<AtomicU64>>,
    durations: HashMap<Key, Arc<Durations>>,
}

/// The decisions on one limit.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Tally {
    /// Requests that this limit let pass, also locally and in shadow mode.
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// The number of allowed requests that would be denied without shadow mode.
    shadow_denied: u64,
    /// The number of allowed and denied requests that were decided without the store.
    local: u64,
    errors: u64,
}

/// The calls to a store.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Calls {
    ok: u64,
    failed: u64,
    /// The total duration of the successful calls, in microseconds.
    ok_us: u64,
    /// The number of times that a circuit breaker has opened.
    opened: u64,
    /// Batches that were decided without the store.
    fallback: u64,
}

#[derive(Debug, Default)]
struct Durations {
    count: AtomicU64,
    micros: AtomicU64,
}

impl Counters {
    /// Installs the recorder of this process. Call it before the first limiter is created.
    pub(crate) fn install() -> Result<Self, SetRecorderError<Self>> {
        let counters = Self::default();
        metrics::set_global_recorder(counters.clone())?;
        tollgate::metrics::describe();
        Ok(counters)
    }

    /// The decisions on each limit that has been in force.
    pub(crate) fn tallies(&self) -> HashMap<String, Tally> {
        let mut tallies = HashMap::<String, Tally>::new();
        for (key, count) in self.values(REQUESTS) {
            let limit = label(&key, "policy").to_owned();
            let result = label(&key, "result");
            tallies.entry(limit).or_default().add(result, count);
        }
        tallies
    }

    pub(crate) fn calls(&self) -> Calls {
        let mut calls = Calls::default();
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, durations) in &series.durations {
            let count = durations.count.load(Ordering::Relaxed);
            match (key.name(), label(key, "result")) {
                (STORE_DURATION, "ok") => {
                    calls.ok += count;
                    calls.ok_us += durations.micros.load(Ordering::Relaxed);
                }
                (STORE_DURATION, _) => calls.failed += count,
                _ => {}
            }
        }
        drop(series);
        let opened = self.values(CIRCUIT_TRANSITIONS).into_iter();
        let opened = opened.filter(|(key, _)| label(key, "to") == "open");
        calls.opened = opened.map(|(_, count)| count).sum();
        let fallback = self.values(FALLBACK_REQUESTS).into_iter();
        calls.fallback = fallback.map(|(_, count)| count).sum();
        calls
    }

    /// The number of requests that wait in line. A gauge is a float, stored as its bits.
    pub(crate) fn waiting(&self) -> f64 {
        let gauges = self.values(WAITING).into_iter();
        gauges.map(|(_, bits)| f64::from_bits(bits)).sum()
    }

    fn values(&self, name: &str) -> Vec<(Key, u64)> {
        let series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = series.values.iter().filter(|(key, _)| key.name() == name);
        named
            .map(|(key, value)| (key.clone(), value.load(Ordering::Relaxed)))
            .collect()
    }

    fn value(&self, key: &Key) -> Arc<AtomicU64> {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(series.values.entry(key.clone()).or_default())
    }
}

impl Tally {
    fn add(&mut self, result: &str, count: u64) {
        match result {
            "acquired" => self.allowed += count,
            "fallback_acquired" => {
                self.allowed += count;
                self.local += count;
            }
            "shadow_rejected" => {
                self.allowed += count;
                self.shadow_denied += count;
            }
            "rejected" | "blocked" | "cache_rejected" => self.denied += count,
            "fallback_rejected" => {
                self.denied += count;
                self.local += count;
            }
            "error" => self.errors += count,
            // Another limit denied the request, or this one had no vote.
            _ => {}
        }
    }
}

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut series = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let durations = series.durations.entry(key.clone()).or_default();
        Histogram::from_arc(Arc::clone(durations))
    }
}

impl HistogramFn for Durations {
    #[expect(clippy::float_arithmetic, reason = "metrics are floats")]
    #[expect(clippy::cast_possible_truncation, reason = "a float saturates")]
    #[expect(clippy::cast_sign_loss, reason = "no duration is negative")]
    fn record(&self, secs: f64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros
            .fetch_add((secs * 1e6) as u64, Ordering::Relaxed);
    }
}

fn label<'a>(key: &'a Key, name: &str) -> &'a str {
    let mut labels = key.labels();
    let found = labels.find(|label| label.key() == name);
    found.map_or("", |label| label.value())
}
