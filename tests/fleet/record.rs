//! A record of the answers to the callers of a fleet.

use std::collections::BTreeMap;

use tollgate::{decision::Source, limiter::Permit};

use crate::plan::Bucket;

/// All times are those of the simulation.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The instant at which each bucket was first used.
    pub(crate) first: BTreeMap<Bucket, u64>,
    pub(crate) charges: BTreeMap<Bucket, Vec<Charge>>,
    pub(crate) denials: Vec<Denial>,
    /// The charges that batches over several slots may have given back.
    pub(crate) trials: Vec<Trial>,
    /// The number of calls.
    pub(crate) calls: usize,
    /// Resets, from when they were sent until they were answered.
    pub(crate) resets: Vec<(Bucket, (u64, u64))>,
    pub(crate) permits: BTreeMap<u64, Held>,
    /// The buckets of work that waits for the decision on it.
    pub(crate) entering: Vec<Bucket>,
    /// The buckets of work that has ended, and when.
    pub(crate) left: Vec<(Bucket, u64)>,
    pub(crate) data_losses: Vec<u64>,
    /// Processes that have started again, and when.
    pub(crate) restarts: Vec<(u64, usize)>,
    /// The first event that can make a process decide without the store.
    pub(crate) first_fault: Option<u64>,
    pub(crate) problems: Vec<String>,
}

/// A charge that a client was granted.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) process: usize,
    pub(crate) source: Source,
    pub(crate) units: u32,
    /// Whether it was charged without a vote, and beyond the limit if necessary.
    pub(crate) is_debit: bool,
    /// The instant of its refund. If that is not known, the end of time.
    pub(crate) refunded: Option<u64>,
}

/// A charge that a batch over several slots can have made before it was denied or failed, and given back.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) call: usize,
    pub(crate) bucket: Bucket,
    pub(crate) begun: u64,
    /// The instant until which it can be given back.
    pub(crate) until: u64,
    pub(crate) units: u32,
}

/// A request that a client was denied.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) call: usize,
    pub(crate) bucket: Bucket,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) cost: u32,
}

/// A permit, for work that has not ended.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bucket: Bucket,
    pub(crate) process: usize,
    pub(crate) permit: Permit,
}

impl Record {
    pub(crate) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    pub(crate) fn asked(&mut self, bucket: &Bucket, now: u64) {
        self.first.entry(bucket.clone()).or_insert(now);
    }

    /// Records a charge, and returns its index.
    pub(crate) fn charged(&mut self, bucket: &Bucket, charge: Charge) -> usize {
        let charges = self.charges.entry(bucket.clone()).or_default();
        charges.push(charge);
        charges.len() - 1
    }

    pub(crate) fn charge(&mut self, bucket: &Bucket, place: usize) -> &mut Charge {
        &mut self.charges.get_mut(bucket).expect("it was charged")[place]
    }

    /// Records that work of a bucket no longer waits.
    pub(crate) fn enters(&mut self, bucket: &Bucket) {
        let place = self.entering.iter().position(|other| other == bucket);
        self.entering.swap_remove(place.expect("it has waited"));
    }

    pub(crate) fn hold(&mut self, held: Held) -> u64 {
        let number = self
            .permits
            .last_key_value()
            .map_or(0, |(last, _)| last + 1);
        self.permits.insert(number, held);
        number
    }

    /// Returns how many permits of a bucket count.
    pub(crate) fn held(&self, bucket: &Bucket) -> usize {
        let held = self.permits.values();
        let held = held.filter(|held| held.bucket == *bucket && held.permit.is_held());
        held.count()
    }
}
