//! What the feature `metrics` would count: nothing without it.

use crate::{decision::Fate, transaction::Operation};

#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(());

impl Meter {
    #[inline]
    pub(crate) fn decided(&self, _policy: &str, _fate: Fate) {
        let Self(()) = self;
    }

    #[inline]
    pub(crate) fn used(&self, _policy: &str, _remaining: u32, _most: u32) {
        let Self(()) = self;
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
#[inline]
pub(crate) fn answered(_operation: Operation, _result: &'static str, _since: Stopwatch) {}

#[cfg(feature = "failure-policy")]
#[inline]
pub(crate) fn circuit_is(_to: &'static str) {}

#[cfg(feature = "failure-policy")]
#[inline]
pub(crate) fn fell_back(_action: &'static str) {}

#[inline]
pub(crate) fn reloaded(_outcome: &'static str) {}
