use super::{
    Grant, History, Tiers,
    history::TierLog,
    tier::{Phase, TierInMicros},
};
use crate::{
    algorithm::{Arithmetic, Ask, AskError, Charge, Figures, NEVER, Parameters, Verb, Wait},
    clock::Timestamp,
};

/// The figures are computed from a [`History`] here, for scripts as well: they return enough for [`History::reported`].
impl Arithmetic for Tiers {
    type State = History;

    fn accepts(&self, ask: &Ask) -> Result<(), AskError> {
        match ask.verb {
            Verb::Refund => Err(AskError::RefundOfTiers),
            Verb::Debit => Err(AskError::DebitOfTiers),
            Verb::Renew => Err(AskError::Renewal),
            Verb::Spend | Verb::Peek => {
                if 0 < ask.min_cost && ask.min_cost <= ask.cost {
                    Ok(())
                } else {
                    Err(AskError::Minimum(ask.min_cost))
                }
            }
        }
    }

    fn judge(&self, ask: &Ask, history: &History, now: u64) -> bool {
        Bucket::new(self, history, now).grant(ask).is_some()
    }

    fn apply(&self, ask: &Ask, history: &mut History, now: u64) -> Charge {
        let bucket = Bucket::new(self, history, now);
        let now = bucket.now;
        let grant = bucket.grant(ask);
        if let Some(grant) = grant {
            history.take(self, grant, now);
        }
        grant.unwrap_or_default().into()
    }

    fn figures(&self, ask: &Ask, history: &History, now: u64) -> Figures {
        let bucket = Bucket::new(self, history, now);
        // Waits count from the instant of the question, so they are longer if the clock has stepped back.
        let until = |instant: u64| {
            if instant <= bucket.now {
                Wait::ZERO
            } else {
                Wait::until(instant, now)
            }
        };
        let remaining = bucket.remaining();
        Figures {
            limit: self.capacity(),
            remaining,
            next_after: if remaining >= ask.min_cost {
                Wait::ZERO
            } else {
                until(bucket.grants_at(ask.min_cost))
            },
            more_after: until(bucket.turns_at()),
            reset_after: until(bucket.resets_at()),
            delay: Wait::ZERO,
        }
    }

    /// A lowest tier that never ends decides the same whether it was entered or not. So only its window matters.
    fn full_at(&self, history: &History) -> u64 {
        let logs = self.0.iter().zip(&history.tiers).enumerate();
        let instants = logs.map(|(tier, (span, log))| {
            let ends = log.entry.map_or(0, |entry| span.ends(entry));
            let leaves = log.newest().map_or(0, |newest| span.leaves(newest));
            match tier {
                0 if span.active == NEVER => leaves,
                0 => ends.max(leaves),
                _ => ends,
            }
        });
        instants.max().unwrap_or(0)
    }
}

/// The state of a tier at an instant. [`Limit::tier_states`](crate::Limit::tier_states) returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierState {
    /// Whether the tier can be entered.
    pub phase: Phase,
    /// The instant of its last entry.
    pub entered: Option<Timestamp>,
    /// The number of units in its window.
    pub used: u32,
}

impl History {
    /// Returns the state of each tier at an instant, lowest first.
    pub(crate) fn tiers<'a>(
        &'a self,
        tiers: &'a Tiers,
        now: u64,
    ) -> impl ExactSizeIterator<Item = TierState> + 'a {
        let bucket = Bucket::new(tiers, self, now);
        let now = bucket.now;
        (0..tiers.0.len()).map(move |tier| TierState {
            phase: bucket.phase(tier, now),
            entered: bucket.entry(tier).map(Timestamp::from_micros),
            used: bucket.used(tier, now),
        })
    }
}

/// A bucket at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket<'a> {
    tiers: &'a Tiers,
    history: &'a History,
    /// The instant of the decision. It is that of the question or, if the clock has stepped back, that of the last grant.
    pub(super) now: u64,
}

impl<'a> Bucket<'a> {
    pub(super) fn new(tiers: &'a Tiers, history: &'a History, asked: u64) -> Self {
        Self {
            tiers,
            history,
            now: asked.max(history.last),
        }
    }

    pub(super) fn entry(&self, tier: usize) -> Option<u64> {
        self.log(tier)?.entry
    }

    pub(super) fn phase(&self, tier: usize, at: u64) -> Phase {
        self.span(tier).phase(self.entry(tier), at)
    }

    /// Returns the number of units in the window of a tier. A tier above the lowest starts empty when it is entered.
    pub(super) fn used(&self, tier: usize, at: u64) -> u32 {
        match self.log(tier) {
            Some(log) if tier == 0 || self.phase(tier, at) != Phase::Inactive => {
                log.used(self.span(tier), at)
            }
            _ => 0,
        }
    }

    fn span(&self, tier: usize) -> &'a TierInMicros {
        &self.tiers.0[tier]
    }

    fn log(&self, tier: usize) -> Option<&'a TierLog> {
        self.history.tiers.get(tier)
    }

    /// Returns the room in a tier. After a change of the limit, more units than it allows can be in the window.
    fn free(&self, tier: usize) -> u32 {
        let limit = self.span(tier).limit;
        limit.saturating_sub(self.used(tier, self.now))
    }

    /// Returns the tier in force: the highest active one, or the lowest.
    fn in_force(&self, at: u64) -> usize {
        let mut highest_first = (0..self.tiers.0.len()).rev();
        highest_first
            .find(|tier| self.phase(*tier, at) == Phase::Active)
            .unwrap_or(0)
    }

    /// Returns the tiers from which a request can take units, in order.
    ///
    /// Tiers below the one in force are not used, even if they have room, so a higher tier can be a penalty. A tier that cools down
    /// also closes those above it, unless it is skippable. Otherwise, requests would go around the cooldown.
    fn path(self, at: u64) -> impl Iterator<Item = usize> + use<'a> {
        let upwards = self.in_force(at)..self.tiers.0.len();
        let cools = move |tier: usize| self.phase(tier, at) == Phase::Cooldown;
        upwards
            .take_while(move |tier| self.span(*tier).skippable || !cools(*tier))
            .filter(move |tier| !cools(*tier))
    }

    fn remaining(&self) -> u32 {
        sum(self.path(self.now).map(|tier| self.free(tier)))
    }

    /// Returns the largest acceptable grant.
    fn grant(&self, ask: &Ask) -> Option<Grant> {
        let mut grant = Grant::default();
        let mut passed = 0;
        for tier in self.path(self.now) {
            if grant.units == ask.cost {
                break;
            }
            let units = self.free(tier).min(ask.cost - grant.units);
            if passed == 0 {
                grant.first = units;
            }
            // A full tier on the way up is also entered, but only if a tier above it grants units.
            passed |= 1 << tier;
            if units > 0 {
                grant.tiers = passed;
                grant.units += units;
            }
        }
        (ask.verb == Verb::Spend && grant.units >= ask.min_cost).then_some(grant)
    }

    /// Returns the first instant at which this number of units would be granted without other requests, or [`NEVER`].
    ///
    /// Each step looks for room before the next change of a phase, because another tier may be in force after it. Phases change at
    /// most twice per tier, so the loop ends after 33 steps at most.
    fn grants_at(&self, units: u32) -> u64 {
        let mut from = self.now;
        loop {
            let room = self.has_room_at(units, from);
            let change = self.changes_at(from);
            if room < change || change == NEVER {
                return room;
            }
            from = change;
        }
    }

    /// Returns the first instant from `from` on at which there is room for this number of units if no phase changes, or [`NEVER`].
    ///
    /// The tiers above the first one of the path are inactive, so they would be entered empty and grant their whole limit. The
    /// first tier has to grant the rest, once enough of its oldest units have left the window.
    fn has_room_at(&self, units: u32, from: u64) -> u64 {
        let mut path = self.path(from);
        let Some(first) = path.next() else {
            return NEVER;
        };
        let needed = units.saturating_sub(sum(path.map(|tier| self.span(tier).limit)));
        let span = self.span(first);
        let used = self.used(first, from);
        if needed > span.limit {
            return NEVER;
        }
        let leaving = used.saturating_sub(span.limit - needed);
        match leaving.checked_sub(1) {
            Some(last) if needed > 0 => self.leaves_at(first, from, last),
            _ => from,
        }
    }

    /// Returns the instant at which a unit leaves the window of a tier. The oldest unit at `at` is number 0.
    fn leaves_at(&self, tier: usize, at: u64, nth: u32) -> u64 {
        let span = self.span(tier);
        let unit = self.log(tier).and_then(|log| log.unit(span, at, nth));
        unit.map_or(at, |unit| span.leaves(unit))
    }

    /// Returns the next instant at which any tier changes its phase, or [`NEVER`].
    fn changes_at(&self, at: u64) -> u64 {
        let logs = self.tiers.0.iter().zip(&self.history.tiers);
        let entered = logs.filter_map(|(span, log)| Some((span, log.entry?)));
        let changes = entered.flat_map(|(span, entry)| [span.cools(entry), span.ends(entry)]);
        changes.filter(|change| *change > at).min().unwrap_or(NEVER)
    }

    /// Returns the instant at which the tier in force has more room, or ends.
    fn turns_at(&self) -> u64 {
        let tier = self.in_force(self.now);
        let cools = self.entry(tier).map(|entry| self.span(tier).cools(entry));
        match self.used(tier, self.now) {
            0 => self.now,
            _ => cools
                .unwrap_or(NEVER)
                .min(self.leaves_at(tier, self.now, 0)),
        }
    }

    /// Returns the instant from which the bucket is full.
    fn resets_at(&self) -> u64 {
        let never_ends = self.span(0).active == NEVER && self.entry(0).is_some();
        if never_ends {
            NEVER
        } else {
            self.tiers.full_at(self.history)
        }
    }
}

/// Returns the sum of these numbers of units. A sum that does not fit becomes the largest value.
fn sum(units: impl Iterator<Item = u32>) -> u32 {
    units.fold(0, u32::saturating_add)
}
