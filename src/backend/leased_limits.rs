//! The limits that ask for leases, as limiters hand them to their backends.

use std::{collections::hash_map::Entry, hash::Hash, sync::Weak};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use ahash::RandomState;

use super::LeaseShare;
use crate::transaction::{Algorithm, LimitKey};

/// Identifies a limiter, and shows whether it is still in use.
#[derive(Debug, Default)]
pub(crate) struct LimiterId(Arc<()>);

/// The limits that ask for leases, by their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeasedLimits {
    numbers: HashMap<u32, LeasedLimit, RandomState>,
    names: HashMap<Box<str>, LeasedLimit, RandomState>,
}

/// A limit that asks for leases.
#[derive(Clone, Debug)]
pub(super) struct LeasedLimit {
    share: LeaseShare,
    /// The algorithms of the default and of the overrides.
    algorithms: HashSet<Algorithm, RandomState>,
}

impl LimiterId {
    pub(super) fn downgrade(&self) -> Weak<()> {
        Arc::downgrade(&self.0)
    }
}

impl LeasedLimits {
    /// Adds a limit with these algorithms: those of the default and of the overrides.
    pub(crate) fn add<'a>(
        &mut self,
        key: LimitKey<'_>,
        share: LeaseShare,
        algorithms: impl Iterator<Item = &'a Algorithm>,
    ) {
        let algorithms = algorithms.cloned().collect();
        let limit = LeasedLimit { share, algorithms };
        match key {
            LimitKey::Number(number) => self.numbers.insert(number, limit),
            LimitKey::Name(name) => self.names.insert(name.into(), limit),
        };
    }

    /// Adds the limits of another limiter. If both have the same one, the larger share counts.
    pub(super) fn join(&mut self, other: &Self) {
        join(&mut self.numbers, &other.numbers);
        join(&mut self.names, &other.names);
    }

    /// Returns the limit with this key, if it asks for leases.
    pub(super) fn get(&self, key: LimitKey<'_>) -> Option<&LeasedLimit> {
        match key {
            LimitKey::Number(number) => self.numbers.get(&number),
            LimitKey::Name(name) => self.names.get(name),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty() && self.names.is_empty()
    }
}

fn join<K: Clone + Eq + Hash>(
    all: &mut HashMap<K, LeasedLimit, RandomState>,
    others: &HashMap<K, LeasedLimit, RandomState>,
) {
    for (key, other) in others {
        match all.entry(key.clone()) {
            Entry::Vacant(entry) => drop(entry.insert(other.clone())),
            Entry::Occupied(mut entry) => {
                let limit = entry.get_mut();
                limit.share = limit.share.max(other.share);
                limit.algorithms.extend(other.algorithms.iter().cloned());
            }
        }
    }
}

impl LeasedLimit {
    pub(super) fn share(&self) -> LeaseShare {
        self.share
    }

    /// Returns whether a client has this algorithm by the limits in force. A request that began before a reload may be
    /// decided by another one.
    pub(super) fn has(&self, algorithm: &Algorithm) -> bool {
        self.algorithms.contains(algorithm)
    }
}
