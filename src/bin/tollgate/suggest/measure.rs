//! Measures what all clients need: for each candidate, the smallest size with which a client is never denied.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    fs::File,
    hash::BuildHasherDefault,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
};

use ahash::AHasher;
use anyhow::{Context, Result};

use super::candidates::{ALL, CANDIDATES, Kind, WINDOW_UNITS};
use crate::clients::KEPT;

/// The most clients that one pass looks at, on average. Each takes 1 KiB.
const CLIENTS_PER_PASS: u64 = 100_000;

/// The most requests that one pass looks at, on average. Windows remember up to 8 bytes of each.
const REQUESTS_PER_PASS: u64 = 20_000_000;

/// The most requests that a window can admit, and one more, which shows that no window is large enough.
const REMEMBERED: u64 = WINDOW_UNITS + 1;

/// What the clients need.
pub(super) struct Measured {
    pub(super) clients: u64,
    pub(super) requests: u64,
    /// The instants of the first and the last request.
    pub(super) span: (u64, u64),
    /// For each candidate, the largest needs and their clients, the largest first.
    pub(super) tops: Vec<Vec<(u64, u64)>>,
}

impl Measured {
    /// What the client in this place needs, or 0 if there are fewer clients.
    pub(super) fn need(&self, candidate: usize, place: usize) -> u64 {
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
pub(super) fn measure(spool: &mut Spool, clients: u64, kept: u64) -> Result<Measured> {
    let by_clients = clients.div_ceil(CLIENTS_PER_PASS);
    let by_requests = spool.len().div_ceil(REQUESTS_PER_PASS);
    let passes = by_clients.max(by_requests).max(1);
    let kept = usize::try_from(kept).map_or(KEPT, |kept| kept.min(KEPT));
    let mut tops: [Tops; ALL] = [(); ALL].map(|()| Tops::new());
    let (mut measured_clients, mut span) = (0, (u64::MAX, 0));
    for pass in 0..passes {
        let mut demands = HashMap::<u64, Demand, BuildHasherDefault<AHasher>>::default();
        spool.visit(|at, client| {
            span = (span.0.min(at), span.1.max(at));
            // The upper bits, because maps use the lower ones.
            if (client >> 20) % passes == pass {
                demands.entry(client).or_default().add(at);
            }
        })?;
        measured_clients += demands.len() as u64;
        for (client, demand) in demands {
            for (top, need) in tops.iter_mut().zip(demand.needs()) {
                add(top, kept, (need, client));
            }
        }
    }
    let sorted = |top: Tops| top.into_sorted_vec().into_iter().map(|Reverse(top)| top);
    Ok(Measured {
        clients: measured_clients,
        requests: spool.len(),
        span: (span.0.min(span.1), span.1),
        tops: tops.map(|top| sorted(top).collect()).into(),
    })
}

/// The largest needs, with their clients.
type Tops = BinaryHeap<Reverse<(u64, u64)>>;

fn add(tops: &mut Tops, kept: usize, top: (u64, u64)) {
    if tops.len() < kept {
        tops.push(Reverse(top));
    } else if let Some(mut least) = tops.peek_mut()
        && least.0.0 < top.0
    {
        *least = Reverse(top);
    }
}

/// The needs of a client so far. Requests are added in the order of their times.
struct Demand {
    last: u64,
    /// The instants of the last requests, as long as a window looks back at them.
    recent: VecDeque<u64>,
    /// Of a rate, how far the bucket is from full, in microseconds × count; of a window, how many of the recent requests it no
    /// longer looks back at; of a period, its requests so far.
    state: [u64; ALL],
    /// The most that was needed. Of a rate, it is in microseconds × count.
    most: [u64; ALL],
}

impl Default for Demand {
    fn default() -> Self {
        Self {
            last: 0,
            recent: VecDeque::new(),
            state: [0; ALL],
            most: [0; ALL],
        }
    }
}

impl Demand {
    fn add(&mut self, at: u64) {
        let last = self.last.min(at);
        self.last = at;
        self.recent.push_back(at);
        let recent = self.recent.len() as u64;
        for (place, candidate) in CANDIDATES.iter().enumerate() {
            let state = &mut self.state[place];
            let need = match candidate.kind {
                Kind::Gcra => {
                    let back = (at - last).saturating_mul(candidate.count);
                    *state = state.saturating_sub(back).saturating_add(candidate.us);
                    *state
                }
                Kind::Window => {
                    let seen = self
                        .recent
                        .iter()
                        .skip(usize::try_from(*state).unwrap_or(usize::MAX));
                    *state += seen.take_while(|then| **then + candidate.us <= at).count() as u64;
                    recent - *state
                }
                Kind::Quota => {
                    let is_new = candidate.period(at) != candidate.period(last);
                    *state = if is_new { 1 } else { *state + 1 };
                    *state
                }
            };
            self.most[place] = self.most[place].max(need);
        }
        self.forget();
    }

    /// Forgets the requests that no window looks back at.
    fn forget(&mut self) {
        let windows = || Kind::Window.candidates().map(|(place, _)| place);
        let unseen = windows()
            .map(|place| self.state[place])
            .min()
            .unwrap_or_default();
        let too_many = (self.recent.len() as u64 - unseen).saturating_sub(REMEMBERED - 1);
        let gone = unseen + too_many;
        self.recent
            .drain(..usize::try_from(gone).unwrap_or_default());
        for place in windows() {
            self.state[place] = self.state[place].saturating_sub(gone);
        }
    }

    /// For each candidate, the smallest size with which the client is never denied.
    fn needs(&self) -> impl Iterator<Item = u64> {
        let needs = CANDIDATES.iter().zip(self.most);
        needs.map(|(candidate, most)| match candidate.kind {
            // A bucket whose time of arrival is so far ahead of now needs a burst of ⌈it / period⌉ after a request.
            Kind::Gcra => most.div_ceil(candidate.us),
            Kind::Window | Kind::Quota => most,
        })
    }
}

/// The size of the buffers around the file.
const BUFFER: usize = 256 * 1024;

const REMEDY: &str = "cannot use a temporary file: set TMPDIR to a folder with room for 16 bytes per line of the log";

/// A temporary file without a name, which the system deletes when it is closed.
pub(super) struct Spool {
    file: BufWriter<File>,
    len: u64,
}

impl Spool {
    pub(super) fn create() -> Result<Self> {
        let file = tempfile::tempfile().context(REMEDY)?;
        let file = BufWriter::with_capacity(BUFFER, file);
        Ok(Self { file, len: 0 })
    }

    pub(super) fn push(&mut self, at: u64, client: u64) -> Result<()> {
        self.len += 1;
        let record = [at, client].map(u64::to_le_bytes);
        self.file.write_all(record.as_flattened()).context(REMEDY)
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Visits all requests, in the order of their times.
    pub(super) fn visit(&mut self, visit: impl FnMut(u64, u64)) -> Result<()> {
        self.try_visit(visit).context(REMEDY)
    }

    fn try_visit(&mut self, mut visit: impl FnMut(u64, u64)) -> io::Result<()> {
        self.file.flush()?;
        let file = self.file.get_mut();
        file.rewind()?;
        let mut reader = BufReader::with_capacity(BUFFER, file);
        let mut record = [[0; 8]; 2];
        for _ in 0..self.len {
            reader.read_exact(record.as_flattened_mut())?;
            let [at, client] = record.map(u64::from_le_bytes);
            visit(at, client);
        }
        Ok(())
    }
}
