//! The limits of a simulated fleet: several for each algorithm, and two versions of each.

use std::time::Duration;

use tollgate::{
    Limit, Limits, id::IdFormat, limit::LimitName, quota::Per, tiers::Tier, transaction::OnFailure,
};

use crate::{ledger::Bucket, random::Random};

/// One second, in microseconds.
pub(crate) const SECOND: u64 = 1_000_000;

/// What a limit admits, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    Rate {
        burst: u32,
        count: u32,
        period: u64,
        max_wait: u64,
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
    Tiers {
        limit: u32,
        span: u64,
    },
    /// So many permits at once, each for `hold` unless it is renewed.
    AtOnce {
        permits: u32,
        hold: u64,
    },
}

impl Terms {
    /// A rate whose burst is large enough for leases.
    pub(crate) const LEASED: Self = Self::Rate {
        burst: 40,
        count: 20,
        period: SECOND,
        max_wait: 0,
    };

    pub(crate) fn limit(self) -> Limit {
        let us = Duration::from_micros;
        match self {
            Self::Rate {
                burst,
                count,
                period,
                max_wait,
            } => {
                let limit = Limit::new(burst, count, us(period)).expect("it is valid");
                match max_wait {
                    0 => limit,
                    most => limit.max_wait(us(most)),
                }
            }
            Self::Window { limit, span } => Limit::window(limit, us(span)),
            Self::Hourly { quota } => Limit::quota(quota, Per::Hour),
            Self::FirstUse { quota, span } => Limit::quota(quota, Per::first_use(us(span))),
            Self::Tiers { limit, span } => {
                Limit::tiers([Tier::new(limit, us(span))]).expect("it is valid")
            }
            Self::AtOnce { permits, hold } => Limit::concurrent(permits).hold(us(hold)),
        }
    }

    /// The same without a line.
    pub(crate) fn at_once(self) -> Self {
        match self {
            Self::Rate {
                burst,
                count,
                period,
                ..
            } => Self::Rate {
                burst,
                count,
                period,
                max_wait: 0,
            },
            other => other,
        }
    }

    /// The most that fits into one request.
    pub(crate) fn most(self) -> u32 {
        match self {
            Self::Rate { burst, .. } => burst,
            Self::Window { limit, .. } | Self::Tiers { limit, .. } => limit,
            Self::Hourly { quota } | Self::FirstUse { quota, .. } => quota,
            Self::AtOnce { permits, .. } => permits,
        }
    }

    /// The most that is admitted between two instants `span` microseconds apart, both included. The bound of a quota
    /// counts each period that such a span can touch.
    pub(crate) fn most_within(self, span: u64) -> u64 {
        let periods = |limit: u32, length: u64| u64::from(limit) * (span / length + 1);
        match self {
            Self::Rate {
                burst,
                count,
                period,
                max_wait,
            } => {
                let tokens = u128::from(span + max_wait) * u128::from(count) / u128::from(period);
                u64::from(burst) + u64::try_from(tokens).expect("it is a short span")
            }
            Self::Window { limit, span } | Self::Tiers { limit, span } => periods(limit, span),
            Self::Hourly { quota } => periods(quota, 3600 * SECOND) + u64::from(quota),
            Self::FirstUse { quota, span } => periods(quota, span) + u64::from(quota),
            // Work that ends makes room for the next.
            Self::AtOnce { .. } => u64::MAX,
        }
    }

    pub(crate) fn has_tiers(self) -> bool {
        matches!(self, Self::Tiers { .. })
    }

    pub(crate) fn has_line(self) -> bool {
        matches!(self, Self::Rate { max_wait: 1.., .. })
    }

    pub(crate) fn is_quota(self) -> bool {
        matches!(self, Self::Hourly { .. } | Self::FirstUse { .. })
    }

    /// Whether it is a rate that gives back no more than a token per second.
    pub(crate) fn is_slow(self) -> bool {
        matches!(
            self,
            Self::Rate {
                count: 1,
                period: SECOND..,
                max_wait: 0,
                ..
            }
        )
    }

    /// Whether both are decided by the same algorithm.
    pub(crate) fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self.family()) == std::mem::discriminant(&other.family())
    }

    /// Both kinds of quota are one algorithm.
    fn family(self) -> Self {
        match self {
            Self::FirstUse { quota, .. } => Self::Hourly { quota },
            other => other,
        }
    }
}

/// A limit, in the versions that a deploy changes.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) versions: [Terms; 2],
    /// The part of the burst that a process can lease, if it can.
    pub(crate) lease: Option<(u32, u32)>,
}

impl Named {
    /// The part of a leased burst.
    pub(crate) const LEASE: (u32, u32) = (1, 5);

    /// Whether a version of it has a line.
    pub(crate) fn has_line(&self) -> bool {
        self.versions.iter().any(|terms| terms.has_line())
    }

    /// Whether a version of it is a rate.
    pub(crate) fn has_rate(&self) -> bool {
        let is_rate = |terms: &Terms| matches!(terms, Terms::Rate { .. });
        self.versions.iter().any(is_rate)
    }

    /// A limit with a line, which no deploy changes.
    pub(crate) fn with_line(random: &mut Random) -> Self {
        Self {
            versions: [line(random); 2],
            lease: None,
        }
    }

    pub(crate) fn any(random: &mut Random, leases: bool, lines: bool) -> Self {
        let lease = (leases && random.one_in(2)).then_some(Self::LEASE);
        let any = |random: &mut Random| terms(random, lease.is_some(), lines);
        let first = any(random);
        let second = match random.below(4) {
            0 | 1 => first,
            2 => changed(first, random),
            _ => any(random),
        };
        Self {
            versions: [first, second],
            lease,
        }
    }
}

fn line(random: &mut Random) -> Terms {
    let max_wait = random.within(1, 10) * 100_000;
    rate(random.units(1, 4), random.units(5, 20), SECOND, max_wait)
}

pub(crate) fn terms(random: &mut Random, is_leased: bool, lines: bool) -> Terms {
    if is_leased {
        return match random.below(3) {
            0 => Terms::Hourly { quota: 60 },
            _ => rate(40, random.units(3, 40), SECOND, 0),
        };
    }
    let span = random.within(5, 30) * 100_000;
    match random.below(if lines { 8 } else { 7 }) {
        0 => rate(random.units(1, 12), random.units(1, 17), SECOND, 0),
        // So slow that a debt is still there at the next outage.
        1 | 2 => {
            let burst = random.units(6, 30) * if random.one_in(2) { 4 } else { 1 };
            rate(burst, 1, random.within(1, 6) * SECOND, 0)
        }
        3 => Terms::Window {
            limit: random.units(1, 8),
            span,
        },
        4 => Terms::Hourly {
            quota: random.units(2, 12),
        },
        5 => Terms::FirstUse {
            quota: random.units(2, 12),
            span,
        },
        6 => Terms::Tiers {
            limit: random.units(2, 8),
            span,
        },
        _ => line(random),
    }
}

fn rate(burst: u32, count: u32, period: u64, max_wait: u64) -> Terms {
    Terms::Rate {
        burst,
        count,
        period,
        max_wait,
    }
}

/// The same algorithm with other values.
fn changed(terms: Terms, random: &mut Random) -> Terms {
    let other = |value: u32, random: &mut Random| (value * random.units(1, 4) / 2).max(1);
    match terms {
        Terms::Rate {
            burst,
            count,
            period,
            max_wait,
        } => Terms::Rate {
            burst: other(burst, random).max(40 * u32::from(burst == 40)),
            count: other(count, random),
            period,
            max_wait,
        },
        Terms::Window { limit, span } => Terms::Window {
            limit: other(limit, random),
            span: span * random.within(1, 3) / 2,
        },
        Terms::Hourly { quota } => Terms::Hourly {
            quota: other(quota, random).max(60 * u32::from(quota == 60)),
        },
        Terms::FirstUse { quota, span } => Terms::FirstUse {
            quota: other(quota, random),
            span,
        },
        same @ (Terms::Tiers { .. } | Terms::AtOnce { .. }) => same,
    }
}

/// The name of a limit, by its place.
pub(crate) fn name(place: usize) -> String {
    format!("limit{place}")
}

/// The place of a bucket's limit.
pub(crate) fn place_of(bucket: &Bucket) -> usize {
    bucket.0 as usize - 1
}

/// The number of a limit, by its place.
pub(crate) fn number(place: usize) -> u32 {
    u32::try_from(place + 1).expect("there are few limits")
}

/// The limits of a process that runs a version of them.
pub(crate) fn of_version(all: &[Named], version: usize, on_failure: OnFailure) -> Limits {
    let mut limits = Limits::builder();
    for (place, named) in all.iter().enumerate() {
        let mut name = LimitName::new(&name(place), number(place), IdFormat::Opaque);
        name = name.on_failure(on_failure);
        if let Some((part, of)) = named.lease {
            name = name.lease(part, of);
        }
        limits = limits.limit(name, named.versions[version].limit());
    }
    // Only this test looks at it.
    let heartbeat = LimitName::new("heartbeat", 1000, IdFormat::Opaque);
    limits = limits.limit(heartbeat, Limit::per_second(1000).burst(1000));
    limits.build().expect("they are valid")
}
