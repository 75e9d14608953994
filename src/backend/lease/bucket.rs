//! The units of one bucket that a process holds.

use std::sync::Arc;

use tokio::sync::Notify;

use super::{
    leasable::{Holding, Leasable, Stock, period_of},
    moment::Moment,
};
use crate::{
    clock::Timestamp,
    decision::State,
    transaction::{Member, OwnedMember, Receipt},
};

/// The number of uses between two sweeps from which a bucket is charged ahead.
const HEAVY: u32 = 3;

/// The longest time, in microseconds, by which an answer can overtake another one. A decision has its deadline.
const OVERTAKEN: u64 = 1_000_000;

/// The units of one bucket that this process has charged ahead.
pub(super) struct LeasedBucket {
    /// The bucket, as it was charged.
    member: OwnedMember,
    algorithm: Leasable,
    /// The time of the last use, if a client's clock was used.
    at: Option<Timestamp>,
    /// The most unspent units that the process can hold.
    most: u32,
    /// The units to hand out.
    held: Stock,
    /// The state that the store had last, by the clock of this process, and the time of that answer by the store's.
    said: Option<(State, Timestamp)>,
    /// The units taken by batches that are not decided yet.
    lent: u32,
    /// The units that are being charged at the store.
    coming: u32,
    /// The size of the last portion charged ahead.
    portion: u32,
    /// The number of uses since the last sweep.
    uses: u32,
    /// The number of portions charged ahead since the last sweep.
    refills: u32,
    /// Wakes the requests that wait for the charge.
    waiting: Arc<Notify>,
}

/// Units to give back to the store, at the rate at which they were charged.
pub(super) struct Return {
    pub(super) member: OwnedMember,
    pub(super) receipt: Receipt,
    /// The time, if a client's clock is used.
    pub(super) at: Option<Timestamp>,
}

/// The answer of a bucket to a request.
#[derive(Debug)]
pub(super) enum LeaseAnswer {
    /// The cost was taken, and this much is left.
    Taken(Holding),
    /// More units are being charged. `Notify` wakes the caller when the charge ends.
    Wait(Arc<Notify>),
    /// The caller should charge this many units beyond its cost.
    Charge(u32),
    /// The store decides.
    Ask,
}

impl LeasedBucket {
    pub(super) fn new(member: &Member<'_>, algorithm: Leasable) -> Self {
        Self {
            member: OwnedMember::from(member),
            algorithm,
            at: None,
            most: member.leased,
            held: Stock::default(),
            said: None,
            lent: 0,
            coming: 0,
            portion: 0,
            uses: 1,
            refills: 0,
            waiting: Arc::default(),
        }
    }

    /// Adapts to the time and to the limit in force. Gives back units that were charged under another limit, and those
    /// above the new maximum.
    pub(super) fn adapt(
        &mut self,
        moment: Moment,
        member: &Member<'_>,
        algorithm: Leasable,
    ) -> Option<Return> {
        self.at = moment.given();
        self.expire(moment);
        if self.algorithm == algorithm && self.most == member.leased {
            return None;
        }
        let is_same = self.algorithm == algorithm;
        let kept = if is_same { member.leased } else { 0 };
        let excess = self.give_up(self.held.units.saturating_sub(kept));
        if !is_same {
            self.said = None;
        }
        (self.member, self.algorithm) = (OwnedMember::from(member), algorithm);
        self.most = member.leased;
        excess
    }

    /// Forgets units that were charged for a period that is over.
    pub(super) fn expire(&mut self, moment: Moment) {
        if !self.algorithm.counts(self.held.period, moment) {
            self.held.units = 0;
        }
    }

    /// Takes `cost` from the held units, or returns where to get it.
    pub(super) fn attempt(&mut self, cost: u32) -> LeaseAnswer {
        self.uses = self.uses.saturating_add(1);
        if self.take(cost) {
            return LeaseAnswer::Taken(self.holding());
        }
        if self.coming > 0 {
            return LeaseAnswer::Wait(Arc::clone(&self.waiting));
        }
        match self.begin_to_charge(cost) {
            0 => LeaseAnswer::Ask,
            ahead => LeaseAnswer::Charge(ahead),
        }
    }

    pub(super) fn take(&mut self, cost: u32) -> bool {
        let left = self.held.units.checked_sub(cost);
        self.held.units = left.unwrap_or(self.held.units);
        left.is_some()
    }

    /// Returns how many units to charge ahead beyond `cost`: twice the last portion, as far as there is room. Returns 0 if
    /// a charge is already under way or the bucket is hardly used.
    pub(super) fn begin_to_charge(&mut self, cost: u32) -> u32 {
        if self.uses < HEAVY || self.coming > 0 {
            return 0;
        }
        let room = self.most.saturating_sub(self.held.units + self.lent);
        let fits = self.algorithm.most().saturating_sub(cost);
        self.portion = self.portion.saturating_mul(2).clamp(1, self.most.max(1));
        self.coming = self.portion.min(room).min(fits);
        self.refills += u32::from(self.coming > 0);
        self.coming
    }

    /// Ends a charge that has brought `come`. Units that were held for another period are worthless, and are replaced.
    /// A charge that brought nothing resets the portion, so that the next one starts small.
    pub(super) fn charged(&mut self, come: Stock) {
        match come.units {
            0 => self.portion = 0,
            _ if self.held.period == come.period => self.held.units += come.units,
            _ => self.held = come,
        }
        self.coming = 0;
        self.waiting.notify_waiters();
    }

    pub(super) fn is_charging(&self) -> bool {
        self.coming > 0
    }

    /// Takes units for a batch that is not decided yet.
    pub(super) fn lend(&mut self, cost: u32) -> bool {
        self.uses = self.uses.saturating_add(1);
        let lends = self.take(cost);
        self.lent += cost * u32::from(lends);
        lends
    }

    /// Ends a loan. Units that were not spent are held again, unless they are of another period, in which they are
    /// worthless.
    pub(super) fn lent(&mut self, loan: Stock, is_spent: bool) {
        self.lent -= loan.units;
        if !is_spent && loan.period == self.held.period {
            self.held.units += loan.units;
        }
    }

    /// Takes back the units of a client's refund, if they are worth as much as the held ones and there is room.
    pub(super) fn take_back(&mut self, refund: &Member<'_>) -> bool {
        let all = [self.held.units, self.lent, self.coming, refund.cost];
        let fits = all.iter().map(|units| u64::from(*units)).sum::<u64>() <= self.most.into();
        let takes = fits && self.algorithm.is_worth(refund, self.held.period);
        self.held.units += refund.cost * u32::from(takes);
        takes
    }

    pub(super) fn held(&self) -> Stock {
        self.held
    }

    pub(super) fn holding(&self) -> Holding {
        Holding {
            stock: self.held,
            said: self.said.map(|(state, _)| state),
        }
    }

    /// Records a state, if the store has answered it, at this instant of its clock. Returns the held units that the state
    /// counts as charged. An answer that another one has overtaken is ignored, but not that of a store whose clock has
    /// stepped back.
    pub(super) fn hear(&mut self, state: State, at: Option<Timestamp>) -> u32 {
        let last = self.said.map_or(0, |(_, last)| last.as_micros());
        let is_late =
            |at: &Timestamp| (1..OVERTAKEN).contains(&last.saturating_sub(at.as_micros()));
        if let Some(at) = at.filter(|at| !is_late(at))
            && self.algorithm.has_state(state)
        {
            self.said = Some((state, at));
        }
        match period_of(state) == self.held.period {
            true => self.held.units,
            false => 0,
        }
    }

    pub(super) fn uses(&self) -> u32 {
        self.uses
    }

    /// Returns whether it holds nothing and is hardly used.
    pub(super) fn is_idle(&self) -> bool {
        self.held.units == 0 && self.lent == 0 && self.coming == 0 && self.uses < HEAVY
    }

    /// Adapts to the use since the last sweep. A bucket that was not used gives up all its units. One that needed no
    /// further portion keeps half of its portion, and gives up the rest.
    pub(super) fn sweep(&mut self) -> Option<Return> {
        let kept = match (self.uses, self.refills) {
            (0, _) => 0,
            (_, 0) => self.portion / 2,
            _ => self.held.units,
        };
        if self.refills == 0 {
            self.portion = kept;
        }
        (self.uses, self.refills) = (0, 0);
        self.give_up(self.held.units.saturating_sub(kept))
    }

    /// Gives up all units.
    pub(super) fn close(&mut self) -> Option<Return> {
        self.give_up(self.held.units)
    }

    fn give_up(&mut self, units: u32) -> Option<Return> {
        self.held.units -= units;
        if let Some((state, _)) = &mut self.said {
            let stock = Stock { units, ..self.held };
            *state = self.algorithm.given_back(*state, stock);
        }
        let member = self.member.lend();
        let charge = self.algorithm.charge(self.held);
        let receipt = Receipt::new(member.fingerprint, charge, units, false);
        (units > 0).then(|| Return {
            member: OwnedMember::from(&member),
            receipt,
            at: self.at,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        gcra::{Gcra, Tat},
        transaction::{Algorithm, BucketKey, LimitKey, Mode},
    };

    const MOST: u32 = 10;

    fn bucket() -> LeasedBucket {
        let gcra = Gcra::new(100, 10, Duration::from_secs(1)).unwrap();
        let algorithm = Algorithm::Gcra(gcra);
        let key = BucketKey::new(LimitKey::Number(1), "alice");
        let mut member = Member::new(key, &algorithm, 1, Mode::CheckAndSpend);
        member.leased = MOST;
        LeasedBucket::new(&member, Leasable::Gcra(gcra))
    }

    fn units(units: u32) -> Stock {
        Stock { units, period: 0 }
    }

    fn give_back(bucket: &mut LeasedBucket, cost: u32) -> bool {
        let owned = OwnedMember::from(&bucket.member.lend());
        let refund = Member {
            cost,
            ..owned.lend()
        };
        bucket.take_back(&refund)
    }

    /// As with a process whose clock is behind that of the store.
    #[test]
    fn units_of_a_period_before_are_dropped() {
        let mut bucket = bucket();
        let charged = |units, period| Stock { units, period };
        bucket.charged(charged(4, 1));
        assert!(bucket.lend(1) && bucket.held == charged(3, 1));
        bucket.charged(charged(2, 2));
        assert_eq!(bucket.held, charged(2, 2));
        bucket.lent(charged(1, 1), false);
        assert_eq!((bucket.held, bucket.lent), (charged(2, 2), 0));
    }

    #[test]
    fn state_of_an_overtaken_answer_is_ignored_unless_the_clock_of_the_store_has_stepped_back() {
        let mut bucket = bucket();
        bucket.charged(units(4));
        let state = |us| State::Gcra(Tat::from_micros(us));
        let second = 1_000_000;
        for (at, us, heard) in [
            (9 * second, 5, 5),
            (9 * second - 1, 7, 5),
            (9 * second, 6, 6),
            (8 * second, 8, 8),
            (9 * second, 9, 9),
        ] {
            assert_eq!(bucket.hear(state(us), Some(Timestamp::from_micros(at))), 4);
            assert_eq!(bucket.holding().said, Some(state(heard)), "{at} {us}");
        }
        assert_eq!(bucket.hear(state(1), None), 4);
        assert_eq!(bucket.holding().said, Some(state(9)), "a cached denial");
        let other = State::Quota(crate::quota::Usage::NOTHING);
        bucket.hear(other, Some(Timestamp::from_micros(10 * second)));
        assert_eq!(
            bucket.holding().said,
            Some(state(9)),
            "of another algorithm"
        );
    }

    #[test]
    fn no_more_is_held_lent_or_coming_than_may_be() {
        let mut bucket = bucket();
        let mut seed = 1_u64;
        let mut random = |n: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from((seed >> 33) % u64::from(n)).unwrap()
        };
        let (mut loans, mut most) = (Vec::new(), 0);
        for _ in 0..20_000 {
            let cost = 1 + random(4);
            match random(8) {
                0 if bucket.coming > 0 => {
                    bucket.charged(units([0, bucket.coming][random(2) as usize]));
                }
                1 => drop(bucket.sweep()),
                2 => drop(give_back(&mut bucket, cost)),
                3 if bucket.lend(cost) => loans.push(cost),
                4 if !loans.is_empty() => bucket.lent(units(loans.swap_remove(0)), random(2) > 0),
                _ => drop(bucket.attempt(cost)),
            }
            let all = bucket.held.units + bucket.lent + bucket.coming;
            assert!(all <= MOST && bucket.lent == loans.iter().sum::<u32>());
            most = all.max(most);
        }
        assert_eq!(most, MOST, "all of it is used");
    }
}
