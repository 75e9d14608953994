//! All callers at once: calls per second, and the slowest calls.

use std::{sync::Arc, time::Duration};

use rustix::time::{ClockId, clock_gettime};

use crate::{
    callers::CALLERS,
    sides::{KEYS, Side, Sides},
    statistics::{median, percentile, ratio},
};

/// The number of turns of each side, and the number of calls in a turn.
pub(crate) const TURNS: usize = 11;
pub(crate) const CALLS: u32 = 20_000;

const SIDES: [Side; 10] = [
    Side::Get,
    Side::Plain,
    Side::Tollgate,
    Side::Wrapped,
    Side::Hot,
    Side::Tiers,
    Side::Window,
    Side::Quota,
    Side::Permit,
    Side::Four,
];

/// The rates of a side in its turns, and the processor time for a call of the server and of this process, in
/// microseconds.
#[derive(Default)]
struct Turns {
    rates: Vec<f64>,
    server: Vec<f64>,
    client: Vec<f64>,
}

/// Measures the sides of these names, or all, and returns the number of `GET`s per second.
pub(crate) async fn throughput(sides: &Arc<Sides>, names: &[String]) -> f64 {
    let is_meant = |side: &Side| names.is_empty() || names.contains(&format!("{side:?}"));
    let meant: Vec<_> = SIDES.into_iter().filter(is_meant).collect();
    let mut turns: Vec<_> = meant.iter().map(|_| Turns::default()).collect();
    for turn in 0..TURNS {
        // Every other round is in the reverse order, so that no side always follows the same one.
        for place in 0..meant.len() {
            let place = match turn % 2 {
                0 => place,
                _ => meant.len() - 1 - place,
            };
            let (before, own) = (sides.server_time().await, own_time());
            let rate = sides.rate(meant[place], CALLS).await;
            let client = (own_time() - own) / f64::from(CALLS);
            let server = (sides.server_time().await - before) / f64::from(CALLS);
            turns[place].rates.push(rate);
            turns[place].server.push(server);
            turns[place].client.push(client);
        }
    }
    report(&meant, &turns);
    of(Side::Get, &meant, &turns).map_or(0.0, |get| median(&get.rates))
}

fn of<'a>(side: Side, meant: &[Side], turns: &'a [Turns]) -> Option<&'a Turns> {
    let mut sides = meant.iter().zip(turns);
    sides.find_map(|(other, turns)| (*other == side).then_some(turns))
}

fn report(meant: &[Side], all: &[Turns]) {
    println!("{CALLERS} callers, {KEYS} keys:");
    for (side, turns) in meant.iter().zip(all) {
        let to = |side| of(side, meant, all).map_or(f64::NAN, |to| ratio(&turns.rates, &to.rates));
        println!(
            "  {side:?}: {:.0} calls per second, {:.2} of GET, {:.3} of Tollgate; processor time for a call: server {:.2} us, client {:.2} us",
            median(&turns.rates),
            to(Side::Get),
            to(Side::Tollgate),
            median(&turns.server),
            median(&turns.client),
        );
    }
    println!(
        "  (Hot: ten keys; Four: four limits in a batch; the ratios are medians of {TURNS} turns)"
    );
    if let Some(hot) = of(Side::Hot, meant, all) {
        println!(
            "  on ten hot keys, the server alone could decide {:.0} times per second",
            1e6 / median(&hot.server)
        );
    }
}

/// Returns the processor time that this process has used, in microseconds.
pub(crate) fn own_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// The slowest calls.
pub(crate) async fn tail(sides: &Arc<Sides>) {
    const SIDES: [Side; 2] = [Side::Get, Side::Tollgate];
    let mut p99 = [const { Vec::new() }; SIDES.len()];
    for turn in 0..TURNS {
        for place in 0..SIDES.len() {
            let place = (place + turn) % SIDES.len();
            let durations = sides.durations(SIDES[place], CALLS).await;
            p99[place].push(percentile(durations, 99));
        }
    }
    let [get, grouped] = &p99;
    println!("{CALLERS} callers, p99 in microseconds:");
    println!(
        "  GET {:.0}, tollgate {:.0}, which is {:.2} times as long",
        median(get),
        median(grouped),
        ratio(grouped, get)
    );
}
