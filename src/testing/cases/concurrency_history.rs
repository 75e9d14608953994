//! Random histories of permits against an independent model, which is a list of instants for each bucket: charges, renewals
//! and refunds by receipt, in batches with all other algorithms, by a clock that also steps back, and under limits that
//! change.

use std::{collections::HashMap, time::Duration};

use super::{random::Random, world::World};
use crate::{
    decision::Decision,
    limit::{Limit, Limits},
    limiter::Limiter,
    quota::Per,
    tiers::Tier,
    transaction::{Mode, Receipt, Transaction},
};

/// The names of concurrency limits, with their number at once, that of the other version, and their hold in µs.
const PERMITS: [(&str, u32, u32, u64); 4] = [
    ("one", 1, 2, 1_000_000),
    ("few", 4, 3, 1_500_000),
    ("many", 40, 50, 3_000_001),
    ("large", 300, 200, 2_000_000),
];
const OTHERS: [&str; 4] = ["gcra", "window", "quota", "tiers"];

pub async fn random_permits_are_held_as_by_a_list_of_instants(world: World) {
    live_through(&world, 2000, 11).await;
}

/// Runs this many random operations.
///
/// # Panics
///
/// If the backend answers differently than the list.
pub async fn live_through(world: &World, operations: u32, seed: u64) {
    let mut history = PermitHistory::new(world, seed);
    for step in 0..operations {
        history.move_clock();
        if history.random.below(150) == 0 {
            history.reload();
        }
        match history.random.below(40) {
            0 => history.reset().await,
            1..=9 => history.renew(step).await,
            10..=17 => history.refund(step).await,
            18..=21 => history.spend(step, true).await,
            _ => history.spend(step, false).await,
        }
    }
    let most = operations / 100;
    assert!(
        history.counts.iter().all(|count| *count > most),
        "{:?}",
        history.counts
    );
}

/// One member of a batch: the limit, the id, the mode and the cost.
type AskedMember = (&'static str, String, Mode, u32);

/// A receipt, with the bucket and the instant by which the model knows it.
struct HeldPermits {
    name: &'static str,
    id: String,
    at: u64,
    receipt: Receipt,
}

struct PermitHistory<'a> {
    world: &'a World,
    limiter: Limiter,
    version: usize,
    ids: Vec<String>,
    random: Random,
    /// The instants of the permits of each bucket.
    buckets: HashMap<(&'static str, String), Vec<u64>>,
    held: Vec<HeldPermits>,
    /// The latest time, and the latest instant at which a permit has expired. A backend can forget it then.
    latest: u64,
    forgotten: u64,
    /// Charges, denials, renewals, failed renewals, refunds, and failed refunds.
    counts: [u32; 6],
}

impl<'a> PermitHistory<'a> {
    fn new(world: &'a World, seed: u64) -> Self {
        Self {
            world,
            limiter: world.limiter_of(limits(0)),
            version: 0,
            ids: ["a", "b", "c"].map(|id| world.id(id)).into(),
            random: Random(seed),
            buckets: HashMap::new(),
            held: Vec::new(),
            latest: world.now(),
            forgotten: 0,
            counts: [0; 6],
        }
    }

    fn any_id(&mut self) -> String {
        let place = self.random.place(3);
        self.ids[place].clone()
    }

    fn move_clock(&mut self) {
        let now = self.world.now();
        if self.random.below(25) == 0 {
            let back = now - self.random.below(400_000).min(now);
            self.world.set(back.max(self.forgotten.min(now)));
            return;
        }
        let longest = [1, 10_000, 100_000, 600_000, 4_000_000];
        let longest = longest[self.random.place(5) * usize::from(self.random.below(3) > 0)];
        self.world.advance(self.random.below(longest));
        self.latest = self.latest.max(self.world.now());
        for ((name, _), permits) in &self.buckets {
            let ends = permits.iter().map(|at| at + hold(name));
            let over = ends.filter(|end| *end <= self.latest).max();
            self.forgotten = self.forgotten.max(over.unwrap_or_default());
        }
    }

    fn reload(&mut self) {
        self.version = 1 - self.version;
        self.limiter.reload(limits(self.version)).unwrap();
    }

    fn limit(&self, name: &str) -> u32 {
        let of = PERMITS.iter().find(|(of, ..)| *of == name).unwrap();
        [of.1, of.2][self.version]
    }

    /// The permits that count now.
    fn counting(&self, name: &'static str, id: &str) -> Vec<u64> {
        let now = self.world.now();
        let all = self.buckets.get(&(name, id.to_owned()));
        let counting = all.into_iter().flatten().copied();
        counting.filter(|at| now < at + hold(name)).collect()
    }

    fn store(&mut self, name: &'static str, id: &str, permits: Vec<u64>) {
        self.buckets.insert((name, id.to_owned()), permits);
    }

    fn assert_shown(
        &self,
        decision: &Decision,
        used: usize,
        name: &str,
        cost: u32,
        context: &dyn std::fmt::Debug,
    ) {
        let (used, limit) = (u32::try_from(used).unwrap(), self.limit(name));
        let unknown = |is_over| match is_over {
            true => Duration::ZERO,
            false => Decision::NEVER,
        };
        let shown = (
            decision.remaining(),
            decision.next_after(),
            decision.reset_after(),
        );
        let expected = (
            Some(limit.saturating_sub(used)),
            unknown(used + cost <= limit),
            unknown(used == 0),
        );
        assert_eq!(shown, expected, "{context:?}");
    }

    async fn reset(&mut self) {
        let (name, ..) = PERMITS[self.random.place(PERMITS.len())];
        let id = self.any_id();
        let reset = [Transaction::new(name, &id)];
        self.limiter.reset(&reset).await.unwrap();
        self.store(name, &id, Vec::new());
    }

    /// Draws a batch of concurrency limits and, sometimes, other limits.
    fn draw(&mut self) -> Vec<AskedMember> {
        let first = self.random.place(PERMITS.len());
        let mut asked = Vec::new();
        for n in 0..1 + self.random.place(2) {
            let (name, limit, ..) = PERMITS[(first + n) % PERMITS.len()];
            let mode = match self.random.below(8) {
                0 => Mode::CheckOnly,
                1 => Mode::SpendOnly,
                _ => Mode::CheckAndSpend,
            };
            let cost = self.random.cost(u64::from(limit.min(40)) + 1);
            // Most pieces of work take one permit.
            let cost = match self.random.below(3) {
                0 => cost.min(self.limit(name)),
                _ => cost.min(1),
            };
            asked.push((name, self.any_id(), mode, cost));
        }
        if self.random.below(3) == 0 {
            let first = self.random.place(OTHERS.len());
            let count = [1, 1, 2, OTHERS.len()][self.random.place(4)];
            for n in 0..count {
                let other = OTHERS[(first + n) % OTHERS.len()];
                asked.push((other, self.any_id(), Mode::CheckAndSpend, 1));
            }
        }
        asked
    }

    /// Spends or checks a batch.
    async fn spend(&mut self, step: u32, checks: bool) {
        let asked = self.draw();
        let batch: Vec<_> = asked
            .iter()
            .map(|(name, id, mode, cost)| Transaction::new(*name, id).cost(*cost).mode(*mode))
            .collect();
        let decided = match checks {
            true => self.limiter.check_batch(&batch).await.unwrap(),
            false => self.limiter.spend_batch(&batch).await.unwrap(),
        };
        let allowed = decided.allowed();
        let mut votes = asked.iter().filter(|one| is_permit(one.0) && one.2.votes());
        let all_fit = votes.all(|one| self.fits(one));
        let mut others = asked.iter().zip(decided.members());
        let others_fit = others.all(|(one, decision)| is_permit(one.0) || decision.allowed());
        assert_eq!(allowed, all_fit && others_fit, "{step}: {asked:?}");
        self.counts[usize::from(!allowed)] += 1;
        for (one, decision) in asked.iter().zip(decided.members()) {
            if is_permit(one.0) {
                self.spent(one, decision, (step, checks, allowed));
            }
        }
    }

    fn fits(&self, (name, id, _, cost): &AskedMember) -> bool {
        let used = self.counting(name, id).len();
        u32::try_from(used).unwrap() + cost <= self.limit(name)
    }

    /// Compares the decision on a member of a batch with the list.
    fn spent(
        &mut self,
        one: &AskedMember,
        decision: &Decision,
        (step, checks, allowed): (u32, bool, bool),
    ) {
        let (name, id, mode, cost) = one;
        let (now, fits) = (self.world.now(), self.fits(one));
        let context = (step, now, checks, one);
        let mut permits = self.counting(name, id);
        let takes = allowed && fits;
        let passes = fits && (mode.votes() || allowed);
        assert_eq!(decision.allowed(), passes, "{context:?}");
        if takes {
            permits.extend(std::iter::repeat_n(now, *cost as usize));
        }
        self.assert_shown(decision, permits.len(), name, *cost, &context);
        let is_charged = takes && mode.spends() && !checks && *cost > 0;
        assert_eq!(decision.receipt().is_some(), is_charged, "{context:?}");
        if let Some(receipt) = decision.receipt() {
            assert_eq!(receipt.cost(), *cost);
            self.store(name, id, permits);
            self.hold(name, id, receipt);
        }
    }

    /// Keeps a receipt of now.
    fn hold(&mut self, name: &'static str, id: &str, receipt: Receipt) {
        let (id, at) = (id.to_owned(), self.world.now());
        self.held.push(HeldPermits {
            name,
            id,
            at,
            receipt,
        });
    }

    /// Takes one of the latest receipts; sometimes an old one, which has probably expired.
    fn take(&mut self) -> Option<HeldPermits> {
        if self.held.is_empty() {
            return None;
        }
        let reach = if self.random.below(6) == 0 { 60 } else { 8 };
        let back = self.random.place(self.held.len().min(reach));
        Some(self.held.remove(self.held.len() - 1 - back))
    }

    async fn renew(&mut self, step: u32) {
        let taken: Vec<_> = (0..1 + self.random.place(4))
            .filter_map(|_| self.take())
            .collect();
        let batch: Vec<_> = taken
            .iter()
            .map(|held| Transaction::new(held.name, &held.id).of_receipt(&held.receipt))
            .collect();
        // The same receipt twice: the second time, its permits are usually gone.
        let twice = self.random.below(5) == 0 && !batch.is_empty();
        let batch = if twice {
            [&batch[..], &batch[..1]].concat()
        } else {
            batch
        };
        let renewed = self.limiter.renew_batch(&batch).await.unwrap();
        assert_eq!(renewed.members().len(), batch.len());
        let asked = taken.iter().chain(&taken[..usize::from(twice)]);
        for (held, decision) in asked.zip(renewed.members()) {
            self.renewed(held, decision, step);
        }
        // Some receipts that are void now are asked for again.
        if self.random.below(3) == 0 {
            self.held.extend(taken);
        }
    }

    /// Compares a renewal with the list.
    fn renewed(&mut self, held: &HeldPermits, decision: &Decision, step: u32) {
        let now = self.world.now();
        let context = (step, now, held.name, held.at);
        let mut permits = self.counting(held.name, &held.id);
        let there = permits.iter().filter(|at| **at == held.at).count();
        let cost = held.receipt.cost();
        let expected = there >= cost as usize && cost > 0;
        assert_eq!(decision.renewed(), expected, "{context:?}");
        assert_eq!(decision.receipt().is_some(), expected, "{context:?}");
        self.counts[2 + usize::from(!expected)] += 1;
        if let Some(receipt) = decision.receipt() {
            assert_eq!(receipt.cost(), cost);
            for _ in 0..cost {
                let place = permits.iter().position(|at| *at == held.at).unwrap();
                permits[place] = now;
            }
            self.store(held.name, &held.id, permits);
            self.hold(held.name, &held.id, receipt);
        }
    }

    async fn refund(&mut self, step: u32) {
        let Some(mut held) = self.take() else {
            return;
        };
        let (now, name, id) = (self.world.now(), held.name, held.id.clone());
        let part = held.receipt.split(1 + self.random.cost(3));
        let refund = Transaction::new(name, &id).of_receipt(&part);
        let decision = self.limiter.refund(&refund).await.unwrap();
        let mut permits = self.counting(name, &id);
        let before = permits.len();
        for _ in 0..part.cost() {
            if let Some(place) = permits.iter().position(|at| *at == held.at) {
                permits.swap_remove(place);
            }
        }
        let context = (step, now, name, held.at, part.cost());
        assert_eq!(decision.refunded(), permits.len() < before, "{context:?}");
        self.counts[4 + usize::from(permits.len() == before)] += 1;
        self.assert_shown(&decision, permits.len(), name, part.cost(), &context);
        if permits.len() < before {
            self.store(name, &id, permits);
        }
        if held.receipt.cost() > 0 {
            self.held.push(held);
        }
    }
}

fn is_permit(name: &str) -> bool {
    !OTHERS.contains(&name)
}

fn hold(name: &str) -> u64 {
    PERMITS.iter().find(|(of, ..)| *of == name).unwrap().3
}

fn limits(version: usize) -> Limits {
    let mut limits = Limits::builder()
        .limit("gcra", Limit::per_second(5))
        .limit("window", Limit::window(3, Duration::from_secs(1)))
        .limit(
            "quota",
            Limit::quota(4, Per::first_use(Duration::from_secs(1))),
        )
        .limit(
            "tiers",
            Limit::tiers([Tier::new(3, Duration::from_secs(1))]).unwrap(),
        );
    for (name, first, other, hold) in PERMITS {
        let limit = Limit::concurrent([first, other][version]);
        limits = limits.limit(name, limit.hold(Duration::from_micros(hold)));
    }
    limits.build().unwrap()
}
