//! Random histories of windows, quotas and token buckets: spends, debits, and refunds with and without a receipt, by a
//! clock that also steps back.

use std::{sync::Arc, time::Duration};

use super::{
    history::Random,
    side_by_side::algorithm,
    waiting_history::{ReceiptPair, decide, refund, seen, take},
    world::World,
};
use crate::{
    clock::Timestamp,
    limit::{Limit, Limits},
    limiter::Limiter,
    quota::{Per, UtcOffset},
    testing::map_backend::MapBackend,
    transaction::{Mode, Transaction},
};

const NAMES: [&str; 6] = ["small", "large", "hourly", "daily", "trial", "gcra"];

pub async fn random_windows_and_quotas_are_decided_as_by_a_map(world: World) {
    let map = Arc::new(MapBackend::default());
    let ours = Limiter::new(limits(), Arc::clone(&map)).with_clock(world.clock.clone());
    let theirs = Limiter::new(limits(), world.backend()).with_clock(world.clock.clone());
    let (mut random, mut held, mut latest) = (Random(5), Vec::new(), world.now());
    let (mut allowed, mut denied, mut given_back, mut lost, mut back) = (0, 0, 0, 0, 0);
    for step in 0..2000 {
        back += u32::from(move_clock(&world, &map, &mut random, latest));
        latest = latest.max(world.now());
        if random.below(6) == 0
            && let Some(receipts) = take(&mut random, &mut held)
        {
            let refunded = refund(&ours, &theirs, receipts).await;
            given_back += u32::from(refunded);
            lost += u32::from(!refunded);
            continue;
        }
        let ids = [0, 1, 2].map(|id| world.id(&(random.below(2) + 2 * id).to_string()));
        let batch = batch(&mut random, &ids);
        let operation = random.below(12);
        let expected = decide(&ours, operation, &batch).await;
        let found = decide(&theirs, operation, &batch).await;
        assert_eq!(seen(&found), seen(&expected), "step {step}: {batch:?}");
        allowed += u32::from(expected.allowed());
        denied += u32::from(!expected.allowed());
        for ((place, ours), theirs) in expected.members().iter().enumerate().zip(found.members()) {
            let (limit, id) = (batch[place].limit.as_str(), batch[place].id);
            let receipts = ours.receipt().zip(theirs.receipt());
            held.extend(receipts.map(|receipts| ReceiptPair::new(limit, id, receipts)));
        }
    }
    let all = [allowed, denied, given_back, lost, back];
    assert!(all.iter().all(|some| *some > 100), "{all:?}");
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

/// Moves the clock, mostly forwards. It only steps back as far as no backend may have forgotten a full bucket.
fn move_clock(world: &World, map: &MapBackend, random: &mut Random, latest: u64) -> bool {
    let (now, limits) = (world.now(), limits());
    if random.below(8) > 0 {
        let longest = [1000, 100_000, 100_000, 400_000, 600_000_000];
        let longest = longest[usize::try_from(random.below(5)).unwrap()];
        world.advance(random.below(longest));
        return false;
    }
    let full = map.latest_full(Timestamp::from_micros(latest), |key| {
        algorithm(&limits, key)
    });
    let reach = now.saturating_sub(full.as_micros());
    let back = random.below(reach.min(700_000) + 1);
    world.set(now - back);
    back > 0
}

fn batch<'a>(random: &mut Random, ids: &'a [String; 3]) -> Vec<Transaction<'a>> {
    let len = usize::try_from(1 + random.below(3)).unwrap();
    let member = |id: &'a String| {
        let mode = match random.below(10) {
            0..6 => Mode::CheckAndSpend,
            6 => Mode::CheckOnly,
            7 | 8 => Mode::SpendOnly,
            _ => Mode::Debit,
        };
        let name = NAMES[usize::try_from(random.below(6)).unwrap()];
        let cost = match mode {
            Mode::Debit => random.cost(12),
            _ => random.cost(4),
        };
        Transaction::new(name, id).cost(cost).mode(mode)
    };
    ids[..len].iter().map(member).collect()
}
