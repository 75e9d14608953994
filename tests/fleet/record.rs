//! A record of the answers to the callers of a fleet.

use std::collections::BTreeMap;

use tollgate::{decision::Source, limiter::Permit};

use crate::plan::{Ask, Bucket};

#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The number of calls and works.
    calls: usize,
    pub(crate) asks: Vec<AskRecord>,
    /// Resets, from when they were sent until they were answered.
    pub(crate) resets: Vec<(Bucket, (u64, u64))>,
    pub(crate) workers: BTreeMap<usize, Worker>,
    /// Processes that have started again, and when.
    pub(crate) restarts: Vec<(u64, usize)>,
    pub(crate) problems: Vec<String>,
}

/// A question of a call to one bucket, and the answer.
#[derive(Debug)]
pub(crate) struct AskRecord {
    pub(crate) call: usize,
    pub(crate) process: usize,
    pub(crate) ask: Ask,
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    /// Who has granted the units, if somebody has.
    pub(crate) granted_by: Option<Source>,
    pub(crate) is_denied: bool,
    /// When the units were refunded. If that is not known, the end of time.
    pub(crate) refunded: Option<u64>,
    /// A batch over several slots that is denied or fails may have charged the units, and gives them back until this time.
    pub(crate) tried_until: Option<u64>,
}

/// Somebody who needs a permit: waits for it, then has it, and then has left.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) bucket: Bucket,
    pub(crate) process: usize,
    pub(crate) permit: Option<Permit>,
    pub(crate) left_at: Option<u64>,
}

impl Record {
    /// Returns a number for a call or work.
    pub(crate) fn number(&mut self) -> usize {
        self.calls += 1;
        self.calls
    }

    /// Returns how many permits of a bucket count.
    pub(crate) fn held(&self, bucket: Bucket) -> usize {
        let workers = self.workers.values().filter(|one| one.bucket == bucket);
        let permits = workers.filter_map(|worker| worker.permit.as_ref());
        permits.filter(|permit| permit.is_held()).count()
    }
}
