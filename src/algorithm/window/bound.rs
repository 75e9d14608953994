//! What a window admits: its limit in any span of its length.

use std::time::Duration;

use super::window::Window;
use crate::algorithm::bound::{Asked, Bounded, NoTokenBucket, NotPermitted, Purpose, ceil_micros};

pub(crate) const NO_TOKEN_BUCKET: NoTokenBucket = NoTokenBucket {
    burst: "a window has no burst: set its limit",
    line: "windows and quotas have no line to wait in: use burst, count and period",
};

impl Bounded for Window {
    const MEASURE: &'static str = "units per window";

    #[inline]
    fn max_cost(&self) -> u32 {
        self.limit()
    }

    fn most_within(&self, span: Duration) -> Option<u128> {
        let windows = ceil_micros(span).div_ceil(self.window().as_micros());
        Some(u128::from(self.limit()) * windows)
    }

    fn permits(&self, asked: Asked) -> Result<bool, NotPermitted> {
        asked.whole((asked.purpose == Purpose::Take).then_some(self.limit()))
    }
}
