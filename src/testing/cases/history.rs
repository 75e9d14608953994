//! Random histories that several backends run side by side.

use std::{sync::Arc, time::Duration};

use crate::{
    backend::Backend,
    limit::{Limit, Limits},
    transaction::{Mode, Transaction},
};

pub use super::random::Random;
use super::{
    side_by_side::{self, ClockSteps, Plot, Step},
    world::World,
};

pub async fn random_histories_are_decided_as_by_a_map(world: World) {
    live_through(2000, 7, &[world.backend()], &world.id("")).await;
}

/// Runs this many random operations on the backends. Each backend must give the same answers as the map, to the
/// microsecond.
pub async fn live_through(operations: u32, seed: u64, backends: &[Arc<dyn Backend>], ids: &str) {
    let plot = Plot {
        limits: [generous(), strict()],
        second_in: 4,
        // Tokens take a few of these steps.
        pace: ClockSteps {
            ahead: [10, 1000, 20_000, 200_000],
            back: 500_000,
        },
        step: |random| match random.below(20) {
            0..12 => Some(Step::Spend),
            12..16 => Some(Step::Check),
            16..19 => Some(Step::Refund),
            _ => Some(Step::Reset),
        },
        batch,
    };
    // The ids of one test, for a backend that other tests use as well.
    let ids: Vec<_> = (1..=6).map(|id| format!("{ids}{id}")).collect();
    let mut random = Random(seed);
    let counts = side_by_side::live_through(plot, operations, &mut random, backends, &ids).await;
    let (allowed, denied) = (counts.allowed / 10, counts.denied / 10);
    let all = [allowed, denied, counts.errors, counts.steps_back];
    assert!(
        all.iter().all(|some| *some > operations / 100),
        "{counts:?}"
    );
}

const NAMES: [&str; 4] = ["a", "b", "c", "off"];

fn generous() -> Limits {
    Limits::builder()
        .limit("a", Limit::per_second(7).burst(20))
        .limit(
            "b",
            Limit::new(10, 3, Duration::from_micros(1_000_001)).unwrap(),
        )
        .limit("c", Limit::per_minute(1).burst(50))
        .name("off")
        .build()
        .unwrap()
}

/// Limits with other counts, so that stored fractions are converted. One limit is off.
fn strict() -> Limits {
    Limits::builder()
        .limit("a", Limit::per_second(3).burst(5))
        .limit(
            "b",
            Limit::new(6, 1_000_003, Duration::from_secs(86_400)).unwrap(),
        )
        .name("c")
        .name("off")
        .build()
        .unwrap()
}

fn batch<'a>(random: &mut Random, ids: &'a [String]) -> Vec<Transaction<'a>> {
    let mut batch = Vec::new();
    for _ in 0..1 + random.below(6) {
        let (name, id) = (
            NAMES[random.place(NAMES.len())],
            &ids[random.place(ids.len())],
        );
        let mode = match random.below(8) {
            0..4 => Mode::CheckAndSpend,
            4 => Mode::CheckOnly,
            5 | 6 => Mode::SpendOnly,
            _ => Mode::Debit,
        };
        let cost = match mode {
            Mode::Debit if random.below(2000) == 0 => u32::MAX,
            _ => random.cost(7),
        };
        batch.push(Transaction::new(name, id).cost(cost).mode(mode));
    }
    batch
}
