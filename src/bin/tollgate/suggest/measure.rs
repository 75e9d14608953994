//! Measures what all clients need.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    hash::BuildHasherDefault,
};

use ahash::AHasher;

use super::{
    demand::{ALL, Demand},
    spool::Spool,
};
use crate::{busiest::KEPT, failure::Failure};

/// The most clients that one pass looks at, on average. Each takes 1 KiB.
const CLIENTS_PER_PASS: u64 = 100_000;

/// The most requests that one pass looks at, on average. Windows remember up to 8 bytes of each.
const REQUESTS_PER_PASS: u64 = 20_000_000;

/// What the clients need.
pub(crate) struct Measured {
    pub(crate) clients: u64,
    pub(crate) requests: u64,
    /// The instants of the first and the last request.
    pub(crate) span: (u64, u64),
    /// For each candidate, the largest needs and their clients, the largest first.
    pub(crate) tops: Vec<Vec<(u64, u64)>>,
}

impl Measured {
    /// What the client in this place needs, or 0 if there are fewer clients.
    pub(crate) fn need(&self, candidate: usize, place: usize) -> u64 {
        let top = self.tops[candidate].get(place);
        top.map_or(0, |(need, _)| *need)
    }

    /// The most clients that may be denied. If some clients have been dropped, the last one that was kept is the first that
    /// must not be denied.
    pub(super) fn most_denied(&self) -> u64 {
        let kept = self.tops[0].len() as u64;
        match kept < self.clients {
            true => kept - 1,
            false => self.clients,
        }
    }

    /// The time from the first to the last request, in microseconds.
    pub(super) fn length(&self) -> u64 {
        self.span.1 - self.span.0
    }
}

/// Measures the needs of all clients, which are about `clients`, and keeps the largest needs: `kept` for each candidate.
pub(super) fn measure(spool: &mut Spool, clients: u64, kept: u64) -> Result<Measured, Failure> {
    let by_clients = clients.div_ceil(CLIENTS_PER_PASS);
    let by_requests = spool.len().div_ceil(REQUESTS_PER_PASS);
    let passes = by_clients.max(by_requests).max(1);
    let kept = usize::try_from(kept).map_or(KEPT, |kept| kept.min(KEPT));
    let mut tops: Vec<_> = (0..ALL).map(|_| Tops::new(kept)).collect();
    let mut measured = Measured {
        clients: 0,
        requests: spool.len(),
        span: (u64::MAX, 0),
        tops: Vec::new(),
    };
    for pass in 0..passes {
        let mut demands = HashMap::<u64, Demand, BuildHasherDefault<AHasher>>::default();
        spool.visit(|at, client| {
            let (first, last) = measured.span;
            measured.span = (first.min(at), last.max(at));
            // The upper bits, because maps use the lower ones.
            if (client >> 20) % passes == pass {
                demands.entry(client).or_default().add(at);
            }
        })?;
        measured.clients += demands.len() as u64;
        for (client, demand) in demands {
            let needs = demand.needs();
            let each = tops.iter_mut().zip(needs);
            each.for_each(|(top, need)| top.add(need, client));
        }
    }
    measured.span.0 = measured.span.0.min(measured.span.1);
    measured.tops = tops.into_iter().map(Tops::sorted).collect();
    Ok(measured)
}

/// A number of clients with the largest needs.
struct Tops {
    kept: usize,
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Tops {
    fn new(kept: usize) -> Self {
        let heap = BinaryHeap::new();
        Self { kept, heap }
    }

    fn add(&mut self, need: u64, client: u64) {
        if self.heap.len() < self.kept {
            self.heap.push(Reverse((need, client)));
        } else if let Some(mut least) = self.heap.peek_mut()
            && least.0.0 < need
        {
            *least = Reverse((need, client));
        }
    }

    /// The needs and their clients, the largest first.
    fn sorted(self) -> Vec<(u64, u64)> {
        let sorted = self.heap.into_sorted_vec();
        sorted.into_iter().map(|Reverse(top)| top).collect()
    }
}
