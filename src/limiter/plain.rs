//! The most common decision: one charge, of one bucket by GCRA, in memory.
//!
//! It could take the path of all decisions, with the same result. Here, the compiler knows that nothing else can happen, which
//! saves half of the instructions.

use super::{
    Limiter,
    capacity::{Capacity, One, Transactions},
    recorder::listens,
};
use crate::{
    backend::MemoryBackend,
    decision::Decision,
    limit::Limits,
    transaction::{Mode, Operation, Transaction},
};

impl Limiter {
    /// Decides a single charge of a bucket by GCRA in memory; `None` if it is anything else, or an error.
    #[inline(always)]
    pub(super) fn decide_plain<C: Capacity>(
        &self,
        limits: &Limits,
        operation: Operation,
        transactions: C::Transactions<'_>,
    ) -> Option<C::Decided> {
        let transaction = transactions.only()?;
        let memory = self.shared.backend.memory()?;
        if operation != Operation::Spend || listens(operation) {
            return None;
        }
        let decided = self.spend_plain(memory, limits, transaction)?;
        Some(C::of_one(decided))
    }

    /// Spends a transaction, if that is such a charge, and if the limits have never been replaced.
    #[inline(always)]
    pub(super) fn try_plain(&self, transaction: &Transaction<'_>) -> Option<Decision> {
        let limits = self.shared.limits.first()?;
        self.decide_plain::<One>(limits, Operation::Spend, transaction)
    }

    #[inline(always)]
    fn spend_plain(
        &self,
        memory: &MemoryBackend,
        limits: &Limits,
        transaction: &Transaction<'_>,
    ) -> Option<Decision> {
        let Transaction { id, cost, .. } = *transaction;
        let named = limits.find(transaction.limit)?;
        let is_canonical = transaction.is_canonical() || named.name.format().keeps(id);
        if !is_canonical
            || limits.is_shadow(named)
            || transaction.mode != Mode::CheckAndSpend
            || transaction.min_cost.is_some()
        {
            return None;
        }
        let gcra = named.in_force(id)?.plain()?;
        if cost == 0 || cost > gcra.burst() {
            return None;
        }
        let now = self.now().unwrap_or_else(|| memory.now());
        now.validate().ok()?;
        let known = transaction.fingerprint();
        let fingerprint = known.unwrap_or_else(|| named.seed().bucket(id));
        let charged = memory.spend(fingerprint, gcra, cost, now);
        Some(Decision::plain(gcra, fingerprint, cost, charged, now))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        Limit, MemoryBackend, clock::ManualClock, id::IdFormat, limit::LimitName,
        limiter::LimiterError,
    };

    fn limits() -> Limits {
        let line = Limit::per_second(3).burst(2);
        let line = line.max_wait(Duration::from_secs(1));
        let builder = Limits::builder()
            .limit("few", Limit::per_second(7).burst(5))
            .limit("line", line)
            .limit("window", Limit::window(4, Duration::from_secs(2)))
            .limit("blocked", Limit::BLOCKED)
            .limit(
                LimitName::new("shadow", 1, IdFormat::Opaque).shadow(true),
                Limit::per_second(1),
            )
            .limit(
                LimitName::new("address", 2, IdFormat::IpAddress),
                Limit::per_second(2).burst(3),
            )
            .override_for("few", "rich", Limit::per_second(20).burst(9));
        builder.build().unwrap()
    }

    fn limiter(clock: &ManualClock) -> Limiter {
        Limiter::new(limits(), MemoryBackend::new()).with_clock(clock.clone())
    }

    fn in_full(limiter: &Limiter, transaction: &Transaction<'_>) -> Result<Decision, LimiterError> {
        let limits = limiter.in_force();
        let decided = limiter.try_decide_any::<One>(&limits, Operation::Spend, transaction);
        decided.expect("memory does not wait")
    }

    #[test]
    fn plain_charges_are_decided_as_by_the_path_of_all_others() {
        const ROUNDS: u64 = 20_000;
        let clock = ManualClock::default();
        let (short, long) = (limiter(&clock), limiter(&clock));
        let mut random = 1_u64;
        let mut below = move |n: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % n
        };
        let names = ["few", "line", "window", "blocked", "shadow", "address"];
        let ids = ["alice", "rich", "2001:db8::1", "2001:DB8::1", "192.0.2.7"];
        let modes = [
            Mode::CheckAndSpend,
            Mode::SpendOnly,
            Mode::CheckOnly,
            Mode::Debit,
        ];
        let mut plain = 0;
        for _ in 0..ROUNDS {
            clock.advance(Duration::from_micros(below(200_000)));
            let pick = |n: u64| usize::try_from(n).unwrap();
            // Half of them are plain.
            let name = names[pick(below(12)) % 7 % 6];
            let transaction = Transaction::new(name, ids[pick(below(5))])
                .cost(u32::try_from(below(5)).unwrap())
                .mode(modes[pick(below(8).saturating_sub(4))]);
            let limits = short.in_force();
            let memory = short.shared.backend.memory().unwrap();
            let at_once = short.spend_plain(memory, &limits, &transaction);
            plain += u64::from(at_once.is_some());
            let ours = at_once.map_or_else(|| in_full(&short, &transaction), Ok);
            let theirs = in_full(&long, &transaction);
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
                assert_eq!((ours, ours.receipt()), (theirs, theirs.receipt()));
                assert_eq!(ours.granted(), theirs.granted());
            }
        }
        assert!((ROUNDS / 10..ROUNDS * 9 / 10).contains(&plain), "{plain}");
    }
}
