//! What a script has found stored for a bucket, as far as the decision has to know it.

use fred::types::Value;
use smallvec::SmallVec;

use crate::{
    clock::Timestamp,
    decision::{Answer, BucketView, State},
    gcra::Tat,
    tiers::{View, Window},
    transaction::{Algorithm, Member},
};

/// What was stored for a member.
#[derive(Clone, Debug)]
pub(super) enum StoredReply {
    Gcra(Tat),
    /// Boxed, so that an answer without tiers is no larger for it.
    Tiers(Box<StoredTiers>),
}

/// What was stored of a bucket with tiers, as far as one request has to know it.
#[derive(Clone, Debug)]
pub(super) struct StoredTiers {
    /// When it was, by the server's clock or the client's.
    asked: u64,
    /// The time by which it was judged: not before the last grant.
    now: u64,
    tiers: SmallVec<[StoredTier; 2]>,
    /// How much the script has granted.
    granted: u32,
}

#[derive(Clone, Debug)]
struct StoredTier {
    entry: Option<u64>,
    used: u32,
    newest: u64,
    oldest: SmallVec<[u64; 2]>,
}

impl StoredReply {
    pub(super) const NOTHING: Self = Self::Gcra(Tat { us: 0, frac: 0 });

    pub(super) fn parse(first: &Value, second: &Value, asked: u64) -> Option<Self> {
        match first {
            Value::Array(figures) => {
                let mut figures = figures.iter();
                let now = figures.next()?.as_u64()?;
                let mut tiers = SmallVec::new();
                while figures.len() > 0 {
                    tiers.push(StoredTier::parse(&mut figures)?);
                }
                let granted = second.as_u64()?.try_into().ok()?;
                Some(Self::Tiers(Box::new(StoredTiers {
                    asked,
                    now,
                    tiers,
                    granted,
                })))
            }
            us => {
                let tat = Tat {
                    us: us.as_u64()?,
                    frac: second.as_u64()?.try_into().ok()?,
                };
                Some(Self::Gcra(tat.storable()))
            }
        }
    }

    /// The same told by another clock. Tiers have their own.
    pub(super) fn by_clock(self, from: Timestamp, to: Timestamp) -> Self {
        match self {
            Self::Gcra(tat) => match State::Gcra(tat).by_clock(from, to) {
                State::Gcra(tat) => Self::Gcra(tat),
                _ => Self::NOTHING,
            },
            tiers @ Self::Tiers(_) => tiers,
        }
    }

    pub(super) fn see(&self, member: &Member<'_>) -> BucketView<'_> {
        match (self, member.algorithm) {
            (Self::Gcra(tat), _) => BucketView::Gcra(*tat),
            (Self::Tiers(found), Algorithm::Tiers(tiers)) => {
                let tier = |tier: usize| found.tiers.get(tier);
                BucketView::Tiers(View::new(
                    found.asked,
                    found.now,
                    tiers,
                    |i| tier(i)?.entry,
                    |i, _| tier(i).map_or_else(Window::default, StoredTier::window),
                ))
            }
            (Self::Tiers(_), _) => BucketView::NOTHING,
        }
    }

    /// Whether what the script has granted is what `answer` says.
    pub(super) fn agrees(&self, answer: &Answer) -> bool {
        match (self, answer.state) {
            (Self::Tiers(found), State::Tiers(figures)) => {
                !answer.passed || found.granted == figures.grant.units()
            }
            _ => true,
        }
    }
}

impl StoredTier {
    fn window(&self) -> Window<'_> {
        Window::seen(self.used, &self.oldest, self.newest)
    }

    fn parse<'a>(figures: &mut impl Iterator<Item = &'a Value>) -> Option<Self> {
        let mut next = || figures.next();
        let entry = next()?.as_i64()?;
        let used = next()?.as_u64()?.try_into().ok()?;
        let newest = next()?.as_u64()?;
        let shown = next()?.as_u64()?;
        let oldest = (0..shown).map(|_| next()?.as_u64());
        Some(Self {
            entry: entry.try_into().ok(),
            used,
            newest,
            oldest: oldest.collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tat_that_no_decision_leads_to_is_read_as_the_latest_one() {
        let latest = Tat::from_micros((1 << 53) - 1);
        for us in [(1 << 53) - 1, 1 << 53, i64::MAX] {
            let found = StoredReply::parse(&Value::Integer(us), &Value::Integer(0), 1).unwrap();
            assert!(
                matches!(found, StoredReply::Gcra(tat) if tat == latest),
                "{us}"
            );
        }
        assert!(StoredReply::parse(&Value::Integer(-1), &Value::Integer(0), 1).is_none());
    }
}
