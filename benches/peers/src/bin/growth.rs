//! Fills tables with live buckets one after another, and prints how long single decisions took. A table that grows all
//! at once makes one of its clients wait. Measures the wall-clock time and the thread's processor time, which excludes
//! other programs.
//!
//! `growth [tollgate | governor | clock] [buckets]`. `clock` makes no decisions, so it shows how long the machine
//! itself keeps a thread waiting.

use std::{env, fmt::Write, time::Instant};

use rustix::time::{ClockId, clock_gettime};
use tollgate::MemoryBackend;
use tollgate::backend::Backend;
use tollgate_peers::{LIMIT, Rate, client, spend};

fn main() {
    let mut args = env::args().skip(1);
    let subject = args.next().unwrap_or_else(|| "tollgate".into());
    let buckets = args.next().map_or(Ok(10_000_000), |n| n.parse());
    let buckets: u32 = buckets.expect("the second argument is how many buckets");
    let times = match &*subject {
        "tollgate" => tollgate(buckets),
        "governor" => {
            let governor = Rate::ONCE.governor();
            measure(buckets, |n| governor.check_key(&client(n)).is_ok())
        }
        "clock" => measure(buckets, |_| true),
        other => panic!("`{other}` is not one of tollgate, governor and clock"),
    };
    report(&subject, times);
}

fn tollgate(buckets: u32) -> Times {
    let backend = MemoryBackend::with_max_buckets(buckets as usize);
    let limits = Rate::ONCE.limits();
    let limit = limits.get(LIMIT).expect("it has this limit");
    let mut id = String::new();
    let times = measure(buckets, |n| {
        id.clear();
        let _ = write!(id, "{n}");
        spend(&backend, limit, &id)
    });
    println!(
        "tollgate holds {} buckets",
        Backend::stats(&backend).buckets.unwrap_or(0)
    );
    times
}

/// The durations of decisions, in nanoseconds.
struct Times {
    wall: Vec<i64>,
    processor: Vec<i64>,
}

fn measure(buckets: u32, mut decide: impl FnMut(u32) -> bool) -> Times {
    let (mut wall, mut processor) = (vec![1; buckets as usize], vec![1; buckets as usize]);
    for (n, (wall, processor)) in (0..).zip(wall.iter_mut().zip(&mut processor)) {
        let (spent, begun) = (spent(), Instant::now());
        assert!(decide(n), "a new client is allowed");
        *wall = i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX);
        *processor = self::spent() - spent;
    }
    Times { wall, processor }
}

/// Returns the processor time of this thread, in nanoseconds.
fn spent() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn report(subject: &str, times: Times) {
    for (what, mut times) in [("wall", times.wall), ("processor", times.processor)] {
        times.sort_unstable();
        let [median, p99, p9999, longest] = [5_000, 9_900, 9_999, 10_000]
            .map(|parts| times[(times.len() - 1) * parts / 10_000])
            .map(|ns| format!("{}.{:03} us", ns / 1000, ns % 1000));
        println!(
            "{subject}, {what}: median {median}, p99 {p99}, p99.99 {p9999}, longest {longest}"
        );
    }
}
