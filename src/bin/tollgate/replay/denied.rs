//! The clients that were denied most, in bounded memory.

use std::collections::HashMap;

/// The most clients that are kept.
const KEPT: usize = 65_536;

/// The longest part of an id that is kept, in characters.
const LONGEST_ID: usize = 256;

/// The denials of each client. When there are more clients than can be kept, the half with the fewest denials is forgotten, so
/// the count of a client can then be too low.
#[derive(Debug, Default)]
pub(super) struct DeniedClients(HashMap<Box<str>, DeniedClient>);

/// A client that was denied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeniedClient {
    pub(crate) denied: u64,
    /// The instant of the first denial, in microseconds since the epoch.
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl DeniedClients {
    pub(super) fn add(&mut self, id: &str, at: u64) {
        if let Some(client) = self.0.get_mut(id) {
            client.denied += 1;
            client.last = at;
            return;
        }
        if self.0.len() >= KEPT {
            self.forget_half();
        }
        let client = DeniedClient {
            denied: 1,
            first: at,
            last: at,
        };
        self.0.insert(id.into(), client);
    }

    /// All clients, the most denied one first.
    pub(super) fn sorted(self) -> Vec<(String, DeniedClient)> {
        let mut clients: Vec<_> = self.0.into_iter().collect();
        clients.sort_by(|(a, one), (b, other)| {
            let order = other.denied.cmp(&one.denied);
            order
                .then(one.first.cmp(&other.first))
                .then_with(|| a.cmp(b))
        });
        let clients = clients.into_iter();
        clients
            .map(|(id, client)| (id.chars().take(LONGEST_ID).collect(), client))
            .collect()
    }

    fn forget_half(&mut self) {
        let mut counts: Vec<_> = self.0.values().map(|client| client.denied).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable(middle);
        let median = *median;
        self.0.retain(|_, client| client.denied > median);
    }
}
