//! A stand-in for the metrics, which counts nothing without the feature `metrics`.

use crate::transaction::{OnFailure, Operation, ResultLabel};

/// All counters and stopwatches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoMetrics;

pub(crate) type Meter = NoMetrics;
pub(crate) type PermitCount = NoMetrics;
pub(crate) type Durations = NoMetrics;
pub(crate) type Stopwatch = NoMetrics;
pub(crate) type StoreDurations = NoMetrics;

#[expect(clippy::unused_self, reason = "those that count need it")]
impl NoMetrics {
    pub(crate) fn begin(_policy: &str, _has_permits: bool) {}

    #[inline]
    pub(crate) fn decided(self, _policy: &str, _label: ResultLabel) {}

    #[inline]
    pub(crate) fn used(self, _policy: &str, _remaining: u32, _most: u32) {}

    pub(crate) fn held(self, _policy: &str, _held: u32) -> Self {
        Self
    }

    #[inline]
    pub(crate) fn start() -> Self {
        Self
    }

    #[inline]
    pub(crate) fn record(self, _operation: Operation, _since: Self) {}

    pub(crate) fn call(self, _operation: Operation) -> Self {
        Self
    }

    pub(crate) fn ended(self, _result: &'static str) {}
}

pub(crate) fn fell_back(_action: OnFailure) {}

pub(crate) fn circuit_is(_to: &'static str) {}

pub(crate) fn refused(_reason: &'static str) {}

pub(crate) fn waits(_begins: bool) {}

pub(crate) fn reloaded(_outcome: &'static str) {}
