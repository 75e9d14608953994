//! Random histories of random tiers that several backends run side by side.

use std::{sync::Arc, time::Duration};

use crate::{
    backend::Backend,
    decision::{BatchDecision, Decision},
    limit::{Limit, Limits},
    limiter::{Limiter, LimiterError},
    tiers::Tier,
    transaction::{Algorithm, Mode, Transaction},
};

use super::{
    history::Random,
    side_by_side::{Pace, SideBySide},
    world::World,
};

pub async fn random_tiers_are_decided_as_by_a_map(world: World) {
    live_through(1000, 7, &[world.backend()], &world.id("")).await;
}

/// Runs this many random operations on random tiers, on new backends. Each backend must give the same answers as the
/// map, to the microsecond.
pub async fn live_through(operations: u32, seed: u64, backends: &[Arc<dyn Backend>], ids: &str) {
    let mut random = Random(seed);
    let mut side = SideBySide::new(limits(&mut random), backends, PACE);
    let ids: Vec<_> = (1..=4).map(|id| format!("{ids}{id}")).collect();
    let (mut granted, mut denied) = (0, 0);
    for _ in 0..operations {
        side.step(|n| random.below(n));
        let (which, operation) = (usize::from(random.below(8) == 0), random.below(40));
        let batch = batch(&mut random, &ids);
        match compare(&side, which, operation, &batch).await {
            Ok((true, ..)) => granted += 1,
            Ok(_) => denied += 1,
            Err(_) => {}
        }
    }
    let all = [granted, denied, side.steps_back];
    assert!(
        all.iter().all(|some| *some > operations / 100),
        "{granted} granted, {denied} denied, {} steps back",
        side.steps_back
    );
}

const NAMES: [&str; 4] = ["a", "b", "c", "gcra"];

/// Times in microseconds. Tokens and windows take a few of them.
const PACE: Pace = Pace {
    ahead: [1, 4, 20, 100],
    back: 50,
};

async fn compare(
    side: &SideBySide,
    which: usize,
    operation: u64,
    batch: &[Transaction<'_>],
) -> Seen {
    let (map, others) = side.limiters(which);
    let expected = seen(decide(map, operation, batch).await);
    for other in others {
        let found = seen(decide(other, operation, batch).await);
        let now = side.now();
        assert_eq!(
            found,
            expected,
            "operation {operation} at {now:?}: {batch:?} of {:?}",
            map.limits()
        );
    }
    expected
}

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

async fn decide(
    limiter: &Limiter,
    operation: u64,
    batch: &[Transaction<'_>],
) -> Result<BatchDecision, LimiterError> {
    match operation {
        0..30 => limiter.spend_batch(batch).await,
        30..38 => limiter.check_batch(batch).await,
        38 => limiter.refund_batch(batch).await,
        _ => {
            limiter.reset(&batch[..1]).await?;
            limiter.check_batch(batch).await
        }
    }
}

/// Everything that a caller can see.
type Seen = Result<(bool, Option<usize>, Vec<SeenMember>), String>;

#[derive(Clone, Debug, PartialEq)]
struct SeenMember {
    allowed: bool,
    granted: u32,
    tier: Option<usize>,
    split: Vec<(usize, u32)>,
    remaining: Option<u32>,
    waits: [Option<Duration>; 4],
}

fn seen(answer: Result<BatchDecision, LimiterError>) -> Seen {
    let batch = answer.map_err(|error| format!("{error:?}"))?;
    let member = |decision: &Decision| SeenMember {
        allowed: decision.allowed(),
        granted: decision.granted(),
        tier: decision.tier(),
        split: decision.split().collect(),
        remaining: decision.remaining(),
        waits: [
            Some(decision.retry_after()),
            Some(decision.next_after()),
            Some(decision.reset_after()).filter(|_| !begins_for_ever(decision)),
            decision.next_token_after(),
        ],
    };
    let members = batch.members().iter().map(member).collect();
    Ok((batch.allowed(), batch.strictest(), members))
}

/// Returns whether the lowest tier never ends. A store may forget such a bucket once its window is empty, although the
/// tier has been entered. Only the time until a reset depends on that.
fn begins_for_ever(decision: &Decision) -> bool {
    match decision.algorithm() {
        Some(Algorithm::Tiers(tiers)) => {
            let lowest = tiers.iter().next();
            lowest.is_some_and(|lowest| lowest.active == Tier::FOREVER)
        }
        _ => false,
    }
}

/// Returns a batch, mostly of one bucket, because the members of a larger batch often deny each other.
fn batch<'a>(random: &mut Random, ids: &'a [String]) -> Vec<Transaction<'a>> {
    let len = [1, 1, 1, 2, 3, 5][usize::try_from(random.below(6)).unwrap()];
    let mut below = |len: usize| usize::try_from(random.below(len as u64)).unwrap();
    let buckets: Vec<_> = (0..len)
        .map(|_| (NAMES[below(NAMES.len())], ids[below(ids.len())].as_str()))
        .collect();
    let members = buckets.into_iter().map(|(name, id)| {
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
