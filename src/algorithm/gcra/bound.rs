//! What a token bucket admits: burst + ⌈span / T⌉ − 1.

use std::time::Duration;

use super::gcra::Gcra;
use crate::algorithm::bound::{Asked, Bounded, NotPermitted};

impl Bounded for Gcra {
    const MEASURE: &'static str = "burst";

    #[inline]
    fn max_cost(&self) -> u32 {
        self.burst()
    }

    fn most_within(&self, span: Duration) -> Option<u128> {
        let intervals = span.as_nanos() * u128::from(self.count());
        Some(u128::from(self.burst()) + intervals.div_ceil(self.period().as_nanos()) - 1)
    }

    fn with_most(&self, most: u32) -> Option<Self> {
        (most > 0).then(|| self.with_burst(most))
    }

    fn permits(&self, asked: Asked) -> Result<bool, NotPermitted> {
        asked.whole(Some(self.burst()))
    }
}
