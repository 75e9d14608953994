//! Clients in bounded memory: how many there are, and which ones are denied most.

use std::{
    collections::{HashMap, HashSet},
    hash::BuildHasherDefault,
};

use ahash::AHasher;

/// The most clients whose denials are kept.
const KEPT: usize = 65_536;

/// The most hashes that are kept. Each takes some ten bytes.
const HASHES: usize = 1 << 20;

/// The longest part of an id that is kept, in characters.
const LONGEST_ID: usize = 256;

/// The hash of an id. It is the same in every run.
pub(crate) fn hash(id: &str) -> u64 {
    ahash::RandomState::with_seeds(1, 2, 3, 4).hash_one(id)
}

/// Counts distinct clients. It is exact up to a million. Beyond that, it keeps every second hash, then every fourth and so on, and
/// multiplies: the standard error is below 0.2 %.
#[derive(Debug, Default)]
pub(crate) struct Distinct {
    /// The hashes that are kept: those with `zeros` zeros at their end.
    kept: HashSet<u64, BuildHasherDefault<AHasher>>,
    zeros: u32,
}

impl Distinct {
    pub(crate) fn add(&mut self, client: u64) {
        if client.trailing_zeros() < self.zeros {
            return;
        }
        self.kept.insert(client);
        while self.kept.len() > HASHES {
            self.zeros += 1;
            let zeros = self.zeros;
            self.kept.retain(|hash| hash.trailing_zeros() >= zeros);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        (self.kept.len() as u64) << self.zeros.min(40)
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.zeros == 0
    }
}

/// The denials of a client.
#[derive(Clone, Debug)]
pub(crate) struct Denials {
    pub(crate) id: String,
    pub(crate) denied: u64,
    /// The instant of the first denial, in microseconds since the epoch.
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// The denials of each client. When there are more clients than can be kept, the half with the fewest denials is forgotten, so
/// the count of a client can then be too low.
#[derive(Debug, Default)]
pub(crate) struct DeniedClients(HashMap<u64, Denials>);

impl DeniedClients {
    pub(crate) fn add(&mut self, client: u64, at: u64, id: impl FnOnce() -> String) {
        if let Some(denials) = self.0.get_mut(&client) {
            denials.denied += 1;
            denials.last = at;
            return;
        }
        self.make_room();
        let denials = Denials {
            id: id(),
            denied: 1,
            first: at,
            last: at,
        };
        self.0.insert(client, denials);
    }

    fn make_room(&mut self) {
        if self.0.len() < KEPT {
            return;
        }
        let mut counts: Vec<_> = self.0.values().map(|client| client.denied).collect();
        let middle = counts.len() / 2;
        let median = *counts.select_nth_unstable(middle).1;
        self.0.retain(|_, client| client.denied > median);
    }

    /// All clients, the most denied one first.
    pub(crate) fn sorted(&self) -> Vec<&Denials> {
        let mut clients: Vec<_> = self.0.values().collect();
        clients.sort_by(|a, b| {
            let order = b.denied.cmp(&a.denied).then(a.first.cmp(&b.first));
            order.then_with(|| a.id.cmp(&b.id))
        });
        clients
    }
}

/// The part of an id that is kept.
pub(crate) fn kept(id: &str) -> String {
    id.chars().take(LONGEST_ID).collect()
}
