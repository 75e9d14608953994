//! The limits of a fleet, and what they admit.

use std::time::Duration;

use tollgate::{Limit, quota::Per};

/// A limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The most that fits into one request.
    pub(crate) most: u32,
    pub(crate) kind: Kind,
    /// Whether processes charge units ahead.
    pub(crate) leased: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Rate {
        count: u32,
        period: u64,
    },
    Window {
        span: u64,
    },
    /// Of periods that each begin with the first request after the last one.
    Quota {
        span: u64,
    },
    /// Permits, each for `hold` unless it is renewed.
    AtOnce {
        hold: u64,
    },
}

impl Terms {
    pub(crate) fn limit(self) -> Limit {
        let most = self.most;
        let time = Duration::from_millis;
        match self.kind {
            Kind::Rate { count, period } => Limit::new(most, count, time(period)).unwrap(),
            Kind::Window { span } => Limit::window(most, time(span)),
            Kind::Quota { span } => Limit::quota(most, Per::first_use(time(span))),
            Kind::AtOnce { hold } => Limit::concurrent(most).hold(time(hold)),
        }
    }

    /// The share of each process of a fleet, rounded up.
    pub(crate) fn share(self, processes: u32) -> Self {
        let kind = match self.kind {
            Kind::Rate { count, period } => Kind::Rate {
                count,
                period: period * u64::from(processes),
            },
            kind => kind,
        };
        Self {
            most: self.most.div_ceil(processes),
            kind,
            ..self
        }
    }

    /// The most that is admitted within a time.
    pub(crate) fn within(self, time: u64) -> u64 {
        let most = u64::from(self.most);
        match self.kind {
            Kind::Rate { count, period } => most + time * u64::from(count) / period,
            Kind::Window { span } => most * (time / span + 1),
            // A time of one span touches up to three periods: the end of one, a whole one, and the first instant of the next.
            Kind::Quota { span } => most * (time / span + 2),
            Kind::AtOnce { .. } => u64::MAX,
        }
    }

    pub(crate) fn is_at_once(self) -> bool {
        matches!(self.kind, Kind::AtOnce { .. })
    }

    /// Whether tokens come back while a charge is kept, so that a refund of it can let others pass.
    pub(crate) fn is_rate(self) -> bool {
        matches!(self.kind, Kind::Rate { .. })
    }
}
