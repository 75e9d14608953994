//! Random histories of random tiers that several backends run side by side.

use std::{sync::Arc, time::Duration};

use crate::{
    backend::Backend,
    limit::{Limit, Limits},
    tiers::Tier,
    transaction::{Mode, Transaction},
};

use super::{
    random::Random,
    side_by_side::{self, ClockSteps, Plot, Step},
    world::World,
};

pub async fn random_tiers_are_decided_as_by_a_map(world: World) {
    live_through(1000, 7, &[world.backend()], &world.id("")).await;
}

/// Runs this many random operations on random tiers, on new backends. Each backend must give the same answers as the
/// map, to the microsecond.
pub async fn live_through(operations: u32, seed: u64, backends: &[Arc<dyn Backend>], ids: &str) {
    let mut random = Random(seed);
    let plot = Plot {
        limits: limits(&mut random),
        second_in: 8,
        // Tokens and windows take a few of these steps.
        pace: ClockSteps {
            ahead: [1, 4, 20, 100],
            back: 50,
        },
        step: |random| match random.below(40) {
            0..30 => Some(Step::Spend),
            30..38 => Some(Step::Check),
            38 => Some(Step::Refund),
            _ => Some(Step::Reset),
        },
        batch,
    };
    let ids: Vec<_> = (1..=4).map(|id| format!("{ids}{id}")).collect();
    let counts = side_by_side::live_through(plot, operations, &mut random, backends, &ids).await;
    let all = [counts.allowed, counts.denied, counts.steps_back];
    assert!(
        all.iter().all(|some| *some > operations / 100),
        "{counts:?}"
    );
}

const NAMES: [&str; 4] = ["a", "b", "c", "gcra"];

/// Returns two sets of random tiers, between which a history may change. In both sets, each tier has the same total of
/// active period and cooldown, and the lowest windows are equal. So a bucket can be forgotten at the same time under
/// both.
fn limits(random: &mut Random) -> [Limits; 2] {
    let mut sets = [Limits::builder(), Limits::builder()];
    for name in &NAMES[..3] {
        let pairs: Vec<_> = (0..1 + random.below(4))
            .map(|i| pair(random, i == 0))
            .collect();
        for (i, set) in sets.iter_mut().enumerate() {
            let tiers = pairs.iter().map(|pair| pair[i]);
            *set = std::mem::take(set).limit(*name, Limit::tiers(tiers).unwrap());
        }
    }
    sets.map(|set| {
        let gcra = Limit::new(10, 3, Duration::from_micros(101)).unwrap();
        set.limit(NAMES[3], gcra).build().unwrap()
    })
}

fn pair(random: &mut Random, is_lowest: bool) -> [Tier; 2] {
    let window = span(random, 1, 40);
    let (active, cooldown) = (span(random, 1, 40), span(random, 0, 60));
    let mut tier = |window, active, cooldown| {
        let tier = Tier::new(1 + random.cost(8), window);
        let tier = tier.active(active).cooldown(cooldown);
        match random.below(5) {
            0 => tier.skippable(),
            _ => tier,
        }
    };
    let one = tier(window, active, cooldown);
    let other_window = if is_lowest { window } else { active };
    // In the other set, half of the active period becomes cooldown, unless the tier never ends.
    let is_finite = active.max(cooldown) < Tier::FOREVER;
    let part = active.as_micros().div_ceil(2).try_into().unwrap_or(1);
    let part = Duration::from_micros(part);
    let other = match is_finite {
        true => tier(other_window, part, cooldown + (active - part)),
        false => tier(other_window, active, cooldown),
    };
    [one, other]
}

/// Returns a random span. One in twenty never ends.
fn span(random: &mut Random, least: u64, most: u64) -> Duration {
    match random.below(20) {
        0 => Tier::FOREVER,
        _ => Duration::from_micros(least + random.below(most)),
    }
}

/// Returns a batch, mostly of one bucket, because the members of a larger batch often deny each other.
fn batch<'a>(random: &mut Random, ids: &'a [String]) -> Vec<Transaction<'a>> {
    let len = [1, 1, 1, 2, 3, 5][random.place(6)];
    let members = (0..len).map(|_| {
        let (name, id) = (
            NAMES[random.place(NAMES.len())],
            &ids[random.place(ids.len())],
        );
        let mode = match random.below(8) {
            0..6 => Mode::CheckAndSpend,
            6 => Mode::CheckOnly,
            _ => Mode::SpendOnly,
        };
        let cost = 1 + random.cost(4) * random.cost(5);
        let one = Transaction::new(name, id).mode(mode);
        match name {
            "gcra" => one.cost(cost % 10),
            _ if random.below(3) == 0 => one.cost(cost).min_cost(1 + random.cost(cost.into())),
            _ => one.cost(cost),
        }
    });
    members.collect()
}
