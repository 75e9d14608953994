//! The clients that were denied most, in bounded memory.

use std::collections::HashMap;

use crate::busiest::{Denials, kept, make_room};

/// The denials of each client. When there are more clients than can be kept, the half with the fewest denials is forgotten, so
/// the count of a client can then be too low.
#[derive(Debug, Default)]
pub(super) struct DeniedClients(HashMap<Box<str>, Denials>);

impl DeniedClients {
    pub(super) fn add(&mut self, id: &str, at: u64) {
        if let Some(client) = self.0.get_mut(id) {
            client.add(at);
            return;
        }
        make_room(&mut self.0, |client| client.denied);
        self.0.insert(id.into(), Denials::new(at));
    }

    /// All clients, the most denied one first.
    pub(super) fn sorted(self) -> Vec<(String, Denials)> {
        let mut clients: Vec<_> = self.0.into_iter().collect();
        clients.sort_by(|(a, one), (b, other)| {
            let order = other.denied.cmp(&one.denied);
            order
                .then(one.first.cmp(&other.first))
                .then_with(|| a.cmp(b))
        });
        let clients = clients.into_iter();
        clients.map(|(id, client)| (kept(&id), client)).collect()
    }
}
