//! What tiers admit: the sum over all of them, each entered as often as it can be.

use std::time::Duration;

use super::{tier::Span, tiers::Tiers};
use crate::algorithm::{
    bound::{Asked, Bounded, NoTokenBucket, NotPermitted, Purpose, ceil_micros},
    time::NEVER,
};

pub(crate) const NO_TOKEN_BUCKET: NoTokenBucket = NoTokenBucket {
    burst: "tiers have no burst: set their limits",
    line: "tiers have no line to wait in, because a later grant depends on which tier is active then: use burst, count and \
           period",
};

impl Bounded for Tiers {
    const MEASURE: &'static str = "units of all tiers";

    fn max_cost(&self) -> u32 {
        self.max_units()
    }

    fn most_within(&self, span: Duration) -> Option<u128> {
        let us = ceil_micros(span);
        let spans = self.spans().iter().enumerate();
        Some(spans.map(|(i, span)| of_tier(span, i == 0, us)).sum())
    }

    /// If the lowest tier never ends, its window can be empty although the tier has been entered.
    #[cfg(feature = "testing")]
    fn may_be_forgotten(&self) -> bool {
        let lowest = self.spans().first();
        lowest.is_some_and(|lowest| lowest.active == NEVER)
    }

    /// A cost above all their limits is not an error, but is always denied.
    fn permits_any(&self, _: u32) -> bool {
        false
    }

    fn permits(&self, asked: Asked) -> Result<bool, NotPermitted> {
        let least = asked.min_cost.unwrap_or(asked.cost);
        match asked.purpose {
            Purpose::GiveBack => Err(NotPermitted::Refund),
            Purpose::Renew => Err(NotPermitted::Renewal),
            Purpose::Take if asked.is_debit => Err(NotPermitted::Debit),
            Purpose::Take if least == 0 || least > asked.cost => Err(NotPermitted::Minimum(least)),
            Purpose::Take => Ok(true),
        }
    }
}

/// On each entry, a tier grants its limit in each window that starts while it is active. The lowest
/// tier keeps its window when it is entered again.
fn of_tier(span: &Span, is_lowest: bool, us: u128) -> u128 {
    let closed = |us: u64| match us {
        NEVER => u128::MAX >> 1,
        us => u128::from(us) + 1,
    };
    let limit = u128::from(span.limit);
    let (window, active) = (closed(span.window), closed(span.active));
    let by_window = limit * us.div_ceil(window);
    let between = match span.cooldown {
        NEVER => u128::MAX >> 1,
        cooldown => active + u128::from(cooldown),
    };
    // The tier can be entered before the span begins. The first microsecond of the span is then the last one of the
    // tier.
    let gap = between - active;
    let entered = match us.checked_sub(gap + 2) {
        None => 1,
        Some(more) => 2 + more / between,
    };
    let by_entries = entered * limit * us.min(active).div_ceil(window);
    match is_lowest {
        true => by_window.min(by_entries),
        false => by_entries,
    }
}
