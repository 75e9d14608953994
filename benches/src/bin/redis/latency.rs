//! One caller.

use std::time::Instant;

use crate::{
    sides::{Side, Sides},
    statistics::{median, ratio},
    throughput::TURNS,
};

/// The calls of each side in a turn.
const CALLS: u32 = 500;

const SIDES: [Side; 7] = [
    Side::Get,
    Side::Plain,
    Side::Tollgate,
    Side::Wrapped,
    Side::Tiers,
    Side::Window,
    Side::Quota,
];

/// The strides of the rounds of calls. Each is coprime to the number of sides, so every round calls each side once.
const STRIDES: [usize; 4] = [1, 3, 5, 7];

/// The median time of one caller. The sides alternate with each call. A call benefits from what the previous one has
/// left in the caches of the processor and of the server, so over the rounds, each side follows the others equally often in
/// both directions.
pub(crate) async fn latency(sides: &Sides) {
    let mut p50 = [const { Vec::new() }; SIDES.len()];
    for turn in 0..TURNS as u32 {
        let mut durations = [const { Vec::new() }; SIDES.len()];
        for call in 0..CALLS {
            let round = call as usize;
            let stride = STRIDES[round % STRIDES.len()];
            for step in 0..SIDES.len() {
                let place = (round / STRIDES.len() + step * stride) % SIDES.len();
                let begun = Instant::now();
                sides.call(SIDES[place], turn * CALLS + call).await;
                durations[place].push(begun.elapsed().as_secs_f64() * 1e6);
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
}
