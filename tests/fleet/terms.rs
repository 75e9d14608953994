//! What limits admit.

use std::time::Duration;

use tollgate::{Limit, quota::Per, testing::random::Random, tiers::Tier};

use crate::clock::Span;

/// One second, in microseconds.
pub(crate) const SECOND: u64 = 1_000_000;

/// The values of a limit. Durations are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    Rate {
        burst: u32,
        count: u32,
        period: u64,
    },
    Window {
        limit: u32,
        span: u64,
    },
    Hourly {
        quota: u32,
    },
    FirstUse {
        quota: u32,
        span: u64,
    },
    /// A tier that is always active, and one above it that is active for its window, and then cools down for as long.
    Tiers {
        low: (u32, u64),
        high: (u32, u64),
    },
    /// This number of permits at once, each for `hold` unless it is renewed.
    AtOnce {
        permits: u32,
        hold: u64,
    },
}

impl Terms {
    pub(crate) fn any(random: &mut Random) -> Self {
        let span = random.within(300, 3_000) * 1_000;
        match random.below(6) {
            0 | 1 => Self::Rate {
                burst: random.units(1, 40),
                count: random.units(1, 20),
                period: SECOND,
            },
            2 => Self::Window {
                limit: random.units(1, 20),
                span,
            },
            3 => Self::Hourly {
                quota: random.units(1, 60),
            },
            4 => Self::FirstUse {
                quota: random.units(1, 30),
                span,
            },
            _ => Self::Tiers {
                low: (random.units(2, 10), span),
                high: (random.units(1, 10), span * 2),
            },
        }
    }

    /// A rate whose burst is large enough for leases. Some give back hardly anything while the fleet runs.
    pub(crate) fn leased(random: &mut Random) -> Self {
        Self::Rate {
            burst: random.units(40, 60),
            count: random.units(1, 60),
            period: *random.pick(&[SECOND, 100 * SECOND]),
        }
    }

    pub(crate) fn at_once(random: &mut Random) -> Self {
        Self::AtOnce {
            permits: random.units(1, 5),
            // Some are so long that nothing but a refund gives a permit back while the fleet runs.
            hold: if random.one_in(3) {
                20 * SECOND
            } else {
                random.within(1_000, 4_000) * 1_000
            },
        }
    }

    pub(crate) fn limit(self) -> Limit {
        let us = Duration::from_micros;
        match self {
            Self::Rate {
                burst,
                count,
                period,
            } => Limit::new(burst, count, us(period)).unwrap(),
            Self::Window { limit, span } => Limit::window(limit, us(span)),
            Self::Hourly { quota } => Limit::quota(quota, Per::Hour),
            Self::FirstUse { quota, span } => Limit::quota(quota, Per::first_use(us(span))),
            Self::Tiers { low, high } => {
                let span = us(high.1);
                let high = Tier::new(high.0, span).active(span).cooldown(span);
                Limit::tiers([Tier::new(low.0, us(low.1)), high]).unwrap()
            }
            Self::AtOnce { permits, hold } => Limit::concurrent(permits).hold(us(hold)),
        }
    }

    /// The share of each process of a fleet, rounded up.
    pub(crate) fn share(self, processes: u32) -> Self {
        let part = |whole: u32| whole.div_ceil(processes);
        match self {
            Self::Rate {
                burst,
                count,
                period,
            } => Self::Rate {
                burst: part(burst),
                count,
                period: period * u64::from(processes),
            },
            Self::Window { limit, span } => Self::Window {
                limit: part(limit),
                span,
            },
            Self::Hourly { quota } => Self::Hourly { quota: part(quota) },
            Self::FirstUse { quota, span } => Self::FirstUse {
                quota: part(quota),
                span,
            },
            Self::Tiers { low, high } => Self::Tiers {
                low: (part(low.0), low.1),
                high: (part(high.0), high.1),
            },
            Self::AtOnce { permits, hold } => Self::AtOnce {
                permits: part(permits),
                hold,
            },
        }
    }

    /// The most that fits into one request.
    pub(crate) fn most(self) -> u32 {
        match self {
            Self::Rate { burst, .. } => burst,
            Self::Window { limit, .. } => limit,
            Self::Hourly { quota } | Self::FirstUse { quota, .. } => quota,
            Self::Tiers { low, .. } => low.0,
            Self::AtOnce { permits, .. } => permits,
        }
    }

    /// The most that a bucket admits at one instant.
    pub(crate) fn at_an_instant(self) -> u64 {
        match self {
            Self::Tiers { low, high } => u64::from(low.0) + u64::from(high.0),
            other => other.most().into(),
        }
    }

    /// The most that is admitted between two instants, both included.
    pub(crate) fn within(self, at: &Span) -> u64 {
        let length = at.until - at.from;
        let windows = |(limit, span): (u32, u64)| u64::from(limit) * (length / span + 1);
        match self {
            Self::Rate {
                burst,
                count,
                period,
            } => {
                let tokens = u128::from(length) * u128::from(count) / u128::from(period);
                u64::from(burst) + u64::try_from(tokens).unwrap()
            }
            Self::Window { limit, span } => windows((limit, span)),
            Self::Hourly { quota } => {
                let hour = |us: u64| us / (3_600 * SECOND);
                u64::from(quota) * (hour(at.until) - hour(at.from) + 1)
            }
            Self::FirstUse { quota, span } => {
                // It can touch one more than it has room for, but none from before the bucket was first used.
                let touched = at.passed / span + 2 + at.steps_back;
                let begun = at.passed_since_first / span + 1 + at.fresh_starts;
                u64::from(quota) * touched.min(begun)
            }
            Self::Tiers { low, high } => {
                let entries = length
                    .checked_sub(high.1)
                    .map_or(1, |rest| rest / (2 * high.1) + 2);
                windows(low) + u64::from(high.0) * entries
            }
            Self::AtOnce { .. } => u64::MAX,
        }
    }

    pub(crate) fn is_at_once(self) -> bool {
        matches!(self, Self::AtOnce { .. })
    }

    /// Whether tokens come back while a charge is kept, so that a refund of it can let others pass.
    pub(crate) fn is_rate(self) -> bool {
        matches!(self, Self::Rate { .. })
    }

    pub(crate) fn has_tiers(self) -> bool {
        matches!(self, Self::Tiers { .. })
    }
}
