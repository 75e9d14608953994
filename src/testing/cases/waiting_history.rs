//! Random histories of limits with a line: spends, abandoned waits, and refunds with and without a receipt.

use std::time::Duration;

use super::{history::Random, world::World};
use crate::{
    decision::{BatchDecision, Decision},
    limit::{Limit, Limits},
    limiter::Limiter,
    testing::map_backend::MapBackend,
    transaction::{Mode, Receipt, Transaction},
};

const NAMES: [&str; 3] = ["even", "odd", "none"];

pub async fn random_lines_are_kept_as_by_a_map(world: World) {
    let map = Limiter::new(limits(), MapBackend::default()).with_clock(world.clock.clone());
    let other = Limiter::new(limits(), world.backend()).with_clock(world.clock.clone());
    let (mut random, mut held) = (Random(11), Vec::new());
    let (mut waited, mut denied, mut given_back, mut lost) = (0, 0, 0, 0);
    for step in 0..3000 {
        world.advance(random.below([10, 20_000, 120_000][step % 3]));
        let ids = [0, 1].map(|id| world.id(&(random.below(3) + 3 * id).to_string()));
        if random.below(5) == 0
            && let Some(receipts) = take(&mut random, &mut held)
        {
            let refunded = refund(&map, &other, receipts).await;
            given_back += u32::from(refunded);
            lost += u32::from(!refunded);
            continue;
        }
        let batch = batch(&mut random, &ids);
        let operation = random.below(12);
        let expected = decide(&map, operation, &batch).await;
        let found = decide(&other, operation, &batch).await;
        assert_eq!(seen(&found), seen(&expected), "step {step}: {batch:?}");
        waited += u32::from(expected.delay() > Duration::ZERO);
        denied += u32::from(!expected.allowed());
        for ((place, ours), theirs) in expected.members().iter().enumerate().zip(found.members()) {
            let (limit, id) = (batch[place].limit.as_str(), batch[place].id);
            let receipts = ours.receipt().zip(theirs.receipt());
            held.extend(receipts.map(|receipts| ReceiptPair::new(limit, id, receipts)));
        }
    }
    let all = [waited, denied, given_back, lost];
    assert!(all.iter().all(|some| *some > 100), "{all:?}");
}

fn limits() -> Limits {
    let odd = Limit::new(5, 3, Duration::from_micros(1_000_001)).unwrap();
    Limits::builder()
        .limit(
            "even",
            Limit::per_second(5).max_wait(Duration::from_secs(2)),
        )
        .limit("odd", odd.max_wait(Duration::from_micros(2_345_678)))
        .limit("none", Limit::per_second(7))
        .build()
        .unwrap()
}

/// Receipts for the same charge, from the map and from the other backend.
pub(super) struct ReceiptPair {
    limit: String,
    id: String,
    ours: Receipt,
    theirs: Receipt,
}

impl ReceiptPair {
    pub(super) fn new(limit: &str, id: &str, (ours, theirs): (Receipt, Receipt)) -> Self {
        Self {
            limit: limit.into(),
            id: id.into(),
            ours,
            theirs,
        }
    }
}

/// The last receipt or an earlier one, or a part of it.
pub(super) fn take(random: &mut Random, held: &mut Vec<ReceiptPair>) -> Option<ReceiptPair> {
    let back = random.below(4).min(held.len() as u64);
    let place = held.len().checked_sub(1 + usize::try_from(back).unwrap())?;
    let mut whole = held.remove(place);
    if random.below(3) > 0 {
        return Some(whole);
    }
    let cost = random.cost(3);
    let part = (whole.ours.split(cost), whole.theirs.split(cost));
    let part = ReceiptPair::new(&whole.limit, &whole.id, part);
    held.insert(place, whole);
    Some(part)
}

pub(super) async fn refund(map: &Limiter, other: &Limiter, receipts: ReceiptPair) -> bool {
    let ReceiptPair {
        limit,
        id,
        ours,
        theirs,
    } = receipts;
    let refund = async |limiter: &Limiter, receipt| {
        let limit = limiter.limit(&limit).unwrap();
        limit.refund_receipt(&id, receipt).await.unwrap()
    };
    let (expected, found) = (refund(map, ours).await, refund(other, theirs).await);
    assert_eq!(figures(&found), figures(&expected));
    expected.refunded()
}

fn batch<'a>(random: &mut Random, ids: &'a [String; 2]) -> Vec<Transaction<'a>> {
    let mut below = |len: usize| usize::try_from(random.below(len as u64)).unwrap();
    let names = [below(3), below(3)];
    let len = 1 + below(2);
    let members = names.iter().zip(ids).take(len);
    let member = |(name, id): (&usize, &'a String)| {
        let mode = match random.below(8) {
            0..6 => Mode::CheckAndSpend,
            6 => Mode::SpendOnly,
            _ => Mode::Debit,
        };
        let cost = random.cost(5);
        let member = Transaction::new(NAMES[*name], id).cost(cost).mode(mode);
        match random.below(5) {
            0 => member.no_wait(),
            _ => member,
        }
    };
    members.map(member).collect()
}

pub(super) async fn decide(
    limiter: &Limiter,
    operation: u64,
    batch: &[Transaction<'_>],
) -> BatchDecision {
    let decided = match operation {
        0..8 => limiter.spend_batch(batch).await,
        8 | 9 => limiter.check_batch(batch).await,
        _ => limiter.refund_batch(batch).await,
    };
    decided.unwrap()
}

pub(super) type SeenWait = (bool, Option<u32>, [Duration; 4]);

fn figures(decision: &Decision) -> SeenWait {
    let spans = [
        decision.delay(),
        decision.retry_after(),
        decision.next_after(),
        decision.reset_after(),
    ];
    (decision.allowed(), decision.remaining(), spans)
}

pub(super) fn seen(batch: &BatchDecision) -> (bool, Duration, Vec<SeenWait>) {
    let members = batch.members().iter().map(figures).collect();
    (batch.allowed(), batch.delay(), members)
}
