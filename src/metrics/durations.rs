//! Measures how long decisions and calls to a store take.

use std::{sync::OnceLock, time::Duration};

use metrics::{Histogram, histogram};
use quanta::Instant;

use super::{DECISION_DURATION, STORE_DURATION};
use crate::transaction::Operation;

/// The durations of decisions, for each operation.
#[derive(Default)]
pub(crate) struct Durations([OnceLock<Histogram>; OPERATIONS]);

/// The number of operations.
const OPERATIONS: usize = Operation::Reset as usize + 1;

impl Durations {
    #[inline]
    pub(crate) fn record(&self, operation: Operation, since: Stopwatch) {
        let new = || histogram!(DECISION_DURATION, "operation" => name(operation));
        let series = self.0[operation as usize].get_or_init(new);
        series.record(since.elapsed());
    }
}

/// The start of a measurement. Uses the processor's counter where that is reliable, because the system's clock takes
/// several times as long to read.
#[derive(Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[inline]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    #[inline]
    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The durations of a backend's calls to its store, each registered at its first use.
#[derive(Default)]
pub(crate) struct StoreDurations([[OnceLock<Histogram>; StoreCall::RESULTS.len()]; OPERATIONS]);

impl StoreDurations {
    pub(crate) fn call(&self, operation: Operation) -> StoreCall<'_> {
        StoreCall {
            durations: self,
            operation,
            result: "dropped",
            since: Stopwatch::start(),
        }
    }
}

/// A call to a store. It records its duration when it is dropped, even if its caller has stopped waiting.
pub(crate) struct StoreCall<'a> {
    durations: &'a StoreDurations,
    operation: Operation,
    result: &'static str,
    since: Stopwatch,
}

impl StoreCall<'_> {
    const RESULTS: [&'static str; 5] = ["ok", "error", "timeout", "moving", "dropped"];

    pub(crate) fn ended(mut self, result: &'static str) {
        self.result = result;
    }
}

impl Drop for StoreCall<'_> {
    fn drop(&mut self) {
        let operation = self.operation;
        let result = self.result;
        let mut results = Self::RESULTS.iter();
        let index = results.position(|known| *known == result);
        debug_assert!(index.is_some(), "{result}");
        let histogram = &self.durations.0[operation as usize][index.unwrap_or(0)];
        let new = || {
            let labels = [("call", name(operation)), ("result", result)];
            histogram!(STORE_DURATION, &labels)
        };
        histogram.get_or_init(new).record(self.since.elapsed());
    }
}

fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Check => "check",
        Operation::Spend => "spend",
        Operation::Refund => "refund",
        Operation::Renew => "renew",
        Operation::Peek => "peek",
        Operation::Reset => "reset",
    }
}
