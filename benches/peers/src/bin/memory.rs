//! Prints the resident memory of a live bucket.
//!
//! `memory [tollgate | tollgate-long | governor] [buckets]`. Run each in its own process, because an allocator that has
//! been used before distorts the figures. `tollgate-long` has ids of 200 bytes.

use std::env;

use tollgate::MemoryBackend;
use tollgate::backend::Backend;
use tollgate_peers::{LIMIT, Rate, client, resident_kib, spend};

fn main() {
    let mut args = env::args().skip(1);
    let subject = args.next().unwrap_or_else(|| "tollgate".into());
    let buckets = args.next().map_or(Ok(10_000_000), |n| n.parse());
    let buckets: u32 = buckets.expect("the second argument is how many buckets");
    let before = resident_kib();
    let (held, after) = match &*subject {
        "tollgate" => tollgate(buckets, |n| client(n).to_string()),
        "tollgate-long" => tollgate(buckets, |n| format!("{n:0200}")),
        "governor" => governor(buckets),
        other => panic!("`{other}` is not one of tollgate, tollgate-long and governor"),
    };
    let bytes = (after - before) * 1024;
    let tenths = bytes * 10 / held;
    println!(
        "{subject}: {held} buckets, {} MiB, {}.{} bytes per bucket",
        bytes >> 20,
        tenths / 10,
        tenths % 10
    );
}

/// Prints the number of buckets, and the resident memory with them.
fn tollgate(buckets: u32, id: impl Fn(u32) -> String) -> (u64, u64) {
    let backend = MemoryBackend::with_max_buckets(buckets as usize);
    let limits = Rate::ONCE.limits();
    let limit = limits.get(LIMIT).expect("it has this limit");
    for n in 0..buckets {
        assert!(spend(&backend, limit, &id(n)), "a new client is allowed");
    }
    (
        Backend::stats(&backend).buckets.unwrap_or(0) as u64,
        resident_kib(),
    )
}

fn governor(buckets: u32) -> (u64, u64) {
    let governor = Rate::ONCE.governor();
    for n in 0..buckets {
        let decision = governor.check_key(&client(n));
        assert!(decision.is_ok(), "a new client is allowed");
    }
    (governor.len() as u64, resident_kib())
}
