use crate::{
    clock::Timestamp,
    decision::State,
    tiers::Tiers,
    transaction::{Algorithm, Fingerprint, Member},
    window::Window,
};

/// A bucket that was denied.
#[derive(Clone)]
pub(super) struct DeniedBucket {
    pub(super) print: Fingerprint,
    /// The state, by our clock or the client's.
    pub(super) state: State,
    /// The time of the state.
    pub(super) at: Timestamp,
    /// The lowest denied cost, and the tiers or the window that denied it.
    pub(super) least: u32,
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
        least: 0,
        by: DeniedBy::AnyLimit,
        until: Timestamp::from_micros(0),
        is_clients: false,
    };

    /// Returns the state of the bucket at `now`, if it denies the member.
    pub(super) fn denial(&self, member: &Member<'_>, now: Timestamp) -> Option<State> {
        match (member.algorithm, self.state) {
            (Algorithm::Gcra(gcra), State::Gcra(tat)) => {
                let wait = member.max_wait_us(gcra);
                let passes = gcra.spend_within(tat, now.as_micros(), member.cost, wait);
                passes.is_none().then_some(self.state)
            }
            (Algorithm::Quota(quota), State::Quota(usage)) => {
                let passes = quota.spend(usage, now.as_micros(), member.cost).is_some();
                (!passes).then_some(self.state)
            }
            (Algorithm::Window(window), State::Window(figures))
                if self.by == DeniedBy::Window(*window) =>
            {
                let passed = now.as_micros().saturating_sub(self.at.as_micros());
                let denies = passed < figures.next_after && member.cost >= self.least;
                denies.then(|| State::Window(figures.later(passed)))
            }
            (Algorithm::Tiers(tiers), State::Tiers(figures)) if matches!(&self.by, DeniedBy::Tiers(denied) if denied == tiers) =>
            {
                let passed = now.as_micros().saturating_sub(self.at.as_micros());
                let denies = passed < figures.next_after && member.min_cost >= self.least;
                denies.then(|| State::Tiers(figures.later(passed)))
            }
            _ => None,
        }
    }
}
