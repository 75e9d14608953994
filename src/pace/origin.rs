//! The servers: how many more requests each accepts, and when.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use ahash::RandomState;
use http::Uri;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{self, Notify},
    time::{self, Instant},
};

use super::{
    forecast::{Forecast, Request},
    reading::Reading,
    sent::{Nanos, nanos},
};
use crate::key::host_of;

/// The most servers that are remembered.
const MOST: usize = 1024;

/// The longest name of a server that is remembered. A longer name is invalid in DNS, and shares a state with URIs that
/// have no authority.
const LONGEST_NAME: usize = 260;

/// The servers that requests were sent to, by the authority of the URI.
#[derive(Default)]
pub(super) struct Origins(Mutex<HashMap<String, Arc<Origin>, RandomState>>);

impl Origins {
    /// Returns the server of a URI. If there are too many, unused servers without a wait are forgotten. If that does
    /// not help, the new one is not remembered.
    pub(super) fn of(&self, uri: &Uri) -> Arc<Origin> {
        let name = host_of(uri).filter(|name| name.len() <= LONGEST_NAME);
        let name = name.unwrap_or_default();
        let mut origins = self.0.lock();
        if let Some(origin) = origins.get(&name) {
            return Arc::clone(origin);
        }
        if origins.len() >= MOST {
            origins.retain(|_, origin| Arc::strong_count(origin) > 1 || origin.is_held());
        }
        let origin = Arc::new(Origin::default());
        if origins.len() < MOST {
            origins.insert(name, Arc::clone(&origin));
        }
        origin
    }
}

impl fmt::Debug for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origins = self.0.lock();
        f.debug_tuple("Origins").field(&origins.len()).finish()
    }
}

/// A server, and the line of requests to it.
#[derive(Debug, Default)]
pub(super) struct Origin {
    /// Held by the request that is the first in line.
    first: sync::Mutex<()>,
    room: Mutex<Room>,
    /// Wakes the first in line when there may be room.
    changed: Notify,
}

/// The room that a server has.
#[derive(Debug)]
struct Room {
    /// The instant before which the server asks for no request.
    held_until: Option<Instant>,
    /// The number of requests that can be sent before the next response; `None` if the server does not limit them.
    budget: Option<u64>,
    /// The lowest remaining number in responses since no request was in flight.
    least: Option<u64>,
    /// Requests that have not been answered.
    in_flight: u64,
    /// The room according to exact figures.
    forecast: Forecast,
    /// The instant from which the forecast counts.
    began: Instant,
}

/// The answer to whether a request can be sent now.
enum Admission {
    Now(Request),
    /// Not before this instant.
    At(Instant),
    /// Only after another response.
    AfterAnother,
}

impl Origin {
    /// Waits until there is room for a request, but not beyond the deadline.
    pub(super) async fn turn(self: &Arc<Self>, deadline: Instant) -> Turn {
        match time::timeout_at(deadline, self.in_line()).await {
            Ok(turn) => turn,
            Err(_) => Turn::new(self, self.room().send(Instant::now(), true)),
        }
    }

    async fn in_line(self: &Arc<Self>) -> Turn {
        let _first = self.first.lock().await;
        loop {
            let admission = self.room().admit(Instant::now());
            match admission {
                Admission::Now(request) => return Turn::new(self, request),
                Admission::At(instant) => tokio::select! {
                    () = time::sleep_until(instant) => {}
                    () = self.changed.notified() => {}
                },
                Admission::AfterAnother => self.changed.notified().await,
            }
        }
    }

    /// Records the trailers of a response.
    pub(super) fn heard_more(&self, reading: &Reading, max_wait: Duration) {
        self.room().note(reading, Instant::now(), max_wait);
        self.changed.notify_one();
    }

    /// Returns whether the server asks for no request now.
    fn is_held(&self) -> bool {
        let now = Instant::now();
        self.room().ready_at(now) > now
    }

    fn room(&self) -> MutexGuard<'_, Room> {
        self.room.lock()
    }
}

/// The first request to a server goes alone.
impl Default for Room {
    fn default() -> Self {
        Self {
            held_until: None,
            budget: Some(1),
            least: None,
            in_flight: 0,
            forecast: Forecast::default(),
            began: Instant::now(),
        }
    }
}

impl Room {
    fn admit(&mut self, now: Instant) -> Admission {
        match self.held_until {
            Some(until) if now < until => return Admission::At(until),
            Some(_) => {
                // There is room for at least one request. Its response tells how many more can follow.
                self.held_until = None;
                self.budget = Some(1);
                self.least = None;
            }
            None => {}
        }
        if self.budget == Some(0) {
            return Admission::AfterAnother;
        }
        let ready = self.forecast.wait_until(self.since(now), self.in_flight);
        if let Some(ready) = ready {
            return Admission::At(self.instant(ready));
        }
        self.budget = self.budget.map(|budget| budget - 1);
        Admission::Now(self.send(now, false))
    }

    /// Records that a request is sent. A forced one has waited for the maximum.
    fn send(&mut self, now: Instant, is_forced: bool) -> Request {
        self.in_flight += 1;
        self.forecast.send(self.since(now), is_forced)
    }

    /// Returns the instant from which there is room again.
    fn ready_at(&self, now: Instant) -> Instant {
        let forecast = self.instant(self.forecast.ready_at());
        self.held_until.unwrap_or(now).max(forecast)
    }

    fn since(&self, now: Instant) -> Nanos {
        nanos(now.saturating_duration_since(self.began))
    }

    fn instant(&self, at: Nanos) -> Instant {
        let since = Duration::from_nanos(u64::try_from(at).unwrap_or_default());
        self.began + since
    }

    /// Records a response.
    fn hear(&mut self, request: &Request, mut reading: Reading, now: Instant, max_wait: Duration) {
        self.in_flight = self.in_flight.saturating_sub(1);
        reading.choose(|figure| self.forecast.follows(figure));
        if !reading.is_outdated {
            let now = self.since(now);
            self.forecast.hear(request, &reading, now, self.in_flight);
        }
        self.note(&reading, now, max_wait);
    }

    fn note(&mut self, reading: &Reading, now: Instant, max_wait: Duration) {
        if let Some(wait) = reading.wait.filter(|wait| !wait.is_zero()) {
            let until = now + wait.min(max_wait);
            self.held_until = self.held_until.max(Some(until));
        }
        match reading.remaining {
            None if !reading.policies.is_empty() => {
                self.budget = None;
                self.least = None;
            }
            // A server that never sends a number is treated as unlimited.
            None if self.least.is_none() && self.in_flight == 0 && !reading.is_outdated => {
                self.budget = None;
            }
            None => self.budget = self.budget.map(|budget| budget.saturating_add(1)),
            Some(remaining) => self.learn(remaining),
        }
        self.when_quiet();
    }

    /// Responses can overtake each other, and may not count all requests in flight yet. So the lowest number applies
    /// until nothing is in flight.
    fn learn(&mut self, remaining: u64) {
        let least = self.least.map_or(remaining, |least| least.min(remaining));
        self.least = Some(least);
        let free = least.saturating_sub(self.in_flight);
        self.budget = match self.in_flight {
            0 => Some(free),
            _ => Some(self.budget.map_or(free, |budget| budget.min(free))),
        };
    }

    /// If nothing is in flight, lets one request through to learn the server's current limit.
    fn when_quiet(&mut self) {
        if self.in_flight == 0 {
            self.least = None;
            self.budget = self.budget.map(|budget| budget.max(1));
        }
    }
}

/// A request in flight. If it is dropped, it counts as a request without a response.
#[derive(Debug)]
pub(super) struct Turn {
    origin: Arc<Origin>,
    request: Request,
    is_heard: bool,
}

impl Turn {
    fn new(origin: &Arc<Origin>, request: Request) -> Self {
        Self {
            origin: Arc::clone(origin),
            request,
            is_heard: false,
        }
    }

    /// Records the response, and returns the instant from which there is room again.
    pub(super) fn heard(mut self, reading: Reading, max_wait: Duration) -> Instant {
        self.is_heard = true;
        let now = Instant::now();
        let mut room = self.origin.room();
        room.hear(&self.request, reading, now, max_wait);
        room.ready_at(now)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_heard {
            let mut room = self.origin.room();
            room.in_flight = room.in_flight.saturating_sub(1);
            room.when_quiet();
        }
        self.origin.changed.notify_one();
    }
}
