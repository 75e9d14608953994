//! What limits admit.

use std::time::Duration;

use tollgate::{Limit, quota::Per, testing::random::Random, tiers::Tier};

use crate::clock::Span;

/// One second, in microseconds.
pub(crate) const SECOND: u64 = 1_000_000;

/// The values of a limit. Durations are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The most that fits into one request.
    pub(crate) most: u32,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rate {
        count: u32,
        period: u64,
    },
    Window {
        span: u64,
    },
    Hourly,
    FirstUse {
        span: u64,
    },
    /// A tier that is always active, and one above it that is active for its window, and then cools down for as long.
    Tiers {
        span: u64,
        high: (u32, u64),
    },
    /// Permits, each for `hold` unless it is renewed.
    AtOnce {
        hold: u64,
    },
}

impl Terms {
    pub(crate) fn any(random: &mut Random) -> Self {
        let span = random.within(300, 3_000) * 1_000;
        match random.below(6) {
            0 | 1 => Self {
                most: random.units(1, 40),
                kind: Kind::Rate {
                    count: random.units(1, 20),
                    period: SECOND,
                },
            },
            2 => Self {
                most: random.units(1, 20),
                kind: Kind::Window { span },
            },
            3 => Self {
                most: random.units(1, 60),
                kind: Kind::Hourly,
            },
            4 => Self {
                most: random.units(1, 30),
                kind: Kind::FirstUse { span },
            },
            _ => Self {
                most: random.units(2, 10),
                kind: Kind::Tiers {
                    span,
                    high: (random.units(1, 10), span * 2),
                },
            },
        }
    }

    /// A rate whose burst is large enough for leases. Some give back hardly anything while the fleet runs.
    pub(crate) fn leased(random: &mut Random) -> Self {
        Self {
            most: random.units(40, 60),
            kind: Kind::Rate {
                count: random.units(1, 60),
                period: *random.pick(&[SECOND, 100 * SECOND]),
            },
        }
    }

    pub(crate) fn at_once(random: &mut Random) -> Self {
        let most = random.units(1, 5);
        // Some are so long that nothing but a refund gives a permit back while the fleet runs.
        let hold = if random.one_in(3) {
            20 * SECOND
        } else {
            random.within(1_000, 4_000) * 1_000
        };
        Self {
            most,
            kind: Kind::AtOnce { hold },
        }
    }

    pub(crate) fn limit(self) -> Limit {
        let us = Duration::from_micros;
        let most = self.most;
        match self.kind {
            Kind::Rate { count, period } => Limit::new(most, count, us(period)).unwrap(),
            Kind::Window { span } => Limit::window(most, us(span)),
            Kind::Hourly => Limit::quota(most, Per::Hour),
            Kind::FirstUse { span } => Limit::quota(most, Per::first_use(us(span))),
            Kind::Tiers { span, high } => {
                let low = Tier::new(most, us(span));
                let span = us(high.1);
                let high = Tier::new(high.0, span).active(span).cooldown(span);
                Limit::tiers([low, high]).unwrap()
            }
            Kind::AtOnce { hold } => Limit::concurrent(most).hold(us(hold)),
        }
    }

    /// The share of each process of a fleet, rounded up.
    pub(crate) fn share(self, processes: usize) -> Self {
        let processes = u32::try_from(processes).unwrap();
        let kind = match self.kind {
            Kind::Rate { count, period } => Kind::Rate {
                count,
                period: period * u64::from(processes),
            },
            Kind::Tiers { span, high } => Kind::Tiers {
                span,
                high: (high.0.div_ceil(processes), high.1),
            },
            kind => kind,
        };
        Self {
            most: self.most.div_ceil(processes),
            kind,
        }
    }

    /// The most that a bucket admits at one instant.
    pub(crate) fn at_an_instant(self) -> u64 {
        let most = u64::from(self.most);
        match self.kind {
            Kind::Tiers { high, .. } => most + u64::from(high.0),
            _ => most,
        }
    }

    /// The most that is admitted between two instants, both included.
    pub(crate) fn within(self, at: &Span) -> u64 {
        let most = u64::from(self.most);
        let length = at.until - at.from;
        match self.kind {
            Kind::Rate { count, period } => {
                let tokens = u128::from(length) * u128::from(count) / u128::from(period);
                most + u64::try_from(tokens).unwrap()
            }
            Kind::Window { span } => most * (length / span + 1),
            Kind::Hourly => {
                let hour = |us: u64| us / (3_600 * SECOND);
                most * (hour(at.until) - hour(at.from) + 1)
            }
            Kind::FirstUse { span } => {
                // It can touch one more than it has room for, but none from before the bucket was first used.
                let touched = at.passed / span + 2 + at.steps_back;
                let begun = at.passed_since_first / span + 1 + at.fresh_starts;
                most * touched.min(begun)
            }
            Kind::Tiers { span, high } => {
                let entries = length
                    .checked_sub(high.1)
                    .map_or(1, |rest| rest / (2 * high.1) + 2);
                most * (length / span + 1) + u64::from(high.0) * entries
            }
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

    pub(crate) fn has_tiers(self) -> bool {
        matches!(self.kind, Kind::Tiers { .. })
    }
}
