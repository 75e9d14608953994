//! What clients are told of a limit.

use std::time::Duration;

use super::{Algorithm, tiers::Tier};

/// The terms of a limit, which do not depend on the state of a bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The most units that can be taken at once.
    pub(crate) quota: u32,
    /// The time in which they come back, if it is known.
    pub(crate) window: Option<Duration>,
    pub(crate) refill: Refill,
}

/// How units come back.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refill {
    /// One after the other, `count` in each period.
    Steady { count: u32, period: Duration },
    /// Each at most this long after it was taken.
    Windowed(Duration),
    /// By a calendar, or by several windows.
    Other,
    /// When the work ends that they are for.
    Permits,
}

impl Algorithm {
    /// Returns what clients are told of the limit.
    pub(crate) fn terms(&self) -> Terms {
        let (quota, window, refill) = match self {
            Self::Gcra(gcra) => {
                let (count, period) = (gcra.count(), gcra.period());
                let steady = Refill::Steady { count, period };
                (gcra.burst(), Some(gcra.filling_time()), steady)
            }
            Self::Window(window) => {
                let length = window.window();
                (window.limit(), Some(length), Refill::Windowed(length))
            }
            Self::Quota(quota) => {
                let first_use = quota.per().first_use_length();
                let refill = first_use.map_or(Refill::Other, Refill::Windowed);
                (quota.quota(), Some(quota.per().longest()), refill)
            }
            Self::Concurrency(limit) => (limit.limit(), None, Refill::Permits),
            Self::Tiers(tiers) => {
                // Several windows are not one.
                let mut windows = tiers.iter().map(|tier| tier.window);
                let only = windows.next().filter(|_| windows.next().is_none());
                let window = only.filter(|window| *window != Tier::FOREVER);
                (self.capacity(), window, Refill::Other)
            }
        };
        Terms {
            quota,
            window,
            refill,
        }
    }
}
