//! Gaps between clients that need much, and all others.

use std::collections::BTreeSet;

use super::{
    candidates::{CANDIDATES, Kind},
    measure::Measured,
};

/// A gap below 1.4 is none, in thousandths.
const NO_GAP: u64 = 1_400;

/// A gap that separates clients that are known to stand out, in thousandths.
const NARROW_GAP: u64 = 1_100;

/// Gaps above this are equally clear.
const WIDE_GAP: u64 = 27_000;

/// A gap that is clear by itself, in thousandths.
const CLEAR_GAP: u64 = 3_000;

/// Below this, another kind of limit with a clearer gap knows better who stands out, in thousandths.
const DOUBTFUL_GAP: u64 = 2_000;

/// Added to what others need, so that a few requests more or less make no gap.
const SLACK: u64 = 5;

/// The room above what the others need that a limit should have: a quarter.
pub(super) const ROOM: u64 = 4;

/// A gap of a candidate: the clients before it need this many times what the next one needs, in thousandths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    /// The place of the candidate.
    pub(super) place: usize,
    /// The number of clients before it.
    pub(super) stopped: usize,
    pub(super) ratio: u64,
    /// The size of a limit between the two.
    pub(super) size: u64,
}

impl Gap {
    /// The clearest gap of the candidates of a kind, with at most this many clients before it.
    pub(super) fn clearest(measured: &Measured, kind: Kind, at_most: usize) -> Option<Self> {
        let gaps = all(measured, kind, at_most, NO_GAP);
        // A heavy user among people is no crawler.
        let widest = gaps.iter().map(|gap| gap.ratio).max()?.min(WIDE_GAP);
        // The cube root of the widest gap is clear: (ratio / 1000)³ ≥ widest / 1000.
        let cube = u128::from(widest) * 1_000_000;
        let clear = gaps.into_iter();
        let clear = clear.filter(|gap| u128::from(gap.ratio.min(WIDE_GAP)).pow(3) >= cube);
        strictest(clear.collect())
    }

    /// What makes one gap better than that of another kind.
    pub(super) fn rank(&self) -> (u64, usize, u64) {
        (self.ratio.min(CLEAR_GAP), self.stopped, self.ratio)
    }

    /// Whether the clients before a better gap of another kind stand out more than those before this one.
    pub(super) fn yields_to(&self, better: &Self) -> bool {
        let is_doubtful = self.ratio < DOUBTFUL_GAP;
        self.stopped < better.stopped || self.stopped > better.stopped && is_doubtful
    }

    /// The best gap of the candidates of another kind with the same clients before it.
    pub(super) fn same(self, measured: &Measured, kind: Kind) -> Option<Self> {
        let clients = |gap: &Self| gap.clients(measured).collect::<BTreeSet<_>>();
        let own = clients(&self);
        let gaps = all(measured, kind, self.stopped, NARROW_GAP).into_iter();
        let same = gaps.filter(|gap| gap.stopped == self.stopped && clients(gap) == own);
        strictest(same.collect())
    }

    /// The clients before it.
    pub(super) fn clients(self, measured: &Measured) -> impl Iterator<Item = u64> {
        let tops = measured.tops[self.place][..self.stopped].iter();
        tops.map(|(_, client)| *client)
    }
}

/// Of the gaps with the most clients before them, and of those that are nearly as wide as the widest, the one with the
/// strictest limit.
fn strictest(gaps: Vec<Gap>) -> Option<Gap> {
    let most = gaps.iter().map(|gap| gap.stopped).max()?;
    let alike = gaps.into_iter().filter(|gap| gap.stopped == most);
    let alike: Vec<_> = alike.collect();
    let widest = alike.iter().map(|gap| gap.ratio).max()?;
    let nearly = alike.into_iter().filter(|gap| gap.ratio >= widest / 4 * 3);
    nearly.min_by_key(|gap| CANDIDATES[gap.place].per_hour(gap.size))
}

/// All gaps of the candidates of a kind that are at least so wide.
fn all(measured: &Measured, kind: Kind, at_most: usize, narrowest: u64) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for (place, candidate) in kind.candidates() {
        let tops = &measured.tops[place];
        let most = at_most.min(tops.len().saturating_sub(1));
        let largest = candidate.largest(measured.length());
        for stopped in 1..=most {
            let (least, others) = (tops[stopped - 1].0, tops[stopped].0);
            let ratio = least.saturating_mul(1000) / (others + SLACK);
            let wished = within(others, least);
            let size = wished.min(largest);
            let has_room = size == wished || size >= others + others / ROOM;
            if ratio >= narrowest && has_room {
                gaps.push(Gap {
                    place,
                    stopped,
                    ratio,
                    size,
                });
            }
        }
    }
    gaps
}

/// A round size between what others need and the least that is stopped: twice the one, or the geometric mean if that is less.
fn within(others: u64, least: u64) -> u64 {
    let product = u128::from(others) * u128::from(least);
    let mean = u64::try_from(product.isqrt()).unwrap_or(u64::MAX);
    let size = (others * 2).max(others + SLACK).min(mean).max(others + 1);
    let round = rounded_up(size);
    match round < least {
        true => round,
        false => size.min(least - 1),
    }
}

/// Rounds up to two digits.
pub(super) fn rounded_up(size: u64) -> u64 {
    let mut step = 1;
    while size / step >= 100 {
        step *= 10;
    }
    size.div_ceil(step) * step
}
