//! The clients that count most, in bounded memory.

use std::{borrow::Borrow, collections::HashMap, hash::Hash};

/// The most clients that are kept.
pub(crate) const KEPT: usize = 65_536;

/// The longest part of an id that is kept, in characters.
const LONGEST_ID: usize = 256;

/// The denials of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denials {
    pub(crate) denied: u64,
    /// The instant of the first denial, in microseconds since the epoch.
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// The denials of each client, by its id or a hash of that. When there are more clients than can be kept, the half with the
/// fewest denials is forgotten, so the count of a client can then be too low.
#[derive(Debug, Default)]
pub(crate) struct DeniedClients<K>(HashMap<K, Denials>);

impl<K: Eq + Hash + Ord> DeniedClients<K> {
    pub(crate) fn add<Q>(&mut self, client: &Q, at: u64)
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(denials) = self.0.get_mut(client) {
            denials.denied += 1;
            denials.last = at;
            return;
        }
        make_room(&mut self.0, |denials| denials.denied);
        let (denied, first, last) = (1, at, at);
        let denials = Denials {
            denied,
            first,
            last,
        };
        self.0.insert(client.to_owned(), denials);
    }

    /// All clients, the most denied one first.
    pub(crate) fn sorted(self) -> Vec<(K, Denials)> {
        let mut clients: Vec<_> = self.0.into_iter().collect();
        clients.sort_by(|(a, one), (b, other)| {
            let order = other.denied.cmp(&one.denied);
            order.then(one.first.cmp(&other.first)).then(a.cmp(b))
        });
        clients
    }
}

/// Makes room for another client: if there are as many as can be kept, the half with the lowest counts is forgotten.
pub(crate) fn make_room<K: Eq + Hash, V>(clients: &mut HashMap<K, V>, count: impl Fn(&V) -> u64) {
    if clients.len() < KEPT {
        return;
    }
    let mut counts: Vec<_> = clients.values().map(&count).collect();
    let middle = counts.len() / 2;
    let (_, median, _) = counts.select_nth_unstable(middle);
    let median = *median;
    clients.retain(|_, client| count(client) > median);
}

/// The part of an id that is kept.
pub(crate) fn kept(id: &str) -> String {
    id.chars().take(LONGEST_ID).collect()
}
