//! Buckets by the definitions of the algorithms, in whole numbers.

use std::time::Duration;

use tollgate::{Limit, quota::Per};

/// What a limit allows. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// `burst` at once, and `count` in each `period`.
    Gcra {
        burst: u64,
        count: u64,
        period: u64,
    },
    Window {
        limit: u64,
        span: u64,
    },
    /// For each clock hour, or for so long from the first use.
    Quota {
        quota: u64,
        first_use: Option<u64>,
    },
}

/// What is stored of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Bucket {
    /// The theoretical arrival time, in parts of a microsecond: as many as the limit's count.
    Gcra(u64),
    /// The instants of the units, in ascending order.
    Window(Vec<u64>),
    Quota {
        start: u64,
        used: u64,
    },
}

/// What a decision shows of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) remaining: u64,
    pub(crate) reset_after: u64,
}

const HOUR: u64 = 3_600_000_000;

impl Terms {
    pub(crate) fn limit(self) -> Limit {
        let number = |number: u64| u32::try_from(number).unwrap();
        match self {
            Self::Gcra {
                burst,
                count,
                period,
            } => Limit::new(number(burst), number(count), Duration::from_micros(period)).unwrap(),
            Self::Window { limit, span } => {
                Limit::window(number(limit), Duration::from_micros(span))
            }
            Self::Quota { quota, first_use } => {
                let per = first_use.map(|length| Per::first_use(Duration::from_micros(length)));
                Limit::quota(number(quota), per.unwrap_or(Per::Hour))
            }
        }
    }

    pub(super) fn unused(self) -> Bucket {
        match self {
            Self::Gcra { .. } => Bucket::Gcra(0),
            Self::Window { .. } => Bucket::Window(Vec::new()),
            Self::Quota { .. } => Bucket::Quota { start: 0, used: 0 },
        }
    }

    /// The bucket without what no longer counts.
    pub(super) fn current(self, bucket: &Bucket, now: u64) -> Bucket {
        match (self, bucket) {
            (Self::Gcra { count, .. }, Bucket::Gcra(tat)) => {
                Bucket::Gcra(if *tat > now * count { *tat } else { 0 })
            }
            (Self::Window { span, .. }, Bucket::Window(units)) => {
                let counts = |unit: &u64| now < unit + span;
                Bucket::Window(units.iter().copied().filter(counts).collect())
            }
            (Self::Quota { .. }, Bucket::Quota { start, used }) => {
                match *used > 0 && now < self.end(*start) {
                    true => bucket.clone(),
                    false => self.unused(),
                }
            }
            _ => self.has_no(bucket),
        }
    }

    /// The bucket after a charge, if that fits.
    pub(super) fn spend(self, bucket: &Bucket, now: u64, cost: u64) -> Option<Bucket> {
        match (self, self.current(bucket, now)) {
            (
                Self::Gcra {
                    burst,
                    count,
                    period,
                },
                Bucket::Gcra(tat),
            ) => {
                let next = tat.max(now * count) + cost * period;
                (next <= now * count + burst * period).then_some(Bucket::Gcra(next))
            }
            (Self::Window { limit, .. }, Bucket::Window(mut units)) => {
                units.extend((0..cost).map(|_| now));
                units.sort_unstable();
                (units.len() as u64 <= limit).then_some(Bucket::Window(units))
            }
            (Self::Quota { quota, first_use }, Bucket::Quota { start, used }) => {
                let start = match (used, first_use) {
                    (0, Some(_)) => now,
                    (0, None) => now - now % HOUR,
                    _ => start,
                };
                let used = used + cost;
                (used <= quota).then_some(Bucket::Quota { start, used })
            }
            _ => self.has_no(bucket),
        }
    }

    /// The bucket after a refund: of units that were taken at an instant, or of a charge to a period that started then, if
    /// the refund has a receipt.
    pub(super) fn refund(self, bucket: &Bucket, now: u64, cost: u64, of: Option<u64>) -> Bucket {
        match (self, self.current(bucket, now)) {
            (Self::Gcra { count, period, .. }, Bucket::Gcra(tat)) if tat > 0 => {
                let back = tat.saturating_sub(cost * period);
                Bucket::Gcra(back.max(now * count))
            }
            (_, Bucket::Window(units)) => {
                let is_meant = |unit: &&u64| of.is_none_or(|of| **unit == of);
                let meant = units.iter().filter(is_meant).count() as u64;
                let newest = of.unwrap_or(u64::MAX);
                let end = units.partition_point(|unit| *unit <= newest);
                let back = usize::try_from(cost.min(meant)).unwrap();
                let kept = [&units[..end - back], &units[end..]].concat();
                match back {
                    0 => bucket.clone(),
                    _ => Bucket::Window(kept),
                }
            }
            (_, Bucket::Quota { start, used }) if used > 0 && of.is_none_or(|of| of == start) => {
                match used.saturating_sub(cost) {
                    0 => self.unused(),
                    used => Bucket::Quota { start, used },
                }
            }
            _ => bucket.clone(),
        }
    }

    pub(super) fn figures(self, bucket: &Bucket, now: u64) -> Figures {
        let (remaining, reset_after) = match (self, self.current(bucket, now)) {
            (
                Self::Gcra {
                    burst,
                    count,
                    period,
                },
                Bucket::Gcra(tat),
            ) => {
                let owed = tat.saturating_sub(now * count);
                let room = (burst * period).saturating_sub(owed);
                (room / period, owed.div_ceil(count))
            }
            (Self::Window { limit, span }, Bucket::Window(units)) => {
                let reset_after = units.last().map_or(0, |newest| newest + span - now);
                (limit.saturating_sub(units.len() as u64), reset_after)
            }
            (Self::Quota { quota, .. }, Bucket::Quota { start, used }) => {
                let rest = self.end(start).saturating_sub(now);
                (quota.saturating_sub(used), if used > 0 { rest } else { 0 })
            }
            _ => self.has_no(bucket),
        };
        Figures {
            remaining,
            reset_after,
        }
    }

    /// What a receipt of a charge names, if the decision has shown these figures.
    pub(super) fn charged_at(self, now: u64, reset_after: u64) -> u64 {
        match self {
            Self::Quota { .. } => now + reset_after - self.end(0),
            _ => now,
        }
    }

    /// The end of a quota's period.
    fn end(self, start: u64) -> u64 {
        let length = match self {
            Self::Quota { first_use, .. } => first_use,
            _ => None,
        };
        start + length.unwrap_or(HOUR)
    }

    fn has_no(self, bucket: &Bucket) -> ! {
        panic!("{bucket:?} of {self:?}")
    }
}
