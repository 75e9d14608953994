//! A bucket whose units come back one after the other.

use super::{
    figures::Remaining,
    sent::{Margin, Nanos, nanos},
};

/// The responses that must agree before the model is moved back, while others are on their way.
const AGREEING: u32 = 8;

/// The error of clocks and rounding.
const TOLERANCE: Nanos = 100_000;

/// The most by which instants differ from each other, so that hostile figures lead to no overflow: 30 years.
const FARTHEST: Nanos = 1_000_000_000_000_000_000;

/// A token bucket, as its theoretical arrival time.
#[derive(Debug)]
pub(super) struct Steady {
    interval: Nanos,
    quota: u32,
    /// The instant at which the bucket is full.
    tat: Nanos,
    /// By how much responses have moved it.
    moved: Nanos,
    /// The responses in a row that showed more units than the model, and by how much at least.
    more: Option<(u32, Nanos)>,
}

impl Steady {
    pub(super) fn new(interval: Nanos, quota: u32) -> Self {
        Self {
            interval: interval.max(1),
            quota,
            tat: 0,
            moved: 0,
            more: None,
        }
    }

    /// Begins with what was left after a request, and `taken` units since.
    pub(super) fn begin(&mut self, at: Nanos, left: Remaining, taken: u32) {
        let missing = self.time_of(taken);
        self.tat = near(self.span(left, at).1.saturating_add(missing));
        self.moved = 0;
    }

    pub(super) fn interval(&self) -> Nanos {
        self.interval
    }

    /// Changes the estimated interval. What is missing stays as many units.
    pub(super) fn set_interval(&mut self, interval: Nanos) {
        self.interval = interval.max(1);
    }

    /// Returns the instant from which `cost` units are there, and a time more.
    pub(super) fn ready_at(&self, cost: u32, reserve: Nanos) -> Nanos {
        let others = self.time_of(self.quota.saturating_sub(cost));
        self.tat - others + reserve.min(others)
    }

    pub(super) fn is_full(&self, now: Nanos) -> bool {
        self.tat <= now
    }

    /// Takes units. Returns where the bucket would be if no response had moved it.
    pub(super) fn charge(&mut self, at: Nanos, cost: u32) -> Nanos {
        let taken = self.time_of(cost);
        self.tat = near(self.tat.max(at).saturating_add(taken));
        self.tat - self.moved
    }

    pub(super) fn give_back(&mut self, cost: u32) {
        self.shift(-self.time_of(cost));
    }

    /// Learns what was left after a request. Returns whether others have taken a unit meanwhile.
    pub(super) fn learn(
        &mut self,
        left: Remaining,
        at: Nanos,
        charged: Nanos,
        margin: Margin,
        is_quiet: bool,
    ) -> bool {
        let (least, most) = self.span(left, at);
        let own = charged + self.moved;
        if own < least {
            self.shift(most - own);
            self.more = None;
            return least - own > margin.spread + TOLERANCE;
        }
        let more = own - most;
        if more <= 0 {
            self.more = None;
            return false;
        }
        let (times, least) = self
            .more
            .map_or((1, more), |(times, least)| (times + 1, least.min(more)));
        let is_certain = is_quiet && more > 2 * self.interval + margin.spread;
        if is_certain || times >= AGREEING {
            self.shift(-least);
            self.more = None;
        } else {
            self.more = Some((times, least));
        }
        false
    }

    /// Learns what was left when a request was refused. Its units have been given back.
    pub(super) fn refused(&mut self, left: Remaining, at: Nanos) {
        let (_, most) = self.span(left, at);
        if most > self.tat {
            self.shift(most - self.tat);
        }
        self.more = None;
    }

    fn shift(&mut self, by: Nanos) {
        self.tat = near(self.tat + by);
        self.moved = near(self.moved + by);
    }

    /// Returns the earliest and the latest instant at which the bucket is full, if that was left at an instant.
    fn span(&self, left: Remaining, at: Nanos) -> (Nanos, Nanos) {
        let whole = at.saturating_add(self.time_of(self.quota - left.units.min(self.quota)));
        match left.next {
            Some(next) => {
                let until = nanos(next) - self.interval;
                let exact = whole.saturating_add(until);
                (exact, exact)
            }
            None => (whole - self.interval, whole),
        }
    }

    fn time_of(&self, units: u32) -> Nanos {
        near(self.interval.saturating_mul(i64::from(units)))
    }
}

fn near(at: Nanos) -> Nanos {
    at.clamp(-FARTHEST, FARTHEST)
}
