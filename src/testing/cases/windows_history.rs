//! Random histories of windows, quotas and token buckets: spends, debits, and refunds with and without a receipt, by a
//! clock that also steps back.

use std::time::Duration;

use super::{
    history::Random,
    side_by_side::{ClockSteps, Plot, Step, live_through},
    world::World,
};
use crate::{
    limit::{Limit, Limits},
    quota::{Per, UtcOffset},
    transaction::{Mode, Transaction},
};

const NAMES: [&str; 6] = ["small", "large", "hourly", "daily", "trial", "gcra"];

pub async fn random_windows_and_quotas_are_decided_as_by_a_map(world: World) {
    let plot = Plot {
        limits: [limits(), limits()],
        second_in: 2,
        pace: ClockSteps {
            ahead: [1000, 100_000, 400_000, 600_000_000],
            back: 700_000,
        },
        step: |random| match random.below(72) {
            0..12 => None,
            12..52 => Some(Step::Spend),
            52..62 => Some(Step::Check),
            _ => Some(Step::Refund),
        },
        batch,
    };
    let ids: Vec<_> = (0..6).map(|id| world.id(&id.to_string())).collect();
    let counts = live_through(plot, 2000, &mut Random(5), &[world.backend()], &ids).await;
    let all = [
        counts.allowed,
        counts.denied,
        counts.given_back,
        counts.lost,
        counts.steps_back,
    ];
    assert!(all.iter().all(|some| *some > 100), "{counts:?}");
}

fn limits() -> Limits {
    let second = Duration::from_secs(1);
    let offset = UtcOffset::minutes(-59);
    Limits::builder()
        .limit("small", Limit::window(3, second))
        .limit("large", Limit::window(40, Duration::from_micros(333_333)))
        .limit("hourly", Limit::quota(9, Per::Hour))
        .limit("daily", Limit::quota(20, Per::Day.at_offset(offset)))
        .limit("trial", Limit::quota(5, Per::first_use(second / 2)))
        .limit("gcra", Limit::per_second(7))
        .build()
        .unwrap()
}

fn batch<'a>(random: &mut Random, ids: &'a [String]) -> Vec<Transaction<'a>> {
    let len = 1 + random.place(3);
    let members = ids.chunks(2).take(len).map(|ids| {
        let (name, id) = (NAMES[random.place(6)], &ids[random.place(2)]);
        let mode = match random.below(10) {
            0..6 => Mode::CheckAndSpend,
            6 => Mode::CheckOnly,
            7 | 8 => Mode::SpendOnly,
            _ => Mode::Debit,
        };
        let cost = match mode {
            Mode::Debit => random.cost(12),
            _ => random.cost(4),
        };
        Transaction::new(name, id).cost(cost).mode(mode)
    });
    members.collect()
}
