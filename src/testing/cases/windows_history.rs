//! Random histories of windows, quotas and token buckets: spends, debits, and refunds with and without a receipt, by a
//! clock that also steps back.

use std::{sync::Arc, time::Duration};

use super::{
    random::Random,
    side_by_side::{self, ClockSteps, Plot, Step},
    world::World,
};
use crate::{
    backend::Backend,
    limit::{Limit, Limits},
    quota::{Per, UtcOffset},
    transaction::{Mode, Transaction},
};

const NAMES: [&str; 9] = [
    "small", "wide", "large", "hour", "day", "week", "month", "trial", "gcra",
];

pub async fn random_windows_and_quotas_are_decided_as_by_a_map(world: World) {
    live_through(2000, 5, &[world.backend()], &world.id("")).await;
}

/// Runs this many random operations on the backends. Each backend must give the same answers as the map, to the
/// microsecond.
pub async fn live_through(operations: u32, seed: u64, backends: &[Arc<dyn Backend>], ids: &str) {
    let plot = Plot {
        limits: [limits(), limits()],
        second_in: 2,
        pace: ClockSteps {
            ahead: [1000, 100_000, 400_000, 3_600_000_000],
            back: 700_000,
        },
        step: |random| match random.below(72) {
            0..12 => None,
            12..52 => Some(Step::Spend),
            52..62 => Some(Step::Check),
            62..71 => Some(Step::Refund),
            _ => Some(Step::Reset),
        },
        batch,
    };
    let ids: Vec<_> = (1..=3).map(|id| format!("{ids}{id}")).collect();
    let mut random = Random(seed);
    let counts = side_by_side::live_through(plot, operations, &mut random, backends, &ids).await;
    let all = [
        counts.allowed,
        counts.denied,
        counts.given_back,
        counts.lost,
        counts.steps_back,
    ];
    assert!(
        all.iter().all(|some| *some > operations / 100),
        "{counts:?}"
    );
}

fn limits() -> Limits {
    let second = Duration::from_secs(1);
    let offset = UtcOffset::minutes(-59);
    Limits::builder()
        .limit("small", Limit::window(3, second))
        .limit("wide", Limit::window(40, Duration::from_micros(333_333)))
        .limit("large", Limit::window(300, 6 * second))
        .limit("hour", Limit::quota(9, Per::Hour))
        .limit("day", Limit::quota(20, Per::Day.at_offset(offset)))
        .limit("week", Limit::quota(30, Per::Week.at_offset(offset)))
        .limit("month", Limit::quota(50, Per::Month))
        .limit("trial", Limit::quota(5, Per::first_use(second / 2)))
        .limit("gcra", Limit::per_second(7))
        .build()
        .unwrap()
}

/// Returns a batch of one to three limits, of one client or of several.
fn batch<'a>(random: &mut Random, ids: &'a [String]) -> Vec<Transaction<'a>> {
    let first = random.place(NAMES.len());
    let members = (0..=random.place(3)).map(|n| {
        let name = NAMES[(first + n * 3) % NAMES.len()];
        let mode = match random.below(10) {
            0..6 => Mode::CheckAndSpend,
            6 => Mode::CheckOnly,
            7 | 8 => Mode::SpendOnly,
            _ => Mode::Debit,
        };
        let below = match (name, mode) {
            ("large", _) => 120,
            (_, Mode::Debit) => 12,
            ("wide", _) => 20,
            _ => 4,
        };
        let id = &ids[random.place(ids.len())];
        Transaction::new(name, id)
            .cost(random.cost(below))
            .mode(mode)
    });
    members.collect()
}
