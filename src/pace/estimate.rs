//! The interval of a bucket whose server sends whole seconds: estimated from the requests that it has admitted.
//!
//! A bucket that fills within a second has at least its quota of units per second. How many more it has shows in how many come
//! back between two responses. The client keeps a request in reserve meanwhile, so that a wrong estimate is not refused.

use super::sent::{Nanos, SentRequest};

const SECOND: Nanos = 1_000_000_000;

/// The time after which a measurement begins anew.
const LONGEST_SPAN: Nanos = 10 * SECOND;

/// The time for which whole seconds are followed after a refusal.
const DOUBT: Nanos = 60 * SECOND;

#[derive(Debug)]
pub(super) struct Estimate {
    quota: u32,
    /// The longest interval that agrees with the whole seconds.
    longest: Nanos,
    interval: Nanos,
    held_until: Nanos,
    doubted_until: Nanos,
    /// The request with which the measurement began, and what was left after it.
    began: SentRequest,
    left: u32,
}

impl Estimate {
    pub(super) fn new(longest: Nanos, quota: u32, sent: SentRequest, left: u32) -> Self {
        Self {
            quota,
            longest,
            interval: longest,
            held_until: if left == 0 { sent.at + SECOND } else { 0 },
            doubted_until: 0,
            began: sent,
            left,
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

    /// Learns that the interval is not longer.
    pub(super) fn bound(&mut self, longest: Nanos) {
        self.longest = self.longest.min(longest).max(1);
        self.interval = self.interval.min(self.longest);
    }

    /// Learns what was left after a request that passed.
    pub(super) fn passed(&mut self, sent: SentRequest, left: u32, spread: Nanos) {
        if sent.number <= self.began.number {
            return;
        }
        let requests = i64::try_from(sent.number - self.began.number).unwrap_or(i64::MAX);
        let span = sent.at - self.began.at + 2 * spread;
        let back = i64::from(left) + requests - i64::from(self.left);
        if back >= 2 && sent.at >= self.doubted_until {
            self.interval = self.interval.min(span / (back - 1)).max(1);
        }
        if left == 0 {
            // The reserve is used up, so the interval is longer, or others have taken units.
            self.held_until = sent.at + SECOND;
            self.interval = (self.interval / 4 * 5).min(self.longest);
        }
        let was_full = left + 1 >= self.quota;
        if left == 0 || was_full || span > LONGEST_SPAN {
            (self.began, self.left) = (sent, left);
        }
    }

    /// Learns that a request was refused.
    pub(super) fn refused(&mut self, at: Nanos) {
        self.interval = self.longest;
        self.held_until = at + SECOND;
        self.doubted_until = at + DOUBT;
    }
}
