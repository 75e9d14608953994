//! One caller.

use std::time::Instant;

use crate::{
    sides::{Side, Sides},
    statistics::{median, ratio},
    throughput::TURNS,
};

/// The calls of each side in a turn.
const CALLS: u32 = 500;

const SIDES: [Side; 8] = [
    Side::Get,
    Side::Plain,
    Side::Tollgate,
    Side::Apart,
    Side::Wrapped,
    Side::Tiers,
    Side::Window,
    Side::Quota,
];

/// The median time of one caller. The sides alternate with each call.
pub(crate) async fn latency(sides: &Sides) {
    let mut p50 = [const { Vec::new() }; SIDES.len()];
    for turn in 0..TURNS as u32 {
        let mut durations = [const { Vec::new() }; SIDES.len()];
        for call in 0..CALLS {
            for (side, durations) in SIDES.into_iter().zip(&mut durations) {
                let begun = Instant::now();
                sides.call(side, turn * CALLS + call).await;
                durations.push(begun.elapsed().as_secs_f64() * 1e6);
            }
        }
        for (p50, durations) in p50.iter_mut().zip(&durations) {
            p50.push(median(durations));
        }
    }
    let [get, _, tollgate, ..] = &p50;
    println!("one caller, p50 in microseconds:");
    for (side, p50) in SIDES.iter().zip(&p50) {
        println!(
            "  {side:?}: {:.0}, {:.2} of GET, {:.2} of Tollgate",
            median(p50),
            ratio(p50, get),
            ratio(p50, tollgate)
        );
    }
    println!("  (Apart is without grouping)");
}
