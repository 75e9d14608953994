//! Random histories of limits with a line: spends, abandoned waits, and refunds with and without a receipt.

use std::time::Duration;

use super::{
    random::Random,
    side_by_side::{ClockSteps, Plot, Step, live_through},
    world::World,
};
use crate::{
    limit::{Limit, Limits},
    transaction::{Mode, Transaction},
};

const NAMES: [&str; 3] = ["even", "odd", "none"];

pub async fn random_lines_are_kept_as_by_a_map(world: World) {
    let plot = Plot {
        limits: [limits(), limits()],
        second_in: 2,
        pace: ClockSteps {
            ahead: [10, 20_000, 120_000, 120_000],
            back: 0,
        },
        step: |random| match random.below(15) {
            0..8 => Some(Step::Spend),
            8..10 => Some(Step::Check),
            10..12 => Some(Step::Refund),
            _ => None,
        },
        batch,
    };
    let ids: Vec<_> = (0..6).map(|id| world.id(&id.to_string())).collect();
    let counts = live_through(plot, 3000, &mut Random(11), &[world.backend()], &ids).await;
    let all = [counts.waited, counts.denied, counts.given_back, counts.lost];
    assert!(all.iter().all(|some| *some > 100), "{counts:?}");
}

fn limits() -> Limits {
    let odd = Limit::new(5, 3, Duration::from_micros(1_000_001)).unwrap();
    let even = Limit::per_second(5).max_wait(Duration::from_secs(2));
    Limits::builder()
        .limit("even", even)
        .limit("odd", odd.max_wait(Duration::from_micros(2_345_678)))
        .limit("none", Limit::per_second(7))
        .build()
        .unwrap()
}

fn batch<'a>(random: &mut Random, ids: &'a [String]) -> Vec<Transaction<'a>> {
    let len = 1 + random.place(2);
    let members = ids.chunks(3).take(len).map(|ids| {
        let (name, id) = (NAMES[random.place(3)], &ids[random.place(3)]);
        let mode = match random.below(8) {
            0..6 => Mode::CheckAndSpend,
            6 => Mode::SpendOnly,
            _ => Mode::Debit,
        };
        let member = Transaction::new(name, id).cost(random.cost(5)).mode(mode);
        match random.below(5) {
            0 => member.no_wait(),
            _ => member,
        }
    });
    members.collect()
}
