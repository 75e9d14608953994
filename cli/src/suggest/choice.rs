//! Chooses limits that separate the clients that may be denied from all others.
//!
//! For each candidate, clients are sorted by what they need. If one of the first places, up to the number that may be denied,
//! needs far more than the next, a limit between the two stops those before the gap and nobody else, and leaves everyone else
//! room. The gap with the most clients before it wins if it is clear, and of all candidates the strictest of those where it is
//! nearly the widest. If one kind of limit shows a clear gap, a narrower gap is enough for the others. Without a gap, the limit is
//! a quarter above the need of the first client that must not be denied.

use std::collections::BTreeSet;

use super::{
    candidates::{CANDIDATES, Candidate, Kind},
    measure::Measured,
};
use crate::output::{counted, grouped};

/// A recommended candidate and its size.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// The place of the candidate.
    pub(super) place: usize,
    pub(super) candidate: Candidate,
    pub(super) size: u32,
    pub(super) reason: String,
}

/// Chooses a limit of each kind that denies at most this many clients.
pub(super) fn choose(measured: &Measured, at_most: usize) -> Vec<Choice> {
    let gaps = Kind::ALL.map(|kind| Gap::clearest(measured, kind, at_most));
    let best = gaps.iter().flatten().max_by_key(|gap| gap.rank());
    let chosen = Kind::ALL.into_iter().zip(gaps).filter_map(|(kind, own)| {
        let same = best
            .filter(|best| own.is_none_or(|own| own.yields_to(best)))
            .and_then(|best| best.same(measured, kind));
        let gap = same.or(own).map(|gap| of_gap(measured, gap));
        gap.or_else(|| without_gap(measured, kind, at_most))
    });
    chosen.collect()
}

/// The clients that stand out most, if at most this many do.
pub(super) fn outstanding(measured: &Measured, at_most: usize) -> Vec<usize> {
    let gaps = Kind::ALL.map(|kind| Gap::clearest(measured, kind, at_most));
    let best = gaps.into_iter().flatten().max_by_key(Gap::rank);
    best.map_or_else(Vec::new, |gap| gap.clients(measured).collect())
}

fn of_gap(measured: &Measured, gap: Gap) -> Choice {
    let least = grouped(measured.need(gap.place, gap.stopped - 1));
    let others = grouped(measured.need(gap.place, gap.stopped));
    let stopped = counted(gap.stopped as u64, "client");
    let at_least = if gap.stopped == 1 { "" } else { " or more" };
    let stops = format!("it stops {stopped}, which would need {least}{at_least}");
    choice(
        gap.place,
        gap.size,
        &format!("{stops}; all others need at most {others}"),
    )
}

/// The strictest limit of a kind that leaves room above what the first client needs that may not be denied.
fn without_gap(measured: &Measured, kind: Kind, at_most: usize) -> Option<Choice> {
    let sized = kind.candidates().filter_map(|(place, candidate)| {
        let tops = &measured.tops[place];
        let others = measured.need(place, at_most.min(tops.len().checked_sub(1)?));
        let size = rounded_up(others + others / ROOM + 1);
        let suits = size <= candidate.largest(measured.length());
        suits.then_some((place, candidate, others, size))
    });
    let strictest = sized.min_by_key(|(_, candidate, _, size)| candidate.per_hour(*size));
    let (place, _, others, size) = strictest?;
    let who = match at_most {
        0 => "nobody may be denied",
        _ => "no client stands out",
    };
    let room = format!(
        "this leaves a quarter above the {} that are needed",
        grouped(others)
    );
    Some(choice(
        place,
        size,
        &format!("{who}; {room} by the first client that may not be denied"),
    ))
}

fn choice(place: usize, size: u64, reason: &str) -> Choice {
    let candidate = CANDIDATES[place];
    let words = candidate.words();
    let counted = match candidate.kind {
        Kind::Gcra => format!("counted in bursts at {words}"),
        Kind::Window | Kind::Quota => format!("counted in {words}"),
    };
    Choice {
        place,
        candidate,
        size: u32::try_from(size).unwrap_or(u32::MAX),
        reason: format!("{counted}, {reason}"),
    }
}

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
const ROOM: u64 = 4;

/// A gap of a candidate: the clients before it need this many times what the next one needs, in thousandths.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// The place of the candidate.
    place: usize,
    /// The number of clients before it.
    stopped: usize,
    ratio: u64,
    /// The size of a limit between the two.
    size: u64,
}

impl Gap {
    /// The clearest gap of the candidates of a kind, with at most this many clients before it.
    fn clearest(measured: &Measured, kind: Kind, at_most: usize) -> Option<Self> {
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
    fn rank(&self) -> (u64, usize, u64) {
        (self.ratio.min(CLEAR_GAP), self.stopped, self.ratio)
    }

    /// Whether the clients before a better gap of another kind stand out more than those before this one.
    fn yields_to(&self, better: &Self) -> bool {
        let is_doubtful = self.ratio < DOUBTFUL_GAP;
        self.stopped < better.stopped || self.stopped > better.stopped && is_doubtful
    }

    /// The best gap of the candidates of another kind with the same clients before it.
    fn same(self, measured: &Measured, kind: Kind) -> Option<Self> {
        let clients = |gap: &Self| gap.clients(measured).collect::<BTreeSet<_>>();
        let own = clients(&self);
        let gaps = all(measured, kind, self.stopped, NARROW_GAP).into_iter();
        let same = gaps.filter(|gap| gap.stopped == self.stopped && clients(gap) == own);
        strictest(same.collect())
    }

    /// The clients before it.
    fn clients(self, measured: &Measured) -> impl Iterator<Item = usize> {
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
fn rounded_up(size: u64) -> u64 {
    let mut step = 1;
    while size / step >= 100 {
        step *= 10;
    }
    size.div_ceil(step) * step
}
