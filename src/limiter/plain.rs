//! The most common decisions: charges of buckets that fit into rows in memory, each with a vote.
//!
//! They could take the path of all decisions, with the same result. Here, the compiler knows that nothing else can happen,
//! which saves more than half of the instructions. A test compares both. Metrics count such charges here too; while a
//! subscriber receives the events of decisions, they take the other path.

use super::{Limiter, recorder::emits_events, transactions::Transactions};
use crate::{
    backend::{MemoryBackend, RowCharge},
    clock::Timestamp,
    decision::Decisions,
    few::Count,
    limit::Limits,
    transaction::{IdHash, Mode, Operation, Transaction},
};

/// The most charges that are compared with each other.
const MOST: usize = 4;

impl Limiter {
    /// Decides the spends of transactions if all of them are such charges; `None` if one is anything else, or an error.
    #[inline(always)]
    pub(crate) fn spend_plain<'a, 't, C: Count, D: Decisions>(
        &self,
        memory: &MemoryBackend,
        limits: &'a Limits,
        transactions: &(impl Transactions<'t> + ?Sized),
    ) -> Option<PlainCharges<'a, C>> {
        let spent = self.charge_plain::<C>(memory, limits, transactions)?;
        // The decisions are only assembled if they are counted.
        if cfg!(feature = "metrics") {
            let mut decided = D::nothing();
            spent.show(&mut decided);
            self.recorder(limits, Operation::Spend)
                .record(transactions, &decided);
        }
        Some(spent)
    }

    #[inline(always)]
    fn charge_plain<'a, 't, C: Count>(
        &self,
        memory: &MemoryBackend,
        limits: &'a Limits,
        transactions: &(impl Transactions<'t> + ?Sized),
    ) -> Option<PlainCharges<'a, C>> {
        let len = transactions.len();
        if !(1..=MOST).contains(&len) || emits_events() {
            return None;
        }
        let mut charges = C::fill(len, RowCharge::UNKNOWN);
        let places = charges.as_mut();
        for place in 0..len {
            let charge = transactions.read(place, |next| plain_charge(limits, next))?;
            let before = places.get(..place)?;
            if before.iter().any(|other| other.print == charge.print) {
                return None;
            }
            *places.get_mut(place)? = charge;
        }
        let now = self.now().unwrap_or_else(|| memory.now());
        now.validate().ok()?;
        let recorder = self.recorder(limits, Operation::Spend);
        let passes = memory.charge_rows::<C>(&mut charges, now);
        recorder.applied();
        Some(PlainCharges {
            charges,
            passes,
            now,
        })
    }
}

/// Returns the charge of a transaction, if it is a plain one.
#[inline(always)]
fn plain_charge<'a>(limits: &'a Limits, transaction: &Transaction<'_>) -> Option<RowCharge<'a>> {
    let Transaction { id, mode, cost, .. } = *transaction;
    let named = limits.find(transaction.limit)?;
    if !named.is_in_rows() {
        return None;
    }
    let is_canonical = transaction.is_canonical() || named.name.format().keeps(id);
    if !is_canonical
        || limits.is_shadow(named)
        || mode != Mode::CheckAndSpend
        || transaction.min_cost.is_some()
    {
        return None;
    }
    let algorithm = named.in_force(id)?.algorithm()?;
    let key = algorithm.plain_key(cost)?;
    let client = transaction.fingerprint();
    let client = client.unwrap_or_else(|| named.seed().client(IdHash::of(id)));
    Some(RowCharge::new(client.bucket(key), algorithm, cost))
}

/// Plain charges that are decided. Their decisions are large, and assembled only if they are needed.
pub(crate) struct PlainCharges<'a, C: Count> {
    charges: C::Of<RowCharge<'a>>,
    passes: bool,
    now: Timestamp,
}

impl<C: Count> PlainCharges<'_, C> {
    #[inline(always)]
    pub(crate) fn are_allowed(&self) -> bool {
        self.passes
    }

    /// Writes the decisions.
    #[inline(always)]
    pub(crate) fn show(&self, decided: &mut impl Decisions) {
        for charge in self.charges.as_ref() {
            let decision = decided.next();
            if let Some(algorithm) = charge.algorithm {
                let row = (charge.print, charge.value, charge.cost);
                decision.show_plain(algorithm, row, charge.fits, self.passes, self.now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use smallvec::SmallVec;

    use super::*;
    use crate::{
        Limit, MemoryBackend,
        clock::{Clock, ManualClock},
        decision::BatchDecision,
        few::{Any, Exactly},
        id::IdFormat,
        limit::LimitName,
        limiter::LimiterError,
        quota::Per,
    };

    fn limits() -> Limits {
        let line = Limit::per_second(3).burst(2);
        let line = line.max_wait(Duration::from_secs(1));
        let builder = Limits::builder()
            .limit("few", Limit::per_second(7).burst(5))
            .limit("line", line)
            .limit("window", Limit::window(4, Duration::from_secs(2)))
            .limit(
                "quota",
                Limit::quota(6, Per::first_use(Duration::from_secs(1))),
            )
            .limit("hourly", Limit::quota(9000, Per::Hour))
            .limit("blocked", Limit::BLOCKED)
            .limit(
                LimitName::new("shadow", 1, IdFormat::Opaque).shadow(true),
                Limit::per_second(1),
            )
            .limit(
                LimitName::new("address", 2, IdFormat::IpAddress),
                Limit::per_second(2).burst(3),
            )
            .override_for("few", "rich", Limit::per_second(20).burst(9))
            .override_for("quota", "rich", Limit::per_second(3))
            .override_for("hourly", "alice", Limit::window(3, Duration::from_secs(1)));
        builder.build().unwrap()
    }

    fn limiter(clock: &ManualClock) -> Limiter {
        Limiter::new(limits(), MemoryBackend::new()).with_clock(clock.clone())
    }

    /// The costs to try. The last one exceeds the capacity of some limits.
    const COSTS: [u32; 12] = [0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 12];

    /// Costs and modes of several transactions.
    struct Asked<'a>(SmallVec<[Transaction<'a>; 4]>);

    fn in_full<C: Count>(
        limiter: &Limiter,
        Asked(asked): &Asked<'_>,
    ) -> Result<BatchDecision, LimiterError> {
        let (limits, memory) = (limiter.in_force(), limiter.memory().unwrap());
        let mut decided = BatchDecision::nothing();
        let decision = &mut decided;
        let done =
            limiter.decide_in_full::<C, _>(memory, &limits, Operation::Spend, &**asked, decision);
        done.map(|()| decided)
    }

    /// Decides plain charges as such if they are, and returns whether they were.
    fn shortened<C: Count>(
        limiter: &Limiter,
        asked: &Asked<'_>,
    ) -> (Result<BatchDecision, LimiterError>, bool) {
        let (limits, memory) = (limiter.in_force(), limiter.memory().unwrap());
        match limiter.spend_plain::<C, BatchDecision>(memory, &limits, &*asked.0) {
            Some(spent) => {
                let mut decided = BatchDecision::nothing();
                spent.show(&mut decided);
                assert_eq!(spent.are_allowed(), decided.allowed());
                (Ok(decided), true)
            }
            None => (in_full::<C>(limiter, asked), false),
        }
    }

    const NAMES: [&str; 16] = [
        "few", "few", "few", "few", "few", "few", "quota", "quota", "hourly", "hourly", "line",
        "window", "blocked", "shadow", "address", "address",
    ];

    const IDS: [&str; 5] = ["alice", "rich", "2001:db8::1", "2001:DB8::1", "192.0.2.7"];

    const MODES: [Mode; 4] = [
        Mode::CheckAndSpend,
        Mode::SpendOnly,
        Mode::CheckOnly,
        Mode::Debit,
    ];

    fn assert_same<C: Count>(len: usize, rare: usize) {
        const ROUNDS: usize = 8000;
        let clock = ManualClock::default();
        let (short, long) = (limiter(&clock), limiter(&clock));
        let mut random = 1_u64;
        let mut below = |n: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005);
            random = random.wrapping_add(1);
            usize::try_from(random >> 33).unwrap() % n
        };
        let (mut plain, mut denied) = (0, 0);
        for _ in 0..ROUNDS {
            // It also steps back.
            let back = 500_000 * u64::from(below(50) == 0);
            let now = clock.now().as_micros() + below(200_000) as u64;
            clock.set(Timestamp::from_micros(now.saturating_sub(back)));
            let asked = (0..len).map(|_| {
                let (all_names, all_modes) = (below(rare) == 0, below(rare) == 0);
                let name = below(if all_names { 16 } else { 10 });
                let mode = below(if all_modes { 4 } else { 1 });
                Transaction::new(NAMES[name], IDS[below(5)])
                    .cost(COSTS[below(12)])
                    .mode(MODES[mode])
            });
            let asked = Asked(asked.collect());
            let (ours, is_plain) = shortened::<C>(&short, &asked);
            let theirs = in_full::<C>(&long, &asked);
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
                assert_eq!(ours, theirs);
                for (ours, theirs) in ours.members().iter().zip(theirs.members()) {
                    assert_eq!(ours.receipt(), theirs.receipt());
                    assert_eq!(ours.source(), theirs.source());
                    assert_eq!(ours.granted(), theirs.granted());
                }
                denied += usize::from(is_plain && !ours.allowed());
            }
            plain += usize::from(is_plain);
        }
        assert!((ROUNDS / 50..ROUNDS * 9 / 10).contains(&plain), "{plain}");
        assert!((20..plain - 20).contains(&denied), "{denied} of {plain}");
    }

    #[test]
    fn plain_charges_are_decided_as_by_the_path_of_all_others() {
        assert_same::<Exactly<1>>(1, 2);
        assert_same::<Exactly<2>>(2, 4);
        assert_same::<Exactly<3>>(3, 6);
        assert_same::<Exactly<4>>(4, 8);
        assert_same::<Any>(4, 8);
    }
}
