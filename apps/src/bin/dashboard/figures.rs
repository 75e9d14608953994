//! All figures of the page at one instant.

use serde::Serialize;
use tollgate::limit::NamedLimit;

use crate::{
    counters::{Calls, Tally},
    denied::{Denied, Ids},
    routes::Sources,
};

/// The number of clients to show.
const CLIENTS: usize = 15;

#[derive(Serialize)]
pub(crate) struct Figures {
    limits: Vec<LimitFigures>,
    denied: Vec<Denied>,
    store: StoreFigures,
    /// The number of requests that wait in line.
    waiting: f64,
}

#[derive(Serialize)]
struct LimitFigures {
    name: String,
    /// The default in one line, if there is one.
    summary: Option<String>,
    overrides: usize,
    shadow: bool,
    #[serde(flatten)]
    tally: Tally,
    /// Allowed and denied requests of each second, oldest first.
    seconds: Vec<[u64; 2]>,
}

#[derive(Serialize)]
struct StoreFigures {
    /// Whether the breaker is open; `None` if the buckets are in this process.
    is_open: Option<bool>,
    /// The buckets in this process. With a store, these are the buckets for outages.
    buckets: Option<usize>,
    max_buckets: Option<usize>,
    evictions: Option<u64>,
    #[serde(flatten)]
    calls: Calls,
}

impl Figures {
    pub(crate) fn now(sources: &Sources, ids: Ids) -> Self {
        let limits = sources.limiter.limits();
        let tallies = sources.counters.tallies();
        let mut named: Vec<_> = limits.iter().collect();
        named.sort_unstable_by_key(|named| named.name());
        let of = |named: &NamedLimit| {
            let name = named.name();
            LimitFigures {
                summary: if named.is_block() {
                    named
                        .description()
                        .map(|reason| format!("blocked: {reason}"))
                } else {
                    named.limit().map(|limit| format!("{limit:#}"))
                },
                overrides: named.overrides().len(),
                shadow: named.is_shadow(),
                tally: tallies.get(name).copied().unwrap_or_default(),
                seconds: sources.history.of(name),
                name: name.to_owned(),
            }
        };
        let stats = sources.limiter.stats();
        Self {
            limits: named.into_iter().map(of).collect(),
            denied: sources.denied.most(CLIENTS, ids),
            store: StoreFigures {
                is_open: stats.is_open,
                buckets: stats.buckets,
                max_buckets: stats.max_buckets,
                evictions: stats.evictions,
                calls: sources.counters.calls(),
            },
            waiting: sources.counters.waiting(),
        }
    }
}
