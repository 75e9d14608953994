//! Patterns of requests to play.

use serde::Serialize;

/// One request at each instant, counted from the start.
#[derive(Debug, Serialize)]
pub(crate) struct Pattern {
    id: &'static str,
    name: &'static str,
    /// The instants, in milliseconds.
    at: Vec<u64>,
}

pub(crate) fn all() -> [Pattern; 4] {
    [
        Pattern {
            id: "steady",
            name: "Steady: 4 a second for 20 s",
            at: run(0, 80, 250),
        },
        Pattern {
            id: "busy",
            name: "Busy: 8 a second for 30 s",
            at: run(0, 240, 125),
        },
        Pattern {
            id: "bursts",
            name: "Bursts: 12 at a time, every 5 s",
            at: (0..7).flat_map(|burst| run(5000 * burst, 12, 80)).collect(),
        },
        Pattern {
            id: "nightly",
            name: "Nightly batch: 60 in 12 s, each 50 s",
            at: (0..2)
                .flat_map(|night| run(50_000 * night, 60, 200))
                .collect(),
        },
    ]
}

/// Returns this many requests, one every `step` milliseconds.
fn run(start: u64, requests: u64, step: u64) -> Vec<u64> {
    (0..requests).map(|nth| start + nth * step).collect()
}
