//! What callers have seen.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tollgate::decision::Source;

use crate::ledger::Bucket;

/// Units that a caller was granted.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    /// When its call began.
    pub(crate) begun: u64,
    /// When it was decided, in the time of the simulation.
    pub(crate) at: u64,
    /// The last instant at which the store can have charged it, if it was in a batch over several servers.
    pub(crate) until: u64,
    pub(crate) process: usize,
    pub(crate) source: Source,
    pub(crate) units: u32,
    /// Units that were refunded by receipt, and when that was last.
    pub(crate) refunded: u32,
    pub(crate) refunded_at: u64,
    /// Units whose refund has not ended, or has ended with an unknown outcome.
    pub(crate) refunding: u32,
    /// Whether it was charged whatever was left.
    pub(crate) is_debit: bool,
    pub(crate) owed: Owed,
}

/// Whether the store is owed a local decision: it is not if it may have charged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owed {
    Certainly,
    Never,
    /// Nobody knows. Neither is a decision of the store owed.
    Perhaps,
}

/// Who decided a call of a process, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    By(Source),
    /// An error, since no one decided.
    Nobody,
}

/// A request without an id, and what its other charges are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BadRequest {
    pub(crate) begun: u64,
    pub(crate) ended: u64,
    pub(crate) units: u32,
}

/// Permits that somebody has taken.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    pub(crate) bucket: Bucket,
    pub(crate) process: usize,
    pub(crate) source: Source,
    pub(crate) permits: u32,
    /// When they were granted, and the last time that they were said to be held.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// When it was first noticed that they were lost.
    pub(crate) lost: Option<u64>,
}

impl Admission {
    /// The units that were certainly granted and not refunded.
    pub(crate) fn kept(&self) -> u32 {
        self.units - self.refunded - self.refunding
    }
}

#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) admissions: HashMap<Bucket, Vec<Admission>>,
    /// Units that were refunded without a receipt, and when.
    pub(crate) refunds: HashMap<Bucket, Vec<(u64, u32)>>,
    /// Units that may have been charged to nobody: their calls were dropped, or ended with an unknown outcome.
    pub(crate) unknown: HashMap<Bucket, u64>,
    /// Requests without an id, which are charged if that takes no wait.
    pub(crate) bad: HashMap<Bucket, Vec<BadRequest>>,
    /// Units to which handlers have settled, one after the other. A settlement can go on in a task of its own.
    pub(crate) settled: HashMap<Bucket, u64>,
    /// Calls that have not ended, and their units.
    pub(crate) open: HashMap<u64, Vec<(Bucket, u32)>>,
    /// For each process and each server, who decided about its buckets, in order of time.
    pub(crate) decided: HashMap<(usize, usize), Vec<(u64, Decided)>>,
    /// Permits, and how long those who have taken them have believed to have them.
    pub(crate) beliefs: Vec<Belief>,
    pub(crate) problems: Vec<String>,
    pub(crate) calls: u64,
}

pub(crate) type SharedRecord = Arc<Mutex<Record>>;

impl Record {
    pub(crate) fn begin(&mut self, units: Vec<(Bucket, u32)>) -> u64 {
        self.calls += 1;
        self.open.insert(self.calls, units);
        self.calls
    }

    /// Ends a call. If its outcome is not known, its units may have been charged.
    pub(crate) fn end(&mut self, call: u64, is_known: bool) {
        let units = self.open.remove(&call).unwrap_or_default();
        if !is_known {
            for (bucket, units) in units {
                *self.unknown.entry(bucket).or_default() += u64::from(units);
            }
        }
    }

    /// Counts a request that was refused because an id was missing.
    pub(crate) fn bad(&mut self, units: Vec<(Bucket, u32)>, (begun, ended): (u64, u64)) {
        for (bucket, units) in units {
            let bad = self.bad.entry(bucket).or_default();
            bad.push(BadRequest {
                begun,
                ended,
                units,
            });
        }
    }

    /// Returns an admission, by its place among those of its bucket.
    pub(crate) fn admission(&mut self, bucket: Bucket, place: usize) -> &mut Admission {
        &mut self.admissions.entry(bucket).or_default()[place]
    }

    /// Counts the calls that never ended as unknown.
    pub(crate) fn close(&mut self) {
        let open: Vec<_> = self.open.keys().copied().collect();
        for call in open {
            self.end(call, false);
        }
    }

    /// Records who has decided about buckets of some servers. A batch is decided without all of its servers if one of them
    /// does not answer.
    pub(crate) fn decided(&mut self, process: usize, servers: &[usize], at: u64, by: Decided) {
        let is_known = by == Decided::By(Source::Store) || servers.len() == 1;
        for server in servers.iter().filter(|_| is_known) {
            let decided = self.decided.entry((process, *server)).or_default();
            decided.push((at, by));
        }
    }

    pub(crate) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }
}
