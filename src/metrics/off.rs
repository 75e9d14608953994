//! Stand-ins for the metrics, which count nothing without the feature `metrics`.

#[cfg(feature = "failure-policy")]
use crate::transaction::OnFailure;
use crate::{decision::ResultLabel, transaction::Operation};

#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(());

impl Meter {
    #[inline]
    pub(crate) fn begin(_policy: &str) {}

    #[inline]
    pub(crate) fn decided(&self, _policy: &str, _label: ResultLabel) {
        let Self(()) = self;
    }

    #[inline]
    pub(crate) fn begin_permits(_policy: &str) {}

    #[inline]
    pub(crate) fn used(&self, _policy: &str, _remaining: u32, _most: u32) {
        let Self(()) = self;
    }
}

#[derive(Debug)]
pub(crate) struct PermitCount;

impl Meter {
    #[inline]
    pub(crate) fn held(&self, _policy: &str, _held: u32) -> PermitCount {
        let Self(()) = self;
        PermitCount
    }
}

#[derive(Default)]
pub(crate) struct Durations(());

impl Durations {
    #[inline]
    pub(crate) fn record(&self, _operation: Operation, _since: Stopwatch) {
        let Self(()) = self;
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Stopwatch;

impl Stopwatch {
    #[inline]
    pub(crate) fn start() -> Self {
        Self
    }
}

#[cfg(feature = "redis")]
#[derive(Default)]
pub(crate) struct StoreDurations(());

#[cfg(feature = "redis")]
pub(crate) struct StoreCall(());

#[cfg(feature = "redis")]
impl StoreCall {
    #[inline]
    pub(crate) fn start(durations: &StoreDurations, _operation: Operation) -> Self {
        let StoreDurations(()) = durations;
        Self(())
    }

    #[inline]
    pub(crate) fn ended(self, _result: &'static str) {
        let Self(()) = self;
    }
}

#[cfg(feature = "failure-policy")]
#[inline]
pub(crate) fn circuit_is(_to: &'static str) {}

#[cfg(feature = "failure-policy")]
#[derive(Debug, Default)]
pub(crate) struct Fallbacks(());

#[cfg(feature = "failure-policy")]
impl Fallbacks {
    #[inline]
    pub(crate) fn count(&self, _action: OnFailure) {
        let Self(()) = self;
    }
}

#[inline]
pub(crate) fn refused(_reason: &'static str) {}

#[inline]
pub(crate) fn waits(_begins: bool) {}

#[inline]
pub(crate) fn reloaded(_outcome: &'static str) {}
