//! The part of a server's rate that this client takes, if it has to share it with others behind the same address.
//!
//! As with TCP, a refusal that was not foreseen makes the part smaller by a factor, and each response that shows enough units
//! makes it a little larger (additive increase, multiplicative decrease). Requests are sent at random times around that pace,
//! so that two clients do not ask for the same unit again and again.

use super::sent::Nanos;
use crate::random;

/// One. Parts are in millionths.
pub(super) const WHOLE: u64 = 1_000_000;

/// What is left of the part after a refusal.
const DECREASE: u64 = 600_000;

/// The smallest part.
const LEAST: u64 = WHOLE / 64;

/// The part of the quota that clients aim to leave, together.
const AIM: u64 = WHOLE / 2;

/// The most by which a wait varies, in either direction.
const JITTER: u64 = WHOLE / 4;

#[derive(Debug)]
pub(super) struct SharedPace {
    part: u64,
    is_shared: bool,
    next: Nanos,
    reduced_at: Nanos,
    level: u64,
}

impl Default for SharedPace {
    fn default() -> Self {
        Self {
            part: WHOLE,
            is_shared: false,
            next: Nanos::MIN / 2,
            reduced_at: Nanos::MIN / 2,
            level: WHOLE,
        }
    }
}

impl SharedPace {
    /// Returns the instant from which the next request can be sent.
    pub(super) fn ready_at(&self) -> Nanos {
        self.next
    }

    /// Plans the request after one that is sent now. `pace` is the time in which the units of a request come back.
    pub(super) fn sent(&mut self, now: Nanos, pace: Nanos) {
        if self.is_shared {
            let caution = (AIM * WHOLE * WHOLE / self.level.max(WHOLE / 100)).isqrt();
            let varied = WHOLE - JITTER + random(2 * JITTER);
            let factor = caution.clamp(WHOLE / 10 * 7, 2 * WHOLE) * varied / self.part;
            self.next = now.saturating_add(times(pace, factor));
        }
    }

    /// Notices that others have taken units.
    pub(super) fn noticed(&mut self, now: Nanos) {
        if !self.is_shared {
            self.reduce(now);
        }
    }

    /// Records a refusal of a request that should have passed. Of those that were sent at the same time, one counts.
    pub(super) fn refused(&mut self, sent_at: Nanos, now: Nanos, pace: Nanos) {
        if sent_at >= self.reduced_at {
            self.reduce(now);
        }
        let wait = times(pace, random(WHOLE) * WHOLE / self.part);
        self.next = self.next.max(now.saturating_add(wait));
    }

    /// Records that a request has passed, and which part of a quota was left, in millionths.
    pub(super) fn passed(&mut self, level: u64, quota: u32) {
        self.level = level;
        if !self.is_shared {
            return;
        }
        self.part = match level {
            0 if quota > 1 => (self.part / 20 * 19).max(LEAST),
            AIM.. => self.part / 20 * 21 + 9_000,
            _ if quota == 1 || level >= WHOLE / 5 => self.part + 1_500,
            _ => self.part,
        };
        if self.part >= WHOLE {
            *self = Self {
                level,
                ..Self::default()
            };
        }
    }

    fn reduce(&mut self, now: Nanos) {
        self.part = (self.part * DECREASE / WHOLE).max(LEAST);
        self.is_shared = true;
        self.reduced_at = now;
    }
}

/// Multiplies a time with a number of millionths.
fn times(time: Nanos, factor: u64) -> Nanos {
    let product = i128::from(time) * i128::from(factor) / i128::from(WHOLE);
    Nanos::try_from(product).unwrap_or(Nanos::MAX / 4)
}

/// Returns a random number from 0 to `most`.
fn random(most: u64) -> u64 {
    random::number() % (most + 1)
}
