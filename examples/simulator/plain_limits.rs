//! Four buckets: one by GCRA, one with a window, one with a quota, one with permits.

use serde::Serialize;
use tollgate::{
    gcra::{Gcra, Tat},
    quota::{Quota, Usage},
    window::{Units, Window},
};

use crate::{
    config::{Config, ConfigError},
    permits::Permits,
};

/// A value for each of the limits.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Each<T> {
    gcra: T,
    window: T,
    quota: T,
    concurrent: T,
}

#[derive(Debug)]
pub(crate) struct PlainLimits {
    gcra: Gcra,
    tat: Tat,
    window: Window,
    taken: Units,
    quota: Quota,
    usage: Usage,
    permits: Permits,
}

/// The answer of one bucket to a request.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Answer {
    granted: bool,
    /// The time until a denied request would be granted, in microseconds; none if never, or if permits are missing, which come
    /// back at no known time.
    wait_us: Option<u64>,
}

impl PlainLimits {
    pub(crate) fn new(config: &Config) -> Result<Self, ConfigError> {
        Ok(Self {
            gcra: config.gcra()?,
            tat: Tat::default(),
            window: config.window()?,
            taken: Units::default(),
            quota: config.quota()?,
            usage: Usage::NOTHING,
            permits: config.permits()?,
        })
    }

    /// Ends the work that is over at an instant in microseconds.
    pub(crate) fn end_work(&mut self, now: u64) {
        self.permits.end_work(now);
    }

    /// Requests this many units from each bucket, at an instant in microseconds.
    pub(crate) fn request(&mut self, now: u64, units: u32) -> Each<Answer> {
        let (gcra, window, quota) = (self.gcra, self.window, self.quota);
        let gcra_wait = gcra.wait(self.tat, now, units).ceil_micros();
        let window_wait = window.wait(&self.taken, now, units);
        let quota_wait = quota.wait(self.usage, now, units);
        let spent = gcra.spend(self.tat, now, units);
        self.tat = spent.unwrap_or(self.tat);
        let used = quota.spend(self.usage, now, units);
        self.usage = used.unwrap_or(self.usage);
        let is_begun = self.permits.begin_work(now, units);
        let answer = |granted, most, wait| Answer {
            granted,
            wait_us: (units <= most).then_some(wait),
        };
        Each {
            gcra: answer(spent.is_some(), gcra.burst(), gcra_wait),
            window: answer(
                window.spend(&mut self.taken, now, units),
                window.limit(),
                window_wait,
            ),
            quota: answer(used.is_some(), quota.quota(), quota_wait),
            concurrent: Answer {
                granted: is_begun,
                wait_us: is_begun.then_some(0),
            },
        }
    }

    /// Returns the number of units left in each bucket.
    pub(crate) fn left(&self, now: u64) -> Each<u32> {
        Each {
            gcra: self.gcra.remaining(self.tat, now),
            window: self.window.remaining(&self.taken, now),
            quota: self.quota.remaining(self.usage, now),
            concurrent: self.permits.left(now),
        }
    }

    /// Returns whether all buckets are like unused ones.
    pub(crate) fn is_full(&self, now: u64) -> bool {
        let left = self.left(now);
        left.gcra == self.gcra.burst()
            && left.window == self.window.limit()
            && left.quota == self.quota.quota()
            && left.concurrent == self.permits.most()
    }
}
