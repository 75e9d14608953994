//! Measures what all clients need: for each candidate, the smallest size with which a client is never denied.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use anyhow::{Result, ensure};

use super::candidates::{CANDIDATES, Candidate, Kind};
use crate::clients::{hash, kept};

/// The most clients of a log.
const MOST_CLIENTS: usize = 1_000_000;

/// The most requests of a log. Each takes 16 bytes.
const MOST_REQUESTS: usize = 50_000_000;

/// The requests of a log in memory. Clients are numbered.
#[derive(Default)]
pub(super) struct Traffic {
    /// The number of each client, by the hash of its id.
    numbers: HashMap<u64, usize>,
    ids: Vec<String>,
    /// The client and the instant of each request.
    requests: Vec<(usize, u64)>,
}

impl Traffic {
    pub(super) fn add(&mut self, id: &str, at: u64) -> Result<()> {
        let next = self.ids.len();
        let client = *self.numbers.entry(hash(id)).or_insert(next);
        if client == next {
            self.ids.push(kept(id));
        }
        self.requests.push((client, at));
        ensure!(
            client < MOST_CLIENTS && self.requests.len() <= MOST_REQUESTS,
            "the log has more than a million clients or 50 million requests: pass a part of it, such as one day"
        );
        Ok(())
    }

    /// Sorts the requests by client, and those of a client by time.
    pub(super) fn sort(&mut self) {
        self.requests.sort_unstable();
    }

    pub(super) fn clients(&self) -> u64 {
        self.ids.len() as u64
    }

    pub(super) fn id(&self, client: usize) -> &str {
        &self.ids[client]
    }

    /// The requests of a client, once all are sorted.
    pub(super) fn of(&self, client: usize) -> impl Iterator<Item = u64> {
        let start = self.requests.partition_point(|(other, _)| *other < client);
        let requests = self.requests[start..].iter();
        let own = requests.take_while(move |(other, _)| *other == client);
        own.map(|(_, at)| *at)
    }
}

/// What the clients need.
pub(super) struct Measured {
    pub(super) clients: u64,
    pub(super) requests: u64,
    /// The instants of the first and the last request.
    pub(super) span: (u64, u64),
    /// For each candidate, the largest needs and their clients, the largest first.
    pub(super) tops: Vec<Vec<(u64, usize)>>,
}

impl Measured {
    /// What the client in this place needs, or 0 if there are fewer clients.
    pub(super) fn need(&self, candidate: usize, place: usize) -> u64 {
        let top = self.tops[candidate].get(place);
        top.map_or(0, |(need, _)| *need)
    }

    /// The time from the first to the last request, in microseconds.
    pub(super) fn length(&self) -> u64 {
        self.span.1 - self.span.0
    }
}

/// Measures the needs of all clients, and keeps the largest: this many for each candidate.
pub(super) fn measure(traffic: &Traffic, kept: usize) -> Measured {
    let mut tops: Vec<_> = CANDIDATES.iter().map(|_| Tops::new()).collect();
    for client in 0..traffic.ids.len() {
        let times: Vec<_> = traffic.of(client).collect();
        for (top, candidate) in tops.iter_mut().zip(CANDIDATES.iter()) {
            add(top, kept, (need(candidate, &times), client));
        }
    }
    let sorted = |top: Tops| top.into_sorted_vec().into_iter().map(|Reverse(top)| top);
    let times = || traffic.requests.iter().map(|(_, at)| *at);
    Measured {
        clients: traffic.clients(),
        requests: traffic.requests.len() as u64,
        span: (
            times().min().unwrap_or_default(),
            times().max().unwrap_or_default(),
        ),
        tops: tops.into_iter().map(|top| sorted(top).collect()).collect(),
    }
}

/// The largest needs, with their clients.
type Tops = BinaryHeap<Reverse<(u64, usize)>>;

fn add(tops: &mut Tops, kept: usize, top: (u64, usize)) {
    if tops.len() < kept {
        tops.push(Reverse(top));
    } else if let Some(mut least) = tops.peek_mut()
        && least.0.0 < top.0
    {
        *least = Reverse(top);
    }
}

/// The smallest size with which a client is never denied that makes requests at these times.
fn need(candidate: &Candidate, times: &[u64]) -> u64 {
    match candidate.kind {
        Kind::Gcra => {
            // How far the bucket is from full, in microseconds × count.
            let (mut debt, mut most, mut last) = (0_u64, 0, 0);
            for at in times {
                let back = (at - last).saturating_mul(candidate.count);
                debt = debt.saturating_sub(back).saturating_add(candidate.us);
                (most, last) = (debt.max(most), *at);
            }
            most.div_ceil(candidate.us)
        }
        Kind::Window => {
            let mut first = 0;
            let seen = times.iter().enumerate().map(|(place, at)| {
                while times[first] + candidate.us <= *at {
                    first += 1;
                }
                place + 1 - first
            });
            seen.max().unwrap_or_default() as u64
        }
        Kind::Quota => {
            let periods =
                times.chunk_by(|one, next| candidate.period(*one) == candidate.period(*next));
            periods.map(<[_]>::len).max().unwrap_or_default() as u64
        }
    }
}
