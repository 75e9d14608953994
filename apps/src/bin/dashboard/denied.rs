//! The most denied clients, from the events that tollgate emits for denials.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use serde::Serialize;
use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, filter::Targets, layer::Context, registry::LookupSpan};

/// The number of clients that are counted at a time. It bounds the memory, however many clients are denied.
const CLIENTS: usize = 1000;

/// Counts the denials of each client. Clones share the counts.
///
/// Once the list is full, a new client replaces the least denied one and inherits its count (the Space-Saving algorithm: Metwally,
/// Agrawal and El Abbadi, 2005). So a count can be too high, by at most [`inherited`](Denied::inherited), but no client that is
/// denied often is missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeniedClients {
    clients: Arc<Mutex<HashMap<Client, Count>>>,
    secret: RandomState,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Client {
    limit: String,
    id: String,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    denials: u64,
    inherited: u64,
    last: Instant,
}

/// A client as the page shows it.
#[derive(Debug, Serialize)]
pub(crate) struct Denied {
    pub(crate) limit: String,
    /// The id, or a hash of it.
    pub(crate) id: String,
    pub(crate) denials: u64,
    /// The number of denials that may belong to clients that this one has replaced.
    pub(crate) inherited: u64,
    /// The time since the last denial.
    last_ms: u128,
}

/// The form in which the page shows ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    Redacted,
    Shown,
}

impl DeniedClients {
    /// Listens to denials only, so that allowed requests emit no event.
    pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        let denials = Targets::new().with_target("tollgate::limiter", Level::DEBUG);
        self.clone().with_filter(denials)
    }

    /// Returns the most denied clients, in descending order.
    pub(crate) fn most(&self, number: usize, ids: Ids) -> Vec<Denied> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let mut most: Vec<_> = clients.iter().collect();
        most.sort_by(|(a, x), (b, y)| {
            let by_count = y.denials.cmp(&x.denials);
            by_count.then_with(|| (&a.limit, &a.id).cmp(&(&b.limit, &b.id)))
        });
        let shown = most.into_iter().take(number);
        shown
            .map(|(client, count)| Denied {
                limit: client.limit.clone(),
                id: match ids {
                    Ids::Shown => client.id.clone(),
                    Ids::Redacted => self.redacted(&client.id),
                },
                denials: count.denials,
                inherited: count.inherited,
                last_ms: count.last.elapsed().as_millis(),
            })
            .collect()
    }

    fn count(&self, client: Client) {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let last = Instant::now();
        if let Some(count) = clients.get_mut(&client) {
            count.denials += 1;
            count.last = last;
            return;
        }
        let mut inherited = 0;
        if clients.len() >= CLIENTS {
            let least = clients.iter().min_by_key(|(_, count)| count.denials);
            let (least, count) = least
                .map(|(client, count)| (client.clone(), *count))
                .expect("it is full");
            clients.remove(&least);
            inherited = count.denials;
        }
        let denials = inherited + 1;
        clients.insert(
            client,
            Count {
                denials,
                inherited,
                last,
            },
        );
    }

    /// Returns a hash of an id, the same until the process ends. The hash has a secret key, so it cannot be computed from a list of
    /// ids.
    fn redacted(&self, id: &str) -> String {
        format!("client {:08x}", self.secret.hash_one(id) >> 32)
    }
}

impl<S: Subscriber> Layer<S> for DeniedClients {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut decided = Decided::default();
        event.record(&mut decided);
        if decided.is_denial {
            self.count(decided.client);
        }
    }
}

/// The fields of an event `decided`.
#[derive(Default)]
struct Decided {
    client: Client,
    is_denial: bool,
}

impl Visit for Decided {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "limit" => self.client.limit = value.to_owned(),
            "id" => self.client.id = value.to_owned(),
            "result" => {
                let denials = ["rejected", "blocked", "cache_rejected", "fallback_rejected"];
                self.is_denial = denials.contains(&value);
            }
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}
