//! The interval of a bucket whose server sends whole seconds: estimated from the requests that it has admitted.
//!
//! A bucket that fills within a second has at least its quota of units per second. How many more it has shows in how many come
//! back between two responses. The client keeps a request in reserve meanwhile, so that a wrong estimate is not refused.

use super::bucket::{Nanos, Sent};

const SECOND: Nanos = 1_000_000_000;

/// The time after which a measurement begins anew.
const LONGEST_SPAN: Nanos = 10 * SECOND;

/// The time for which whole seconds are followed after a refusal.
const DOUBT: Nanos = 60 * SECOND;

#[derive(Debug)]
pub(super) struct Estimate {
    quota: u32,
    interval: Nanos,
    held_until: Nanos,
    doubted_until: Nanos,
    /// The request with which the measurement began, and what was left after it.
    began: Sent,
    left: u32,
    /// The units that were charged since.
    charged: i64,
}

impl Estimate {
    pub(super) fn new(quota: u32, sent: Sent, left: u32) -> Self {
        Self {
            quota,
            interval: Self::longest(quota),
            held_until: if left == 0 { sent.at + SECOND } else { 0 },
            doubted_until: 0,
            began: sent,
            left,
            charged: 0,
        }
    }

    /// Returns the interval, which is not shorter than that of the server.
    pub(super) fn interval(&self) -> Nanos {
        self.interval
    }

    /// Returns the instant until which the server asked for no request.
    pub(super) fn held_until(&self) -> Nanos {
        self.held_until
    }

    /// Learns what was left after a request that passed.
    pub(super) fn passed(&mut self, sent: Sent, left: u32, spread: Nanos) {
        if sent.number <= self.began.number {
            return;
        }
        let requests = i64::try_from(sent.number - self.began.number).unwrap_or(i64::MAX);
        self.charged = requests;
        let span = sent.at - self.began.at + spread;
        let back = i64::from(left) + self.charged - i64::from(self.left);
        if back >= 2 && sent.at >= self.doubted_until {
            self.interval = self.interval.min(span / (back - 1)).max(1);
        }
        if left == 0 {
            // The reserve is used up, so the interval is longer, or others have taken units.
            self.held_until = sent.at + SECOND;
            self.interval = (self.interval / 4 * 5).min(Self::longest(self.quota));
        }
        let was_full = left + 1 >= self.quota;
        if left == 0 || was_full || span > LONGEST_SPAN {
            (self.began, self.left, self.charged) = (sent, left, 0);
        }
    }

    /// Learns that a request was refused.
    pub(super) fn refused(&mut self, at: Nanos) {
        self.interval = Self::longest(self.quota);
        self.held_until = at + SECOND;
        self.doubted_until = at + DOUBT;
    }

    fn longest(quota: u32) -> Nanos {
        SECOND / i64::from(quota)
    }
}
