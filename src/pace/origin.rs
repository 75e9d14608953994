//! Servers, and the lines of requests to them.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use http::Uri;
use tokio::{
    sync::{self, Notify},
    time::{Instant, sleep_until, timeout_at},
};

use super::{hints::ResponseHints, room::ServerRoom};
use crate::key::host_of;

/// The most servers that are remembered.
const MOST: usize = 1024;

/// The longest name of a server that is remembered. A longer name is invalid in DNS, and shares a state with URIs that
/// have no authority.
const LONGEST_NAME: usize = 260;

/// The longest wait of all: a year.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The servers that requests were sent to, by the authority of the URI.
#[derive(Default)]
pub(super) struct Origins(Mutex<HashMap<String, Arc<Origin>>>);

impl Origins {
    /// Returns the server of a URI. If there are too many servers, those that are unused and ask for no wait are forgotten. If all
    /// are in use, the new one is not remembered.
    pub(super) fn of(&self, uri: &Uri, max_wait: Duration) -> Arc<Origin> {
        let name = host_of(uri).filter(|name| name.len() <= LONGEST_NAME);
        let name = name.unwrap_or_default();
        let mut origins = lock(&self.0);
        if let Some(origin) = origins.get(&name) {
            return Arc::clone(origin);
        }
        if origins.len() >= MOST {
            let now = Instant::now();
            let is_held = |origin: &Origin| lock(&origin.room).ready_at(now) > now;
            origins.retain(|_, origin| Arc::strong_count(origin) > 1 || is_held(origin));
        }
        let origin = Arc::new(Origin::new(max_wait));
        if origins.len() < MOST {
            origins.insert(name, Arc::clone(&origin));
        }
        origin
    }
}

impl fmt::Debug for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Origins")
            .field(&lock(&self.0).len())
            .finish()
    }
}

/// A server, and the line of requests to it.
#[derive(Debug)]
pub(super) struct Origin {
    /// The first request in line holds this lock.
    first: sync::Mutex<()>,
    room: Mutex<ServerRoom>,
    /// Wakes the first request in line when there may be room.
    changed: Notify,
}

impl Origin {
    fn new(max_wait: Duration) -> Self {
        Self {
            first: sync::Mutex::new(()),
            room: Mutex::new(ServerRoom::new(max_wait)),
            changed: Notify::new(),
        }
    }

    /// Waits until there is room for a request, but not beyond the deadline.
    pub(super) async fn turn(self: &Arc<Self>, deadline: Instant) -> InFlightRequest {
        let admitted = timeout_at(deadline, self.in_line(deadline)).await;
        if admitted.is_err() {
            lock(&self.room).send();
        }
        InFlightRequest {
            origin: Arc::clone(self),
            is_answered: false,
        }
    }

    async fn in_line(&self, deadline: Instant) {
        let _first = self.first.lock().await;
        loop {
            let admitted = lock(&self.room).admit(Instant::now());
            let ready = match admitted {
                Ok(()) => return,
                Err(ready) => ready.unwrap_or(deadline),
            };
            tokio::select! {
                () = sleep_until(ready) => {}
                () = self.changed.notified() => {}
            }
        }
    }
}

/// A request in flight. If it is dropped, it counts as a request without a response.
#[derive(Debug)]
pub(super) struct InFlightRequest {
    origin: Arc<Origin>,
    is_answered: bool,
}

impl InFlightRequest {
    /// Records the response, and returns the instant from which there is room again.
    pub(super) fn hear(mut self, hints: &ResponseHints) -> Instant {
        let now = Instant::now();
        let mut room = lock(&self.origin.room);
        room.hear(hints, now);
        self.is_answered = true;
        let wait = hints.fields.wait.unwrap_or_default().min(LONGEST_WAIT);
        room.ready_at(now).max(now + wait)
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if !self.is_answered {
            lock(&self.origin.room).lose();
        }
        self.origin.changed.notify_one();
    }
}

/// Locks a mutex. A poisoned one is used, because no panic can leave the value half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
