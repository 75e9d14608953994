//! How many more requests a server accepts, and when.

use std::time::Duration;

use tokio::time::Instant;

use super::{fields::MOST_POLICIES, reading::Reading, steady::Steady};

/// The latest instant that is computed, as the time since the first request: a hundred years.
const FARTHEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The room that a server has.
#[derive(Debug)]
pub(super) struct Room {
    /// The instant from which times count.
    began: Instant,
    /// The longest time for which a response holds requests back.
    longest: Duration,
    /// The instant before which the server asks for no request.
    held_until: Option<Instant>,
    /// The number of requests that can be sent before the next response; `None` if the server does not limit them.
    budget: Option<u64>,
    /// The lowest remaining number in responses since no request was in flight.
    least: Option<u64>,
    /// Requests that have not been answered.
    in_flight: u64,
    /// The limits that are known exactly.
    policies: Vec<Steady>,
}

/// A request that has been sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The instant at which it was sent.
    pub(super) at: Duration,
    /// Whether it was sent because it had waited for the maximum.
    pub(super) is_forced: bool,
}

impl Room {
    /// Begins with room for one request. The first one to a server goes alone.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            began: Instant::now(),
            longest,
            held_until: None,
            budget: Some(1),
            least: None,
            in_flight: 0,
            policies: Vec::new(),
        }
    }

    /// Sends a request if there is room, or returns the instant at which there can be room again. `None` is after another
    /// response.
    pub(super) fn admit(&mut self, now: Instant) -> Result<Request, Option<Instant>> {
        if self.held_until.is_some_and(|until| until <= now) {
            // There is room for at least one request. Its response says how many more can follow.
            self.held_until = None;
            self.budget = Some(1);
            self.least = None;
        }
        if self.held_until.is_none() && self.budget == Some(0) {
            return Err(None);
        }
        let ready = self.ready_at(now);
        if ready > now {
            return Err(Some(ready));
        }
        self.budget = self.budget.map(|budget| budget - 1);
        Ok(self.send(now, false))
    }

    /// Records that a request is sent.
    pub(super) fn send(&mut self, now: Instant, is_forced: bool) -> Request {
        self.in_flight += 1;
        let at = self.since(now);
        for policy in &mut self.policies {
            policy.charge(at);
        }
        Request { at, is_forced }
    }

    /// Returns the instant from which the server accepts a request, as far as is known.
    pub(super) fn ready_at(&mut self, now: Instant) -> Instant {
        let since = self.since(now);
        let policies = self.policies.iter_mut();
        let ready = policies.map(|policy| policy.ready_at(since)).max();
        let ready = self.began + ready.unwrap_or_default().min(FARTHEST);
        ready.max(self.held_until.unwrap_or(now))
    }

    /// Records the response to a request.
    pub(super) fn hear(&mut self, request: Request, reading: &Reading, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.follow(request, reading, self.since(now));
        self.note(reading, now);
    }

    /// Follows the limits that are known exactly, and forgets full ones that the server no longer names.
    fn follow(&mut self, request: Request, reading: &Reading, now: Duration) {
        let figures = &reading.fields.figures;
        let find = |name: &str| figures.iter().find(|figure| figure.name == name);
        self.policies.retain(|policy| match find(policy.name()) {
            Some(figure) => policy.is_of(figure),
            None => !policy.is_full(now),
        });
        let is_refused = reading.refusal.is_some();
        for policy in &mut self.policies {
            let figure = find(policy.name());
            if is_refused || figure.is_none() {
                policy.give_back();
            }
            let Some(figure) = figure else { continue };
            policy.learn(figure, request.at, self.in_flight);
            if !is_refused && figure.has_half() {
                policy.speed_up();
            } else if is_refused && !request.is_forced && figure.denied_for().is_some() {
                policy.slow_down(request.at, now);
            }
        }
        for figure in figures {
            let mut known = self.policies.iter();
            let is_new = known.all(|policy| policy.name() != figure.name);
            if is_new && self.policies.len() < MOST_POLICIES {
                let mut policy = Steady::new(figure);
                policy.learn(figure, request.at, self.in_flight);
                self.policies.push(policy);
            }
        }
    }

    /// Records what is left of the other limits.
    fn note(&mut self, reading: &Reading, now: Instant) {
        let fields = &reading.fields;
        if let Some(wait) = fields.wait.filter(|wait| !wait.is_zero()) {
            self.held_until = self.held_until.max(Some(now + wait.min(self.longest)));
        }
        match fields.remaining {
            Some(remaining) => self.learn(remaining),
            None if !fields.figures.is_empty() => (self.budget, self.least) = (None, None),
            // A server that never sends a number is treated as unlimited.
            None if self.least.is_none() && self.in_flight == 0 && !reading.is_stored => {
                self.budget = None;
            }
            None => self.budget = self.budget.map(|budget| budget.saturating_add(1)),
        }
        self.when_quiet();
    }

    /// Responses can overtake each other, and may not count all requests in flight yet. So the lowest number applies
    /// until nothing is in flight.
    fn learn(&mut self, remaining: u64) {
        let least = remaining.min(self.least.unwrap_or(u64::MAX));
        self.least = Some(least);
        let known = self.budget.filter(|_| self.in_flight > 0);
        let free = least.saturating_sub(self.in_flight);
        self.budget = Some(free.min(known.unwrap_or(u64::MAX)));
    }

    /// Records that a request gets no response.
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

    fn since(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}
