//! What a concurrency limit admits: nothing bounds it within a span, because work that ends makes room for the next.

use std::time::Duration;

use super::concurrency::Concurrency;
use crate::algorithm::bound::{Asked, Bounded, NoTokenBucket, NotPermitted, Purpose};

pub(crate) const NO_TOKEN_BUCKET: NoTokenBucket = NoTokenBucket {
    burst: "a concurrency limit has no burst: set the number at once",
    line: "the line of a concurrency limit has no places in time",
};

impl Bounded for Concurrency {
    const MEASURE: &'static str = "permits at once";

    fn max_cost(&self) -> u32 {
        self.limit()
    }

    fn most_within(&self, _: Duration) -> Option<u128> {
        None
    }

    fn renewed_within(&self) -> Option<Duration> {
        Some(self.hold())
    }

    fn permit_wait(&self) -> Duration {
        self.max_wait()
    }

    /// A debit has no permits, and a refund without a receipt names none.
    fn permits_any(&self, _: u32) -> bool {
        false
    }

    /// Only a receipt says whose permits are meant.
    fn permits(&self, asked: Asked) -> Result<bool, NotPermitted> {
        match asked.purpose {
            Purpose::Renew => Ok(true),
            Purpose::GiveBack => Err(NotPermitted::RefundOfPermits),
            Purpose::Take if asked.is_debit => Err(NotPermitted::DebitOfPermits),
            Purpose::Take => asked.whole(Some(self.limit())),
        }
    }
}
