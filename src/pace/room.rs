//! Counts how many more requests a server accepts, and when.

use std::time::Duration;

use tokio::time::Instant;

use super::hints::ResponseHints;

/// The room for requests to a server.
#[derive(Debug)]
pub(super) struct ServerRoom {
    /// The longest time for which a response holds requests back.
    longest: Duration,
    /// The instant before which no request is sent.
    held_until: Option<Instant>,
    /// The number of requests that can be sent before the next response; `None` if the server does not limit them.
    budget: Option<u64>,
    /// The lowest remaining number in the responses since the last time that no request was in flight.
    least: Option<u64>,
    /// Requests that have not been answered.
    in_flight: u64,
}

impl ServerRoom {
    /// Starts with room for one request, so that the first one to a server goes alone.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            longest,
            held_until: None,
            budget: Some(1),
            least: None,
            in_flight: 0,
        }
    }

    /// Admits a request if there is room. Otherwise, returns the instant at which there can be room again, or `None` if that
    /// depends on another response.
    pub(super) fn admit(&mut self, now: Instant) -> Result<(), Option<Instant>> {
        if let Some(until) = self.held_until {
            if until > now {
                return Err(Some(until));
            }
            // After the wait, one request is sent. Its response says how many more can follow.
            self.held_until = None;
            self.budget = Some(1);
            self.least = None;
        }
        if self.budget == Some(0) {
            return Err(None);
        }
        self.budget = self.budget.map(|budget| budget - 1);
        self.send();
        Ok(())
    }

    /// Records that a request is sent.
    pub(super) fn send(&mut self) {
        self.in_flight += 1;
    }

    /// Returns the instant from which the server accepts a request, as far as is known.
    pub(super) fn ready_at(&self, now: Instant) -> Instant {
        self.held_until.unwrap_or(now)
    }

    /// Records the response to a request.
    pub(super) fn hear(&mut self, hints: &ResponseHints, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let fields = &hints.fields;
        if let Some(wait) = fields.wait.filter(|wait| !wait.is_zero()) {
            self.held_until = self.held_until.max(Some(now + wait.min(self.longest)));
        }
        match fields.remaining {
            Some(remaining) => self.learn(remaining),
            // A server that never sends a number is treated as unlimited.
            None if self.least.is_none() && self.in_flight == 0 && !hints.is_stored => {
                self.budget = None;
            }
            None => self.budget = self.budget.map(|budget| budget.saturating_add(1)),
        }
        self.when_quiet();
    }

    /// Applies a remaining number. Responses can overtake each other, and may not include all requests in flight. So the lowest
    /// number applies until nothing is in flight.
    fn learn(&mut self, remaining: u64) {
        let least = remaining.min(self.least.unwrap_or(u64::MAX));
        self.least = Some(least);
        let known = self.budget.filter(|_| self.in_flight > 0);
        let free = least.saturating_sub(self.in_flight);
        self.budget = Some(free.min(known.unwrap_or(u64::MAX)));
    }

    /// Records that a request has got no response.
    pub(super) fn lose(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.when_quiet();
    }

    /// If nothing is in flight, lets one request through to learn the server's current limit.
    fn when_quiet(&mut self) {
        if self.in_flight == 0 {
            self.least = None;
            self.budget = self.budget.map(|budget| budget.max(1));
        }
    }
}
