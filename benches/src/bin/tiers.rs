//! Prints the cost of a decision by burst tiers, a window or a quota in memory, next to one by GCRA, and the memory of
//! a bucket with tiers.
//!
//! `tiers`, or `tiers memory [limit] [buckets]` for the memory of buckets with one sliding tier of this limit.

use std::{
    env, hint,
    time::{Duration, Instant},
};

use tollgate::{
    Limit, Limits, MemoryBackend,
    backend::{
        Backend,
        custom::{Answer, Batch, Member, Operation},
    },
    clock::Timestamp,
    quota::Per,
    tiers::Tier,
    transaction::Mode,
};
use tollgate_benches::penalties;
use tollgate_peers::{client, resident_kib};

/// The sides take turns.
const TURNS: usize = 15;
const DECISIONS: u32 = 200_000;
const CLIENTS: u32 = 10_000;
const START: u64 = 1_767_225_600_000_000;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let number = |place: usize, default: u32| {
        let number = arguments
            .get(place)
            .map_or(Ok(default), |text| text.parse());
        number.expect("limit and buckets are numbers")
    };
    match arguments.first().map(String::as_str) {
        None => {
            beside_gcra();
            by_limit();
        }
        Some("memory") => memory(number(1, 5), number(2, 200_000)),
        Some(other) => panic!("`{other}` is not `memory`"),
    }
}

/// A backend, a limit and an instant.
struct Side {
    backend: MemoryBackend,
    limits: Limits,
    now: u64,
}

impl Side {
    fn new(limit: Limit) -> Self {
        let limits = Limits::builder().limit("tiers", limit).build();
        Self {
            backend: MemoryBackend::new(),
            limits: limits.expect("the limit is right"),
            now: START,
        }
    }

    fn spend(&self, id: &str) -> bool {
        let tiers = self.limits.get("tiers").expect("it has this limit");
        let member = [Member::new(tiers, id, 1, Mode::CheckAndSpend)];
        let batch =
            Batch::new(Operation::Spend, &member).at(Some(Timestamp::from_micros(self.now)));
        let mut answers = [Answer::default()];
        let decided = self.backend.try_apply(&batch, &mut answers);
        decided.and_then(Result::ok).expect("memory does not wait");
        answers[0].passed
    }
}

/// Decisions by GCRA and by tiers, on the same clients at the same instants.
fn beside_gcra() {
    let ids: Vec<_> = (0..CLIENTS).map(|n| client(n).to_string()).collect();
    for (what, ids, step) in [
        ("allowed, 10,000 clients in turn", &ids[..], 50),
        ("allowed, one client", &ids[..1], 250_000),
        ("denied, one client", &ids[..1], 0),
    ] {
        // Both have the same size. Where no unit comes back, all requests are denied.
        let quota = if step == 0 { 55 } else { u32::MAX };
        let mut sides = [
            Side::new(Limit::per_second(5).burst(55)),
            Side::new(penalties()),
            Side::new(Limit::window(5, Duration::from_secs(1))),
            Side::new(Limit::quota(quota, Per::Month)),
        ];
        let [gcra, others @ ..] = compare(&mut sides, |side| {
            for n in 0..DECISIONS {
                side.now += step;
                hint::black_box(side.spend(&ids[(n as usize) % ids.len()]));
            }
        });
        println!("{what}: GCRA {gcra:.0} ns");
        for (kind, took) in ["tiers", "window of 5", "monthly quota"].iter().zip(others) {
            println!(
                "  {kind}: {took:.0} ns, which is {:.2} times as much",
                took / gcra
            );
        }
    }
}

/// A sliding tier and a window with room for one unit only: each grant follows a unit that leaves.
fn by_limit() {
    for limit in [5, 50, 500, 4096] {
        let window = Duration::from_micros(u64::from(limit) - 1);
        let tier = Limit::tiers([Tier::new(limit, window)]).expect("it is a tier");
        let window = Limit::window(limit, Duration::from_micros(u64::from(limit)));
        let mut sides = [Side::new(tier), Side::new(window)];
        let [tier, window] = compare(&mut sides, |side| {
            for _ in 0..DECISIONS {
                side.now += 1;
                assert!(side.spend("client"), "one has left");
            }
        });
        println!("sliding, limit {limit}: tier {tier:.0} ns, window {window:.0} ns");
    }
}

/// Returns the median time of a decision by each side, in nanoseconds.
fn compare<const SIDES: usize>(sides: &mut [Side; SIDES], run: impl Fn(&mut Side)) -> [f64; SIDES] {
    let mut times = [const { Vec::new() }; SIDES];
    for _ in 0..TURNS {
        for (side, times) in sides.iter_mut().zip(&mut times) {
            let begun = Instant::now();
            run(side);
            times.push(begun.elapsed().as_secs_f64() * 1e9 / f64::from(DECISIONS));
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// Creates buckets that have granted all their units.
fn memory(limit: u32, buckets: u32) {
    let before = resident_kib();
    let tier = Limit::tiers([Tier::new(limit, Duration::from_secs(86_400))]);
    let side = Side {
        backend: MemoryBackend::with_max_buckets(usize::MAX >> 8),
        ..Side::new(tier.expect("it is a tier"))
    };
    for n in 0..buckets {
        let id = client(n).to_string();
        (0..limit).for_each(|_| assert!(side.spend(&id), "a new client is allowed"));
    }
    let bytes = (resident_kib() - before) * 1024 / side.backend.stats().buckets.unwrap_or(1) as u64;
    println!("sliding, limit {limit}: {bytes} bytes for a bucket");
}
