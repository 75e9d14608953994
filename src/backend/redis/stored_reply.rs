//! The stored state of a bucket, as far as the decision depends on it.

use fred::types::Value;

use super::{stored_tiers::StoredTiers, stored_window::StoredWindow};
use crate::{
    algorithm::{State, View, ViewIn},
    clock::Timestamp,
    decision::Answer,
    gcra::Tat,
    quota::Usage,
    transaction::{Algorithm, Member},
};

/// The stored state of a member.
#[derive(Clone, Debug)]
pub(super) enum StoredReply {
    /// A theoretical arrival time, or the start of a quota's period and the amount used.
    Numbers(u64, u32),
    /// Boxed, to keep other answers small.
    Tiers(Box<StoredTiers>),
    Window(Box<StoredWindow>),
}

impl StoredReply {
    pub(super) const NOTHING: Self = Self::Numbers(0, 0);

    pub(super) fn parse(first: &Value, second: &Value, asked: u64) -> Option<Self> {
        let second = second.as_u64()?.try_into().ok()?;
        match first {
            Value::Array(figures) => match figures.split_first()? {
                (Value::String(_), figures) => {
                    let window = StoredWindow::parse(figures, second, asked)?;
                    Some(Self::Window(Box::new(window)))
                }
                _ => {
                    let tiers = StoredTiers::parse(figures, second, asked)?;
                    Some(Self::Tiers(Box::new(tiers)))
                }
            },
            first => Some(Self::Numbers(first.as_u64()?, second)),
        }
    }

    /// Reads a small window from the instants of its units.
    pub(super) fn of_units(units: &[Value], asked: u64) -> Option<Self> {
        let window = StoredWindow::of_units(units, asked)?;
        Some(Self::Window(Box::new(window)))
    }

    /// Creates the state with a theoretical arrival time.
    pub(super) fn of_tat(tat: Tat) -> Self {
        Self::Numbers(tat.us, tat.frac)
    }

    /// Converts the state to another clock. Tiers and windows keep their own clock, and periods follow a calendar.
    pub(super) fn by_clock(self, member: &Member<'_>, from: Timestamp, to: Timestamp) -> Self {
        match (self, member.algorithm) {
            (Self::Numbers(us, frac), Algorithm::Gcra(_)) => {
                match State::Gcra(tat(us, frac)).by_clock(from, to) {
                    State::Gcra(tat) => Self::of_tat(tat),
                    _ => Self::NOTHING,
                }
            }
            (other, _) => other,
        }
    }

    /// Returns the theoretical arrival time, if there is one.
    pub(super) fn tat(&self) -> Tat {
        match self {
            Self::Numbers(us, frac) => tat(*us, *frac),
            _ => Tat::default(),
        }
    }

    /// Returns the usage, if the state is that of a quota.
    pub(super) fn usage(&self) -> Usage {
        match self {
            Self::Numbers(start_us, used) => Usage {
                start_us: *start_us,
                used: *used,
            },
            _ => Usage::NOTHING,
        }
    }

    pub(super) fn see<'a>(&'a self, member: &Member<'a>, now: Timestamp) -> View<'a> {
        match (self, member.algorithm) {
            (Self::Numbers(..), Algorithm::Gcra(by)) => View::Gcra(ViewIn {
                by,
                view: self.tat(),
            }),
            (Self::Numbers(..), Algorithm::Quota(by)) => View::Quota(ViewIn {
                by,
                view: self.usage(),
            }),
            (Self::Tiers(found), Algorithm::Tiers(by)) => View::Tiers(ViewIn {
                by,
                view: found.view(by),
            }),
            (Self::Window(found), Algorithm::Window(by)) => View::Window(ViewIn {
                by,
                view: found.view(by, member),
            }),
            (_, algorithm) => algorithm.see_nothing(now),
        }
    }

    /// Returns whether the script has granted the same as `answer`.
    pub(super) fn agrees(&self, answer: &Answer) -> bool {
        match (self, answer.state) {
            (Self::Tiers(found), State::Tiers(figures)) => {
                !answer.passed || found.granted == figures.grant.units()
            }
            (Self::Window(found), State::Window(figures)) => {
                !answer.passed || found.has_changed(figures.change.units())
            }
            _ => true,
        }
    }
}

fn tat(us: u64, frac: u32) -> Tat {
    Tat { us, frac }.storable()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Limit,
        transaction::{BucketKey, LimitKey, Mode},
    };

    #[test]
    fn tat_that_no_decision_leads_to_is_read_as_the_latest_one() {
        let latest = Tat::from_micros((1 << 53) - 1);
        let limit = Limit::per_second(1);
        let key = BucketKey::new(LimitKey::Number(1), "id");
        let member = Member::new(key, limit.algorithm().unwrap(), 1, Mode::CheckAndSpend);
        for us in [(1 << 53) - 1, 1 << 53, i64::MAX] {
            let found = StoredReply::parse(&Value::Integer(us), &Value::Integer(0), 1).unwrap();
            let seen = found.see(&member, Timestamp::from_micros(1));
            assert!(
                matches!(seen, View::Gcra(seen) if seen.view == latest),
                "{us}"
            );
        }
        assert!(StoredReply::parse(&Value::Integer(-1), &Value::Integer(0), 1).is_none());
    }
}
