//! The clients that count most, in bounded memory.

use std::{collections::HashMap, hash::Hash};

/// The most clients that are kept.
const KEPT: usize = 65_536;

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

impl Denials {
    pub(crate) fn new(at: u64) -> Self {
        Self {
            denied: 1,
            first: at,
            last: at,
        }
    }

    pub(crate) fn add(&mut self, at: u64) {
        self.denied += 1;
        self.last = at;
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
