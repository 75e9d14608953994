//! Limits whose units come back one after the other, at a distance that the server says exactly.

use std::time::Duration;

use crate::random;

/// The longest time that is left to others while requests wait.
const LONGEST_RESERVE: Duration = Duration::from_secs(1);

/// The distance of requests at the whole rate of a limit.
const FULL_RATE: u32 = 1024;

/// The longest distance.
const LEAST_RATE: u32 = 32 * FULL_RATE;

/// What a response says of a limit.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) quota: u32,
    /// The time in which a unit comes back.
    pub(super) interval: Duration,
    /// The units that a request takes.
    pub(super) cost: u32,
    /// The units that are left, and the time until there is one more. A refusal says it of the limits that deny.
    pub(super) left: Option<(u32, Duration)>,
}

impl Figure {
    /// Returns the time until a request passes, if this limit denies it.
    pub(super) fn denied_for(&self) -> Option<Duration> {
        let (units, next) = self.left?;
        let missing = self.cost.checked_sub(units)?.checked_sub(1)?;
        Some(next + self.time_of(missing))
    }

    /// Returns whether half of the units are left.
    pub(super) fn has_half(&self) -> bool {
        self.left.is_some_and(|(units, _)| units >= self.quota / 2)
    }

    /// Returns the instant at which the bucket is full, according to the response to a request that was sent at an instant.
    fn full_at(&self, sent_at: Duration) -> Option<Duration> {
        let (units, next) = self.left?;
        let missing = (self.quota - units).checked_sub(1);
        let missing = missing.map_or(Duration::ZERO, |missing| next + self.time_of(missing));
        Some(sent_at + missing)
    }

    fn time_of(&self, units: u32) -> Duration {
        self.interval.saturating_mul(units)
    }
}

/// A copy of a bucket of the server, on the client's clock. It takes each request at the instant at which it was sent. So if
/// all requests take equally long to the server, both differ by nothing but that time.
#[derive(Debug)]
pub(super) struct Steady {
    figure: Figure,
    /// The instant at which the bucket is full.
    full_at: Duration,
    /// The latest such instant in responses since no request was in flight.
    shown: Duration,
    /// Whether requests have had to wait since the bucket was full.
    is_throttled: bool,
    /// The distance between requests. It is longer than at the full rate while others use the same limit.
    distance: u32,
    slowed_at: Duration,
    /// The instant before which that distance allows no request.
    next: Duration,
}

impl Steady {
    pub(super) fn new(figure: &Figure) -> Self {
        Self {
            figure: figure.clone(),
            full_at: Duration::ZERO,
            shown: Duration::ZERO,
            is_throttled: false,
            distance: FULL_RATE,
            slowed_at: Duration::ZERO,
            next: Duration::ZERO,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.figure.name
    }

    /// Returns whether the server still describes the limit in this way.
    pub(super) fn is_of(&self, figure: &Figure) -> bool {
        (self.figure.quota, self.figure.interval) == (figure.quota, figure.interval)
    }

    pub(super) fn is_full(&self, now: Duration) -> bool {
        self.full_at <= now
    }

    /// Returns the instant from which a request passes. While requests wait, a part of the bucket is left to other clients,
    /// which also makes up for requests that take different times to the server.
    pub(super) fn ready_at(&mut self, now: Duration) -> Duration {
        let others = self.figure.time_of(self.figure.quota - self.figure.cost);
        let ready = self.full_at.saturating_sub(others);
        self.is_throttled = ready > now || (self.is_throttled && !self.is_full(now));
        let reserve = match self.is_throttled {
            true => (others / 2).min(self.cost() * 2).max(self.cost() / 50),
            false => Duration::ZERO,
        };
        let ready = ready.saturating_add(reserve.min(LONGEST_RESERVE));
        ready.max(self.next)
    }

    /// Takes the units of a request.
    pub(super) fn charge(&mut self, now: Duration) {
        self.full_at = self.full_at.max(now).saturating_add(self.cost());
        if self.distance > FULL_RATE {
            self.next = now + self.at_random(self.distance / 4 * 3, self.distance / 2);
        }
    }

    /// Returns the units of a request that has taken none.
    pub(super) fn give_back(&mut self) {
        self.full_at = self.full_at.saturating_sub(self.cost());
    }

    /// Learns from the response to a request that was sent at an instant, while others are in flight. Responses that overtake
    /// each other, and requests that take different times, show more than is left. So a copy only follows those that show
    /// less, until none is in flight and a whole request more is left.
    pub(super) fn learn(&mut self, figure: &Figure, sent_at: Duration, in_flight: u64) {
        self.figure.cost = figure.cost;
        let Some(full_at) = figure.full_at(sent_at) else {
            return;
        };
        self.shown = self.shown.max(full_at);
        let in_flight = u32::try_from(in_flight).unwrap_or(u32::MAX);
        let taken = self.cost().saturating_mul(in_flight);
        self.full_at = self.full_at.max(self.shown.saturating_add(taken));
        if in_flight == 0 {
            if self.full_at > self.shown + self.cost() {
                self.full_at = self.shown;
            }
            self.shown = Duration::ZERO;
        }
    }

    /// Makes the distance of requests twice as long after a refusal, as TCP does. Of those at the same time, one counts.
    pub(super) fn slow_down(&mut self, sent_at: Duration, now: Duration) {
        if sent_at >= self.slowed_at {
            self.distance = (self.distance * 2).min(LEAST_RATE);
            self.slowed_at = now;
            self.next = now + self.at_random(0, self.distance);
        }
    }

    /// Makes the distance a little shorter after a request that has left enough.
    pub(super) fn speed_up(&mut self) {
        let shorter = self.distance * self.distance / FULL_RATE / 64;
        self.distance = (self.distance - shorter).max(FULL_RATE);
    }

    fn cost(&self) -> Duration {
        self.figure.time_of(self.figure.cost)
    }

    /// Returns a random time, from a distance to that and another one.
    fn at_random(&self, least: u32, more: u32) -> Duration {
        let random = u32::try_from(random::number() % u64::from(more)).unwrap_or_default();
        self.cost().saturating_mul(least + random) / FULL_RATE
    }
}
