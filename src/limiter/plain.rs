//! The most common decision: one charge of one bucket in memory, by GCRA without a line or with a quota.
//!
//! It could take the path of all decisions, with the same result. Here, the compiler knows that nothing else can happen, which
//! saves a third of the instructions. A test compares both. Metrics count such a charge here too; while a
//! subscriber receives the events of decisions, it takes the other path.

use super::{
    Limiter,
    capacity::{Capacity, One, Transactions},
    recorder::{count_spend, emits_events},
};
use crate::{
    backend::MemoryBackend,
    clock::Timestamp,
    decision::Decision,
    gcra::{Gcra, Tat},
    limit::{Limits, NamedLimit},
    transaction::{
        Algorithm, AlgorithmKey, ClientFingerprint, Fingerprint, Mode, Operation, Transaction,
    },
};

impl Limiter {
    /// Decides such a charge by GCRA; `None` if it is anything else, or an error.
    #[inline(always)]
    pub(super) fn decide_plain_gcra<C: Capacity>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: C::Transactions<'_>,
    ) -> Option<C::Decided> {
        let (memory, transaction) = self.plain::<C>(operation, transactions)?;
        let decision = self.spend_by_gcra(memory, limits, transaction)?.decision();
        count_spend(limits, transaction, &decision);
        Some(C::of_one(decision))
    }

    /// Decides the spend of a transaction, if it is such a charge by GCRA.
    #[inline(always)]
    pub(crate) fn spend_plain<'a>(
        &self,
        limits: &'a Limits,
        transaction: &Transaction<'_>,
    ) -> Option<PlainCharge<'a>> {
        let (memory, transaction) = self.plain::<One>(Operation::Spend, transaction)?;
        let charge = self.spend_by_gcra(memory, limits, transaction)?;
        // The decision is only assembled if it is counted.
        if cfg!(feature = "metrics") {
            count_spend(limits, transaction, &charge.decision());
        }
        Some(charge)
    }

    /// Decides such a charge with a quota. Apart, to keep the function for GCRA small.
    #[inline(never)]
    pub(super) fn decide_plain_quota<C: Capacity>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: C::Transactions<'_>,
    ) -> Option<C::Decided> {
        let (memory, transaction) = self.plain::<C>(operation, transactions)?;
        let decision = self.spend_from_quota(memory, limits, transaction)?;
        count_spend(limits, transaction, &decision);
        Some(C::of_one(decision))
    }

    /// Decides a transaction, if it is such a charge by GCRA, and if the limits have never been replaced.
    #[inline(always)]
    pub(super) fn try_plain(&self, transaction: &Transaction<'_>) -> Option<Decision> {
        let limits = self.shared.limits.first()?;
        self.decide_plain_gcra::<One>(limits, Operation::Spend, transaction)
    }

    /// Returns the only transaction, if it is a charge in memory without events.
    #[inline(always)]
    fn plain<'t, C: Capacity>(
        &self,
        operation: Operation,
        transactions: C::Transactions<'t>,
    ) -> Option<(&MemoryBackend, &'t Transaction<'t>)> {
        let transaction = transactions.only()?;
        let memory = self.shared.backend.memory()?;
        let is_plain = operation == Operation::Spend && !emits_events();
        is_plain.then_some((memory, transaction))
    }

    #[inline(always)]
    fn spend_by_gcra<'a>(
        &self,
        memory: &MemoryBackend,
        limits: &'a Limits,
        transaction: &Transaction<'_>,
    ) -> Option<PlainCharge<'a>> {
        let cost = transaction.cost;
        let (named, algorithm) = plain_terms(limits, transaction)?;
        let Algorithm::Gcra(gcra) = algorithm else {
            return None;
        };
        if gcra.max_wait_us() > 0 || cost == 0 || cost > gcra.burst() {
            return None;
        }
        let now = self.now_in(memory)?;
        let print = client_of(named, transaction).bucket(AlgorithmKey::Gcra);
        let recorder = self.recorder(limits, Operation::Spend);
        let charge = PlainCharge {
            gcra,
            print,
            cost,
            charged: memory.spend(print, gcra, cost, now),
            now,
        };
        recorder.applied();
        Some(charge)
    }

    #[inline(always)]
    fn spend_from_quota(
        &self,
        memory: &MemoryBackend,
        limits: &Limits,
        transaction: &Transaction<'_>,
    ) -> Option<Decision> {
        let cost = transaction.cost;
        let (named, algorithm) = plain_terms(limits, transaction)?;
        let Algorithm::Quota(quota) = algorithm else {
            return None;
        };
        if cost == 0 || cost > quota.quota() {
            return None;
        }
        let now = self.now_in(memory)?;
        let print = client_of(named, transaction).bucket(AlgorithmKey::Quota);
        let recorder = self.recorder(limits, Operation::Spend);
        let charged = memory.spend_quota(print, quota, cost, now);
        recorder.applied();
        Some(Decision::plain_quota(quota, print, cost, charged, now))
    }

    /// Returns the time, unless nothing can be decided at it.
    #[inline(always)]
    fn now_in(&self, memory: &MemoryBackend) -> Option<Timestamp> {
        let now = self.now().unwrap_or_else(|| memory.now());
        now.validate().ok().map(|()| now)
    }
}

/// A plain charge by GCRA that is decided. Its decision is large, and assembled only if it is needed.
pub(crate) struct PlainCharge<'a> {
    gcra: &'a Gcra,
    print: Fingerprint,
    cost: u32,
    /// The TAT afterwards; if it is denied, the unchanged one.
    charged: Result<Tat, Tat>,
    now: Timestamp,
}

impl PlainCharge<'_> {
    #[inline(always)]
    pub(crate) fn is_allowed(&self) -> bool {
        self.charged.is_ok()
    }

    #[inline(always)]
    pub(crate) fn decision(&self) -> Decision {
        Decision::plain_gcra(self.gcra, self.print, self.cost, self.charged, self.now)
    }
}

/// Returns the limit of a transaction and its algorithm, if the cost is charged whole or not at all, and the limit has no
/// shadow mode and no leases.
#[inline(always)]
fn plain_terms<'a>(
    limits: &'a Limits,
    transaction: &Transaction<'_>,
) -> Option<(&'a NamedLimit, &'a Algorithm)> {
    let Transaction { id, mode, .. } = *transaction;
    let named = limits.find(transaction.limit)?;
    let is_canonical = transaction.is_canonical() || named.name.format().keeps(id);
    if !is_canonical
        || limits.is_shadow(named)
        || mode != Mode::CheckAndSpend
        || transaction.min_cost.is_some()
    {
        return None;
    }
    Some((named, named.in_force(id)?.unleased()?))
}

#[inline(always)]
fn client_of(named: &NamedLimit, transaction: &Transaction<'_>) -> ClientFingerprint {
    let known = transaction.fingerprint();
    known.unwrap_or_else(|| named.seed().client(transaction.id))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Limit, MemoryBackend,
        clock::{Clock, ManualClock},
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

    fn in_full(limiter: &Limiter, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        let limits = limiter.in_force();
        let decided = limiter.try_decide_in_full::<One>(&limits, Operation::Spend, transaction);
        decided.expect("memory does not wait")
    }

    /// Decides a transaction without a batch if possible, and returns whether it was.
    fn shortened(
        limiter: &Limiter,
        transaction: &Transaction<'_>,
    ) -> (Result<Decision, LimiterError>, bool) {
        let limits = limiter.in_force();
        let memory = limiter.shared.backend.memory().unwrap();
        let decided = limiter
            .spend_by_gcra(memory, &limits, transaction)
            .map(|charge| charge.decision())
            .or_else(|| limiter.spend_from_quota(memory, &limits, transaction));
        match decided {
            Some(decision) => (Ok(decision), true),
            None => (in_full(limiter, transaction), false),
        }
    }

    #[test]
    fn plain_charges_are_decided_as_by_the_path_of_all_others() {
        const ROUNDS: usize = 8000;
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
        let clock = ManualClock::default();
        let (short, long) = (limiter(&clock), limiter(&clock));
        let mut random = 1_u64;
        let mut below = |n: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005);
            random = random.wrapping_add(1);
            usize::try_from(random >> 33).unwrap() % n
        };
        let mut plain = 0;
        for _ in 0..ROUNDS {
            // It also steps back.
            let back = 500_000 * u64::from(below(50) == 0);
            let now = clock.now().as_micros() + below(200_000) as u64;
            clock.set(Timestamp::from_micros(now.saturating_sub(back)));
            let transaction = Transaction::new(NAMES[below(16)], IDS[below(5)])
                .cost(COSTS[below(12)])
                .mode(MODES[below(8).saturating_sub(4)]);
            let (ours, is_plain) = shortened(&short, &transaction);
            let theirs = in_full(&long, &transaction);
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
                assert_eq!((ours, ours.receipt()), (theirs, theirs.receipt()));
                assert_eq!(ours.source(), theirs.source());
                assert_eq!(ours.granted(), theirs.granted());
            }
            plain += usize::from(is_plain);
        }
        assert!((ROUNDS / 10..ROUNDS * 9 / 10).contains(&plain), "{plain}");
    }
}
