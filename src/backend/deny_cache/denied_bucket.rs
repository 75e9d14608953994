use crate::{
    algorithm::NEVER,
    clock::Timestamp,
    decision::State,
    tiers::Tiers,
    transaction::{Algorithm, Fingerprint, Member},
    window::Window,
};

/// A bucket that was denied, or whose denials are not remembered.
#[derive(Clone)]
pub(super) struct DeniedBucket {
    pub(super) print: Fingerprint,
    /// The state, by our clock or the client's.
    pub(super) state: State,
    /// The time of the state.
    pub(super) at: Timestamp,
    /// The denied cost. It is 0 for limits whose state is enough to judge any cost.
    pub(super) cost: u32,
    pub(super) by: DeniedBy,
    /// The end of its lifetime, by our clock.
    pub(super) until: Timestamp,
    /// Whether the client's clock decided.
    pub(super) is_clients: bool,
}

/// The limits for which a remembered denial holds.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum DeniedBy {
    /// Any limit: the state of the bucket is enough to judge.
    AnyLimit,
    Tiers(Tiers),
    Window(Window),
    /// None. A give-back to the bucket may be under way, so its denials are not remembered.
    Unsettled,
}

impl DeniedBy {
    pub(super) fn new(algorithm: &Algorithm) -> Self {
        match algorithm {
            Algorithm::Gcra(_) | Algorithm::Quota(_) => Self::AnyLimit,
            Algorithm::Tiers(tiers) => Self::Tiers(tiers.clone()),
            Algorithm::Window(window) => Self::Window(*window),
        }
    }
}

impl DeniedBucket {
    pub(super) const NOBODY: Self = Self {
        print: Fingerprint { low: 0, high: 0 },
        state: State::MISSING,
        at: Timestamp::from_micros(0),
        cost: 0,
        by: DeniedBy::AnyLimit,
        until: Timestamp::from_micros(0),
        is_clients: false,
    };

    /// Creates the entry of a denied member, without its state.
    pub(super) fn of(member: &Member<'_>) -> Self {
        let by = DeniedBy::new(member.algorithm);
        Self {
            print: member.fingerprint,
            cost: match by {
                DeniedBy::AnyLimit | DeniedBy::Unsettled => 0,
                DeniedBy::Tiers(_) | DeniedBy::Window(_) => member.min_cost,
            },
            by,
            ..Self::NOBODY
        }
    }

    /// Returns whether the entry is no longer needed beside another one.
    pub(super) fn is_replaced_by(&self, entry: &Self) -> bool {
        let is_same = self.cost == entry.cost || self.is_unsettled();
        self.print == entry.print && is_same
    }

    /// Creates an entry that keeps the denials of a bucket from being remembered.
    pub(super) const fn unsettled(print: Fingerprint, until: Timestamp) -> Self {
        Self {
            print,
            by: DeniedBy::Unsettled,
            until,
            ..Self::NOBODY
        }
    }

    pub(super) fn is_unsettled(&self) -> bool {
        self.by == DeniedBy::Unsettled
    }

    /// Returns the state of the bucket at `now`, if it denies the member.
    pub(super) fn denial(&self, member: &Member<'_>, now: Timestamp) -> Option<State> {
        let passed = now.as_micros().saturating_sub(self.at.as_micros());
        match (&self.by, member.algorithm, self.state) {
            (DeniedBy::AnyLimit, Algorithm::Gcra(gcra), State::Gcra(tat)) => {
                let wait = gcra.line_us(member.joins_line());
                let passes = gcra.spend_within(tat, now.as_micros(), member.cost, wait);
                passes.is_none().then_some(self.state)
            }
            (DeniedBy::AnyLimit, Algorithm::Quota(quota), State::Quota(usage)) => {
                let passes = quota.spend(usage, now.as_micros(), member.cost).is_some();
                (!passes).then_some(self.state)
            }
            (DeniedBy::Window(denied), Algorithm::Window(window), State::Window(figures))
                if denied == window =>
            {
                // If all units leave at once, then any cost has to wait for that.
                let is_same = figures.next_after == figures.reset_after
                    && member.cost > self.cost
                    && member.cost <= window.limit();
                let holds = is_same || self.has_wait_of(member.cost, figures.next_after);
                let denies = passed < figures.next_after && holds;
                denies.then(|| State::Window(figures.later(passed)))
            }
            (DeniedBy::Tiers(denied), Algorithm::Tiers(tiers), State::Tiers(figures))
                if denied == tiers =>
            {
                let holds = self.has_wait_of(member.min_cost, figures.next_after);
                let denies = passed < figures.next_after && holds;
                denies.then(|| State::Tiers(figures.later(passed)))
            }
            _ => None,
        }
    }

    /// Returns whether a cost has to wait exactly as long as the denied one. A higher cost usually waits longer, and only
    /// the store knows how long. If the denied cost never passes, then no higher cost does.
    fn has_wait_of(&self, cost: u32, next_after: u64) -> bool {
        cost == self.cost || cost > self.cost && next_after == NEVER
    }
}
