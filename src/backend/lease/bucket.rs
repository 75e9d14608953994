//! The units of one bucket that a process holds.

use std::sync::Arc;

use tokio::sync::Notify;

use super::{
    leased_member::{DecisionTime, LeasedMember},
    leased_units::{Holding, LeasedUnits},
    supply::Supply,
};
use crate::{
    algorithm::Algorithm,
    clock::Timestamp,
    decision::State,
    transaction::{Member, OwnedMember, Receipt},
};

/// The number of uses between two sweeps from which a bucket is charged ahead.
const HEAVY: u32 = 3;

/// The longest time, in microseconds, by which an answer can overtake another one. A decision has its deadline.
const OVERTAKEN: u64 = 1_000_000;

/// The units of one bucket that this process has charged ahead.
///
/// At any time, at most `most` units are held, lent, coming or returning, unless `most` has just been lowered. Each unit
/// is in one of these states, and goes from one to the next:
///
/// - `coming` → held: the store has charged it ([`charged`](Self::charged)).
/// - held → spent: a request takes it ([`take`](Self::take)).
/// - held → `lent` → spent or held: a batch takes it before the store decides the rest ([`lend`](Self::lend),
///   [`lent`](Self::lent)).
/// - held → `returning` → returned or held: it is refunded, or the store says that it was not ([`give_up`](Self::give_up),
///   [`returned`](Self::returned)). A refund that the store has yet to make is no room for another charge.
///
/// Units that come back after the limit has changed are not held again, but returned at the rate of their charge.
pub(super) struct LeasedBucket {
    /// The bucket, as it was charged.
    member: OwnedMember,
    algorithm: Algorithm,
    /// The time of the last use, if a client's clock was used.
    at: Option<Timestamp>,
    /// The most unspent units that the process can hold.
    most: u32,
    /// The units to hand out.
    held: LeasedUnits,
    /// The state that the store had last, by the clock of this process, and the time of that answer by the store's.
    said: Option<(State, Timestamp)>,
    supply: Supply,
    /// The units taken by batches that are not decided yet.
    lent: u32,
    /// The units that are being charged at the store. As long as there are any, a [`ChargeAhead`](super::charge) exists
    /// that ends with [`charged`](Self::charged).
    coming: u32,
    /// The units that are being refunded.
    returning: u32,
    /// The size of the last portion charged ahead.
    portion: u32,
    /// The number of uses since the last sweep.
    uses: u32,
    /// The number of portions charged ahead since the last sweep.
    refills: u32,
    /// Wakes the requests that wait for the charge.
    waiting: Arc<Notify>,
}

/// Units to give back to the store.
pub(super) struct Return {
    /// The bucket, with the limit by which they were charged.
    pub(super) member: OwnedMember,
    pub(super) receipt: Receipt,
    amount: LeasedUnits,
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
    pub(super) fn new(leased: LeasedMember<'_>) -> Self {
        let LeasedMember { member, most } = leased;
        Self {
            member: OwnedMember::from(member),
            algorithm: member.algorithm.clone(),
            at: None,
            most,
            held: LeasedUnits::default(),
            said: None,
            supply: Supply::default(),
            lent: 0,
            coming: 0,
            returning: 0,
            portion: 0,
            uses: 1,
            refills: 0,
            waiting: Arc::default(),
        }
    }

    /// Adapts to the time and to the limit in force. Gives back units that were charged under another limit, and those
    /// above the new maximum.
    pub(super) fn adapt(&mut self, when: DecisionTime, leased: LeasedMember<'_>) -> Option<Return> {
        let LeasedMember { member, most } = leased;
        self.at = when.given();
        self.expire(when);
        let is_same = self.algorithm == *member.algorithm;
        if is_same && self.most == most {
            return None;
        }
        let kept = if is_same { most } else { 0 };
        let excess = self.give_up(self.held.units.saturating_sub(kept));
        // Nothing of another limit is held, so units of this one are not replaced by those of another period.
        if !is_same {
            self.held = LeasedUnits::default();
            self.said = None;
            self.supply.forget();
        }
        (self.member, self.algorithm) = (OwnedMember::from(member), member.algorithm.clone());
        self.most = most;
        excess
    }

    /// Forgets units that were charged for a period that is over.
    pub(super) fn expire(&mut self, when: DecisionTime) {
        if !self.algorithm.counts_in(self.held.period, when.now()) {
            self.held.units = 0;
        }
    }

    /// Takes `cost` from the held units, or returns where to get it.
    pub(super) fn attempt(&mut self, cost: u32, now: Timestamp) -> LeaseAnswer {
        self.uses = self.uses.saturating_add(1);
        if self.take(cost) {
            return LeaseAnswer::Taken(self.holding());
        }
        if self.coming > 0 {
            return LeaseAnswer::Wait(Arc::clone(&self.waiting));
        }
        match self.begin_to_charge(cost, cost, now) {
            0 => LeaseAnswer::Ask,
            ahead => LeaseAnswer::Charge(ahead),
        }
    }

    pub(super) fn take(&mut self, cost: u32) -> bool {
        let takes = self.remove(cost);
        if takes {
            self.supply.save();
        }
        takes
    }

    fn remove(&mut self, cost: u32) -> bool {
        let left = self.held.units.checked_sub(cost);
        self.held.units = left.unwrap_or(self.held.units);
        left.is_some()
    }

    /// Returns how many units to charge ahead beyond `cost`: twice the last portion, as far as there is room and the store
    /// should have as many. Returns 0 if a charge is already under way, the bucket is hardly used, or a request of the
    /// cost `next` could not be decided afterwards.
    pub(super) fn begin_to_charge(&mut self, cost: u32, next: u32, now: Timestamp) -> u32 {
        if self.uses < HEAVY || self.coming > 0 {
            return 0;
        }
        let all = self.held.units + self.lent + self.returning;
        let room = self.most.saturating_sub(all);
        let fits = self
            .algorithm
            .divisible()
            .map_or(0, |most| most.saturating_sub(cost));
        let portion = self.portion.saturating_mul(2).max(next).min(self.most);
        let said = self.said.as_ref();
        let left = said.map_or(0, |(state, _)| self.algorithm.left(*state, now));
        self.portion = portion.min(self.supply.expected(left).saturating_sub(cost));
        let ahead = self.portion.min(room).min(fits);
        self.coming = if self.held.units + ahead < next {
            0
        } else {
            ahead
        };
        self.refills += u32::from(self.coming > 0);
        self.coming
    }

    /// Ends a charge that has brought `come` under a limit. Units that were held for another period are worthless, and
    /// are replaced. A charge that brought nothing resets the portion, so that the next one starts small.
    pub(super) fn charged(&mut self, come: LeasedUnits, algorithm: &Algorithm) -> Option<Return> {
        self.coming = 0;
        self.waiting.notify_waiters();
        if self.algorithm != *algorithm {
            return self.give_back(come, algorithm);
        }
        match come.units {
            0 => {
                self.portion = 0;
                self.supply.waste();
            }
            _ if self.held.period == come.period => self.held.units += come.units,
            _ => self.held = come,
        }
        self.give_up_excess()
    }

    pub(super) fn is_charging(&self) -> bool {
        self.coming > 0
    }

    /// Takes units for a batch that is not decided yet.
    pub(super) fn lend(&mut self, cost: u32) -> bool {
        self.uses = self.uses.saturating_add(1);
        let lends = self.remove(cost);
        self.lent += cost * u32::from(lends);
        lends
    }

    /// Ends a loan from a limit. Units that were not spent are held again, unless they are of another period, in which
    /// they are worthless.
    pub(super) fn lent(
        &mut self,
        loan: LeasedUnits,
        algorithm: &Algorithm,
        is_spent: bool,
    ) -> Option<Return> {
        self.lent -= loan.units;
        if is_spent {
            return None;
        }
        if self.algorithm != *algorithm {
            return self.give_back(loan, algorithm);
        }
        if loan.period == self.held.period {
            self.held.units += loan.units;
        }
        self.give_up_excess()
    }

    /// Ends the return of units. If the store has not refunded them, they are held again, as far as there is room. They
    /// are then returned later.
    pub(super) fn returned(&mut self, units: &Return, is_done: bool) {
        let Return { member, amount, .. } = units;
        self.returning -= amount.units;
        let is_same = self.algorithm == *member.as_member().algorithm;
        if !is_done && is_same && self.has_room_for(amount.units) {
            match self.held.units {
                0 => self.held = *amount,
                _ if self.held.period == amount.period => self.held.units += amount.units,
                _ => {}
            }
        }
    }

    /// Takes back the units of a client's refund, if they are worth as much as the held ones and there is room. Other refunds
    /// go to the store:
    ///
    /// - of a period that is over, because nothing can be given back;
    /// - of debt, because units that nobody was granted must not be handed out here.
    pub(super) fn take_back(&mut self, now: Timestamp, refund: &Member<'_>) -> bool {
        let is_in_debt = |(state, _): (State, Timestamp)| !self.algorithm.fits(state, now, 0);
        let (given, cost) = (refund.refund(), refund.cost);
        let takes = self.has_room_for(cost)
            && self.algorithm.counts_in(self.held.period, now)
            && self.algorithm.is_worth(given, cost, self.held.period)
            && !self.said.is_some_and(is_in_debt);
        self.held.units += refund.cost * u32::from(takes);
        takes
    }

    fn has_room_for(&self, units: u32) -> bool {
        let all = [
            self.held.units,
            self.lent,
            self.coming,
            self.returning,
            units,
        ];
        all.iter().map(|units| u64::from(*units)).sum::<u64>() <= self.most.into()
    }

    pub(super) fn held(&self) -> LeasedUnits {
        self.held
    }

    pub(super) fn holding(&self) -> Holding {
        Holding {
            amount: self.held,
            said: self.said.map(|(state, _)| state),
        }
    }

    /// Records a state, if the store has answered it, at this instant of its clock. Returns the held units that the state
    /// counts as charged. An answer that another one has overtaken is ignored, but not that of a store whose clock has
    /// stepped back. `now` is the time of the answer by the clock of this process.
    pub(super) fn hear(&mut self, state: State, at: Option<Timestamp>, now: Timestamp) -> u32 {
        let last = self.said.map_or(0, |(_, last)| last.as_micros());
        let is_late =
            |at: &Timestamp| (1..OVERTAKEN).contains(&last.saturating_sub(at.as_micros()));
        let period = self.algorithm.period_of(state);
        if let Some(at) = at.filter(|at| !is_late(at))
            && period.is_some()
        {
            self.said = Some((state, at));
            self.supply.hear(self.algorithm.left(state, now));
        }
        match period == Some(self.held.period) {
            true => self.held.units,
            false => 0,
        }
    }

    pub(super) fn uses(&self) -> u32 {
        self.uses
    }

    /// Returns whether units are being charged, lent or returned.
    pub(super) fn is_unsettled(&self) -> bool {
        self.lent > 0 || self.coming > 0 || self.returning > 0
    }

    /// Returns whether it holds nothing and is hardly used. Only such a bucket can be removed, so that each charge, loan
    /// and return ends at the bucket at which it began.
    pub(super) fn is_idle(&self) -> bool {
        self.held.units == 0 && !self.is_unsettled() && self.uses < HEAVY
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

    /// Gives up held units for which there is no longer room, because the limit has been lowered meanwhile.
    fn give_up_excess(&mut self) -> Option<Return> {
        let all = self.held.units + self.lent + self.coming;
        let excess = all.saturating_sub(self.most);
        self.give_up(excess.min(self.held.units))
    }

    fn give_up(&mut self, units: u32) -> Option<Return> {
        if units > 0 {
            self.supply.waste();
        }
        self.held.units -= units;
        if let Some((state, _)) = &mut self.said {
            *state = self.algorithm.after_return(*state, self.held.period, units);
        }
        let algorithm = self.algorithm.clone();
        self.give_back(LeasedUnits { units, ..self.held }, &algorithm)
    }

    /// Begins to return units that are not held.
    fn give_back(&mut self, amount: LeasedUnits, algorithm: &Algorithm) -> Option<Return> {
        let member = Member {
            algorithm,
            ..self.member.as_member()
        };
        let charge = algorithm
            .charge_in(amount.period)
            .filter(|_| amount.units > 0)?;
        self.returning += amount.units;
        Some(Return {
            member: OwnedMember::from(&member),
            receipt: Receipt::new(member.fingerprint, charge, amount.units, false),
            amount,
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
        transaction::{BucketKey, LimitKey, Mode},
    };

    const MOST: u32 = 10;

    fn bucket() -> LeasedBucket {
        let gcra = Gcra::new(100, 10, Duration::from_secs(1)).unwrap();
        let algorithm = Algorithm::Gcra(gcra);
        let key = BucketKey::new(LimitKey::Number(1), "alice");
        let member = Member::new(key, &algorithm, 1, Mode::CheckAndSpend);
        LeasedBucket::new(LeasedMember {
            member: &member,
            most: MOST,
        })
    }

    fn units(units: u32) -> LeasedUnits {
        LeasedUnits { units, period: 0 }
    }

    fn give_back(bucket: &mut LeasedBucket, cost: u32) -> bool {
        let owned = OwnedMember::from(&bucket.member.as_member());
        let refund = Member {
            cost,
            ..owned.as_member()
        };
        bucket.take_back(Timestamp::from_micros(0), &refund)
    }

    /// As with a process whose clock is behind that of the store.
    #[test]
    fn units_of_a_period_before_are_dropped() {
        let mut bucket = bucket();
        let charged = |units, period| LeasedUnits { units, period };
        let algorithm = bucket.algorithm.clone();
        assert!(bucket.charged(charged(4, 1), &algorithm).is_none());
        assert!(bucket.lend(1) && bucket.held == charged(3, 1));
        assert!(bucket.charged(charged(2, 2), &algorithm).is_none());
        assert_eq!(bucket.held, charged(2, 2));
        assert!(bucket.lent(charged(1, 1), &algorithm, false).is_none());
        assert_eq!((bucket.held, bucket.lent), (charged(2, 2), 0));
    }

    #[test]
    fn refund_is_not_taken_back_while_the_bucket_is_in_debt() {
        let mut bucket = bucket();
        let at = Timestamp::from_micros(1_000_000);
        // A hundred tokens come back in ten seconds.
        for (tat, takes) in [(11_000_001, false), (11_000_000, true)] {
            bucket.hear(State::Gcra(Tat::from_micros(tat)), Some(at), at);
            let owned = OwnedMember::from(&bucket.member.as_member());
            let refund = Member {
                cost: 1,
                ..owned.as_member()
            };
            assert_eq!(bucket.take_back(at, &refund), takes, "{tat}");
        }
    }

    #[test]
    fn state_of_an_overtaken_answer_is_ignored_unless_the_clock_of_the_store_has_stepped_back() {
        let mut bucket = bucket();
        let algorithm = bucket.algorithm.clone();
        bucket.charged(units(4), &algorithm);
        let state = |us| State::Gcra(Tat::from_micros(us));
        let second = 1_000_000;
        let now = Timestamp::from_micros(second);
        for (at, us, heard) in [
            (9 * second, 5, 5),
            (9 * second - 1, 7, 5),
            (9 * second, 6, 6),
            (8 * second, 8, 8),
            (9 * second, 9, 9),
        ] {
            let at_store = Some(Timestamp::from_micros(at));
            assert_eq!(bucket.hear(state(us), at_store, now), 4);
            assert_eq!(bucket.holding().said, Some(state(heard)), "{at} {us}");
        }
        assert_eq!(bucket.hear(state(1), None, now), 4);
        assert_eq!(bucket.holding().said, Some(state(9)), "a cached denial");
        let other = State::Quota(crate::quota::Usage::NOTHING);
        bucket.hear(other, Some(Timestamp::from_micros(10 * second)), now);
        assert_eq!(
            bucket.holding().said,
            Some(state(9)),
            "of another algorithm"
        );
    }

    #[test]
    fn no_more_is_held_lent_coming_or_returning_than_may_be() {
        let mut bucket = bucket();
        let mut seed = 1_u64;
        let mut random = |n: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            u32::try_from((seed >> 33) % u64::from(n)).unwrap()
        };
        let algorithm = bucket.algorithm.clone();
        let (mut loans, mut returns, mut most) = (Vec::new(), Vec::new(), 0);
        for _ in 0..40_000 {
            let cost = 1 + random(4);
            match random(10) {
                0 if bucket.coming > 0 => {
                    let come = units([0, bucket.coming][random(2) as usize]);
                    assert!(bucket.charged(come, &algorithm).is_none());
                }
                1 => returns.extend(bucket.sweep()),
                2 => drop(give_back(&mut bucket, cost)),
                3 if bucket.lend(cost) => loans.push(cost),
                4 if !loans.is_empty() => {
                    let loan = units(loans.swap_remove(0));
                    assert!(bucket.lent(loan, &algorithm, random(2) > 0).is_none());
                }
                5..8 if !returns.is_empty() => {
                    bucket.returned(&returns.swap_remove(0), random(2) > 0);
                }
                _ => drop(bucket.attempt(cost, Timestamp::from_micros(0))),
            }
            let returning: u32 = returns.iter().map(|units| units.amount.units).sum();
            assert_eq!(bucket.returning, returning);
            let all = bucket.held.units + bucket.lent + bucket.coming + returning;
            assert!(all <= MOST && bucket.lent == loans.iter().sum::<u32>());
            most = all.max(most);
        }
        assert_eq!(most, MOST, "all of it is used");
    }

    #[test]
    fn units_that_come_back_after_the_limit_has_changed_are_returned_at_their_own_rate() {
        let mut bucket = bucket();
        let before = bucket.algorithm.clone();
        assert!(bucket.charged(units(6), &before).is_none());
        assert!(bucket.lend(2));
        let gcra = Gcra::new(100, 20, Duration::from_secs(1)).unwrap();
        let algorithm = Algorithm::Gcra(gcra);
        let owned = OwnedMember::from(&bucket.member.as_member());
        let member = Member {
            algorithm: &algorithm,
            ..owned.as_member()
        };
        let leased = |most| LeasedMember {
            member: &member,
            most,
        };
        let when = || DecisionTime::new(None, || Timestamp::from_micros(1));
        let after = &algorithm;
        let charge = |units: &Return| (units.receipt.cost(), units.receipt.stored_charge());
        let of_before = |units| Some((units, before.charge_in(0)));
        bucket.coming = 3;
        let held = bucket.adapt(when(), leased(MOST));
        assert_eq!(held.as_ref().map(charge), of_before(4));
        let lent = bucket.lent(units(2), &before, false);
        assert_eq!(lent.as_ref().map(charge), of_before(2));
        let come = bucket.charged(units(3), &before);
        assert_eq!(come.as_ref().map(charge), of_before(3));
        for units in [held, lent, come] {
            bucket.returned(&units.unwrap(), false);
        }
        assert_eq!((bucket.held, bucket.returning), (units(0), 0));
        // A lower maximum of the same limit.
        assert!(bucket.charged(units(8), after).is_none() && bucket.lend(3));
        let excess = bucket.adapt(when(), leased(4));
        assert_eq!(excess.map(|units| units.amount.units), Some(1));
        let excess = bucket.lent(units(3), after, false);
        assert_eq!(excess.map(|units| units.amount.units), Some(3));
        assert_eq!((bucket.held, bucket.returning), (units(4), 4));
    }
}
