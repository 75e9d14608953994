use std::time::Duration;

use super::bucket::{FOREVER, ShownBucket, waiting};
use crate::{gcra::Ticks, tiers::NEVER, transaction::Algorithm};

/// The figures of a bucket for its client.
pub(crate) struct ClientFigures<'a> {
    bucket: &'a ShownBucket,
    /// The highest active tier. It is 0 for the lowest, and without tiers.
    pub(crate) tier: usize,
    /// What passes without being refused: the tokens in the bucket and the room in its line, or the room in the tier.
    pub(crate) remaining: u32,
    /// The time until more room or another tier; `None` if the bucket is full.
    pub(crate) next: Option<Duration>,
}

impl<'a> ClientFigures<'a> {
    #[inline]
    pub(super) fn of(bucket: &'a ShownBucket) -> Self {
        let (tier, remaining, next) = match bucket {
            ShownBucket::Gcra {
                gcra,
                tat,
                now,
                may_wait,
                ..
            } => {
                let (remaining, next) = match may_wait {
                    true => gcra.room(*tat, now.as_micros()),
                    false => gcra.quota(*tat, now.as_micros()),
                };
                (0, remaining, next)
            }
            ShownBucket::Tiers { figures, .. } => {
                let turn = Some(figures.turn_after).filter(|turn| *turn > 0);
                let next = turn.map(Ticks::from_micros);
                (figures.in_force(), figures.free, next)
            }
            ShownBucket::Window { figures, .. } => {
                let more = Some(figures.more_after).filter(|more| *more > 0);
                (0, bucket.remaining(), more.map(Ticks::from_micros))
            }
            ShownBucket::Quota {
                quota, usage, now, ..
            } => {
                let reset = quota.reset_after(*usage, now.as_micros());
                let more = Some(reset).filter(|reset| *reset > 0);
                (0, bucket.remaining(), more.map(Ticks::from_micros))
            }
            ShownBucket::Blocked => (0, 0, Some(Ticks::from_micros(NEVER))),
        };
        Self {
            bucket,
            tier,
            remaining,
            next: next.map(waiting),
        }
    }
}

impl ClientFigures<'_> {
    pub(crate) fn algorithm(&self) -> Option<Algorithm> {
        self.bucket.algorithm()
    }

    /// Returns whether all buckets of this algorithm have the same [`allowance`](Self::allowance), at any time.
    #[inline]
    pub(crate) fn is_usual(&self) -> bool {
        match self.bucket {
            ShownBucket::Quota { quota, .. } => !quota.per().is_month(),
            _ => self.tier == 0,
        }
    }

    /// Returns whether this algorithm decided the bucket.
    #[inline]
    pub(crate) fn is_by(&self, algorithm: &Algorithm) -> bool {
        match (self.bucket, algorithm) {
            (ShownBucket::Gcra { gcra, .. }, Algorithm::Gcra(other)) => gcra == other,
            (ShownBucket::Tiers { tiers, .. }, Algorithm::Tiers(other)) => tiers == other,
            (ShownBucket::Window { window, .. }, Algorithm::Window(other)) => window == other,
            (ShownBucket::Quota { quota, .. }, Algorithm::Quota(other)) => quota == other,
            _ => false,
        }
    }

    /// Returns whether the amount that passes at once includes the room in a line.
    #[inline]
    pub(crate) fn has_line(&self) -> bool {
        matches!(self.bucket, ShownBucket::Gcra { may_wait: true, .. })
    }

    /// Returns the part of the limit that leases reserve.
    #[inline]
    pub(crate) fn reserved(&self) -> u32 {
        match self.bucket {
            ShownBucket::Gcra { reserved, .. } | ShownBucket::Quota { reserved, .. } => *reserved,
            _ => 0,
        }
    }

    /// Returns the amount that passes at once, and the time in which an empty bucket fills. Both include the room in a
    /// line, and the part of the limit that leases reserve. For tiers, it is the limit and the window of the tier in
    /// force; for a quota, the length of the current period.
    pub(crate) fn allowance(&self) -> (u32, Duration) {
        match self.bucket {
            ShownBucket::Gcra {
                gcra,
                may_wait: true,
                ..
            } => (gcra.most_room(), gcra.longest().ceil()),
            ShownBucket::Gcra { gcra, reserved, .. } => {
                let burst = gcra.burst().saturating_add(*reserved);
                (burst, gcra.increment(burst).ceil())
            }
            ShownBucket::Tiers { tiers, .. } => {
                let mut tiers = tiers.iter();
                let tier = tiers.nth(self.tier);
                tier.map_or((0, FOREVER), |tier| (tier.limit, tier.window))
            }
            ShownBucket::Window { window, .. } => (window.limit(), window.window()),
            ShownBucket::Quota {
                quota,
                usage,
                now,
                reserved,
                ..
            } => {
                let period = quota.period(*usage, now.as_micros());
                let quota = quota.quota().saturating_add(*reserved);
                (quota, Duration::from_micros(period))
            }
            ShownBucket::Blocked => (0, FOREVER),
        }
    }
}
