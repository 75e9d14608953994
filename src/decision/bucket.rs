use std::{cmp::Ordering, time::Duration};

use super::answer::{Answer, State, TakenPart};
use crate::{
    clock::Timestamp,
    gcra::{Gcra, Tat, Ticks},
    quota::{Quota, Usage},
    tiers::{NEVER, TierSnapshot, Tiers},
    transaction::{Action, Algorithm, Member, StoredCharge},
    window::{Window, WindowSnapshot},
};

/// The wait for something that never happens.
pub(super) const FOREVER: Duration = Duration::MAX;

/// A bucket as a decision shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShownBucket {
    Gcra {
        gcra: Gcra,
        tat: Tat,
        now: Timestamp,
        cost: u32,
        /// Whether the cost is taken.
        is_taken: bool,
        /// What is taken, if it is less than the cost.
        part: Option<TakenPart>,
        /// Whether the limit has a line and the cost may wait in it.
        may_wait: bool,
        /// The part of the limit's burst that leases reserve.
        reserved: u32,
    },
    Tiers {
        tiers: Tiers,
        figures: TierSnapshot,
        now: Timestamp,
    },
    Window {
        window: Window,
        figures: WindowSnapshot,
        now: Timestamp,
        /// Whether the cost is taken.
        is_taken: bool,
    },
    Quota {
        quota: Quota,
        usage: Usage,
        now: Timestamp,
        cost: u32,
        /// Whether the cost is taken.
        is_taken: bool,
        /// What is taken, if it is less than the cost.
        part: Option<TakenPart>,
        /// The part of the limit's quota that leases reserve.
        reserved: u32,
    },
    /// Nothing passes.
    Blocked,
}

impl ShownBucket {
    /// Creates the bucket with the answer's state at `now`, after its batch. Returns `None` if the algorithm and the state do not
    /// match. For a check, the cost is shown as taken; the state of tiers and windows already includes it.
    pub(super) fn new(
        algorithm: &Algorithm,
        member: &Member<'_>,
        answer: &Answer,
        now: Timestamp,
        is_taken: bool,
        action: Action,
    ) -> Option<Self> {
        let part = answer.taken;
        match (algorithm, answer.state) {
            (Algorithm::Gcra(gcra), State::Gcra(tat)) => Some(Self::Gcra {
                gcra: *gcra,
                tat: probed(gcra, tat, now, member, action),
                now,
                cost: member.cost,
                is_taken,
                part,
                may_wait: member.max_wait_us(gcra) > 0,
                reserved: member.reserved,
            }),
            (Algorithm::Tiers(tiers), State::Tiers(figures)) => Some(Self::Tiers {
                tiers: tiers.clone(),
                figures,
                now,
            }),
            (Algorithm::Window(window), State::Window(figures)) => Some(Self::Window {
                window: *window,
                figures,
                now,
                is_taken,
            }),
            (Algorithm::Quota(quota), State::Quota(usage)) => Some(Self::Quota {
                quota: *quota,
                usage: shown_usage(quota, usage, now, member.cost, action),
                now,
                cost: member.cost,
                is_taken,
                part,
                reserved: member.reserved,
            }),
            _ => None,
        }
    }

    pub(super) fn algorithm(&self) -> Option<Algorithm> {
        match self {
            Self::Gcra { gcra, .. } => Some(Algorithm::Gcra(*gcra)),
            Self::Tiers { tiers, .. } => Some(Algorithm::Tiers(tiers.clone())),
            Self::Window { window, .. } => Some(Algorithm::Window(*window)),
            Self::Quota { quota, .. } => Some(Algorithm::Quota(*quota)),
            Self::Blocked => None,
        }
    }

    /// Returns the time of the decision.
    pub(super) fn now(&self) -> Option<Timestamp> {
        match self {
            Self::Gcra { now, .. }
            | Self::Tiers { now, .. }
            | Self::Window { now, .. }
            | Self::Quota { now, .. } => Some(*now),
            Self::Blocked => None,
        }
    }

    /// Returns the tiers and their figures, if the bucket has tiers.
    pub(super) fn tiers(&self) -> Option<(&Tiers, &TierSnapshot)> {
        match self {
            Self::Tiers { tiers, figures, .. } => Some((tiers, figures)),
            _ => None,
        }
    }

    /// Returns the charge and the amount for a receipt: what was taken, which can be less than the cost of a debit.
    pub(super) fn charge(&self) -> Option<(StoredCharge, u32)> {
        match self {
            Self::Gcra {
                gcra,
                tat,
                cost,
                part,
                ..
            } => {
                let (gcra, tat) = (*gcra, *tat);
                let short = part.map_or(Ticks::default(), |part| part.short);
                Some((StoredCharge::Gcra { gcra, tat, short }, taken(*cost, *part)))
            }
            Self::Window { figures, .. } => {
                let at = Timestamp::from_micros(figures.at);
                Some((StoredCharge::Window { at }, figures.change.units()))
            }
            Self::Quota {
                usage, cost, part, ..
            } => {
                let start_us = usage.start_us;
                Some((StoredCharge::Quota { start_us }, taken(*cost, *part)))
            }
            Self::Tiers { .. } | Self::Blocked => None,
        }
    }

    pub(super) fn granted(&self) -> u32 {
        match self {
            Self::Window {
                figures, is_taken, ..
            } => figures.change.units() * u32::from(*is_taken),
            Self::Gcra {
                cost,
                is_taken,
                part,
                ..
            }
            | Self::Quota {
                cost,
                is_taken,
                part,
                ..
            } => taken(*cost, *part) * u32::from(*is_taken),
            Self::Tiers { figures, .. } => figures.grant.units(),
            Self::Blocked => 0,
        }
    }

    /// Returns what passes without being refused: what remains, and the room in the line.
    pub(super) fn room(&self) -> u32 {
        match self {
            Self::Gcra {
                gcra,
                tat,
                now,
                may_wait: true,
                ..
            } => gcra.room(*tat, now.as_micros()).0,
            other => other.remaining(),
        }
    }

    pub(super) fn remaining(&self) -> u32 {
        match self {
            Self::Gcra { gcra, tat, now, .. } => gcra.remaining(*tat, now.as_micros()),
            Self::Tiers { figures, .. } => figures.remaining,
            Self::Window {
                window, figures, ..
            } => window.limit().saturating_sub(figures.used),
            Self::Quota {
                quota, usage, now, ..
            } => quota.remaining(*usage, now.as_micros()),
            Self::Blocked => 0,
        }
    }

    /// Returns how many of `cost` tokens a refund has given back, if it has given back any.
    pub(super) fn given_back(&self, cost: u32) -> u32 {
        match self {
            Self::Window { figures, .. } => figures.change.units(),
            _ => cost,
        }
    }

    /// Returns the bucket `us` later, if there were no other requests.
    pub(super) fn later(mut self, us: u64) -> Self {
        match &mut self {
            Self::Gcra { now, .. } | Self::Quota { now, .. } => *now = now.later(us),
            Self::Tiers { figures, now, .. } => {
                (*figures, *now) = (figures.later(us), now.later(us));
            }
            Self::Window { figures, now, .. } => {
                let left = match us {
                    us if us >= figures.reset_after => figures.used,
                    us if us >= figures.more_after => figures.used.min(1),
                    _ => 0,
                };
                (*figures, *now) = (figures.later(us), now.later(us));
                // At least these units have left by then.
                figures.used -= left;
            }
            Self::Blocked => {}
        }
        self
    }

    /// Returns the wait of the cost in line, if it is taken.
    pub(super) fn delay(&self) -> Duration {
        match self {
            Self::Gcra {
                gcra,
                tat,
                now,
                is_taken: true,
                may_wait: true,
                ..
            } => gcra.delay(*tat, now.as_micros()).ceil(),
            _ => Duration::ZERO,
        }
    }

    pub(super) fn next_after(&self) -> Duration {
        waiting(self.wait().0)
    }

    pub(super) fn reset_after(&self) -> Duration {
        waiting(match self {
            Self::Gcra { gcra, tat, now, .. } => gcra.reset_after(*tat, now.as_micros()),
            Self::Tiers { figures, .. } => Ticks::from_micros(figures.reset_after),
            Self::Window { figures, .. } => Ticks::from_micros(figures.reset_after),
            Self::Quota {
                quota, usage, now, ..
            } => Ticks::from_micros(quota.reset_after(*usage, now.as_micros())),
            Self::Blocked => Ticks::from_micros(NEVER),
        })
    }

    /// Returns the time until the same cost would pass, and the count of its fraction.
    fn wait(&self) -> (Ticks, u32) {
        match self {
            Self::Gcra {
                gcra,
                tat,
                now,
                cost,
                may_wait,
                ..
            } => {
                let line = if *may_wait { gcra.max_wait_us() } else { 0 };
                let wait = gcra.wait_for_line(*tat, now.as_micros(), *cost, line);
                (wait, gcra.count())
            }
            Self::Tiers { figures, .. } => (Ticks::from_micros(figures.next_after), 1),
            Self::Window { figures, .. } => (Ticks::from_micros(figures.next_after), 1),
            Self::Quota {
                quota,
                usage,
                now,
                cost,
                ..
            } => {
                let wait = quota.wait(*usage, now.as_micros(), *cost);
                (Ticks::from_micros(wait), 1)
            }
            Self::Blocked => (Ticks::from_micros(NEVER), 1),
        }
    }

    pub(super) fn compare_waits(&self, other: &Self) -> Ordering {
        let ((ours, count), (theirs, other_count)) = (self.wait(), other.wait());
        ours.compare(count, theirs, other_count)
    }
}

/// Returns the amount that is taken for a cost.
fn taken(cost: u32, part: Option<TakenPart>) -> u32 {
    part.map_or(cost, |part| part.cost)
}

/// Returns the TAT, which for a probe includes its cost if that would pass.
#[inline(always)]
fn probed(gcra: &Gcra, tat: Tat, now: Timestamp, member: &Member<'_>, action: Action) -> Tat {
    match action {
        Action::Probe | Action::ProbeDebit => after_probe(gcra, tat, now, member, action),
        _ => tat,
    }
}

#[inline(never)]
fn after_probe(gcra: &Gcra, tat: Tat, now: Timestamp, member: &Member<'_>, action: Action) -> Tat {
    let (at, cost) = (now.as_micros(), member.cost);
    match action {
        Action::ProbeDebit => gcra.debit(tat, at, cost),
        _ => gcra
            .spend_within(tat, at, cost, member.max_wait_us(gcra))
            .unwrap_or(tat),
    }
}

/// Returns the usage of a quota, including the cost of a probe.
#[inline]
fn shown_usage(quota: &Quota, usage: Usage, now: Timestamp, cost: u32, action: Action) -> Usage {
    match action {
        Action::Probe => quota.spend(usage, now.as_micros(), cost).unwrap_or(usage),
        Action::ProbeDebit => quota.debit(usage, now.as_micros(), cost),
        _ => usage,
    }
}

/// Returns a bucket's state as if it also held units that are charged in advance. A debt does not concern them.
#[cold]
pub(super) fn with_held(algorithm: &Algorithm, state: State, now: Timestamp, held: u32) -> State {
    match (algorithm, state) {
        (Algorithm::Gcra(gcra), State::Gcra(tat)) => {
            State::Gcra(gcra.with_held(tat, now.as_micros(), held))
        }
        (Algorithm::Quota(quota), State::Quota(usage)) => {
            let used = usage.used.min(quota.quota()).saturating_sub(held);
            State::Quota(Usage { used, ..usage })
        }
        (_, state) => state,
    }
}

/// Rounds a wait up for display.
pub(super) fn waiting(wait: Ticks) -> Duration {
    match wait.us {
        NEVER => FOREVER,
        _ => wait.ceil(),
    }
}
