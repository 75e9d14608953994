//! Chooses limits that separate the clients that may be denied from all others.
//!
//! For each candidate, clients are sorted by what they need. If one of the first places, up to the number that may be denied,
//! needs far more than the next, a limit between the two stops those before the gap and nobody else, and leaves everyone else
//! room. The gap with the most clients before it wins if it is clear, and of all candidates the one where it is widest. Without
//! a gap, the limit is a quarter above what the first client needs that may not be denied.

use super::{
    candidates::{CANDIDATES, Candidate},
    measure::Measured,
    recommendation::{Choice, Kind},
};
use crate::output::grouped;

/// A gap below 1.4 is none, in thousandths.
const NO_GAP: u64 = 1_400;

/// Gaps above this are equally clear.
const WIDE_GAP: u64 = 8_000;

/// Added to what others need, so that a few requests more or less make no gap.
const SLACK: u64 = 5;

/// The room above what the others need, if there is no gap: a quarter.
const ROOM: u64 = 4;

/// A gap: this many clients of a candidate need this many times what the next one needs, in thousandths.
#[derive(Clone, Copy)]
struct Gap {
    place: usize,
    stopped: usize,
    ratio: u64,
    size: u64,
}

/// Chooses a limit of each kind that denies at most this many clients.
pub(super) fn choose(measured: &Measured, at_most: u64) -> Vec<Choice> {
    let at_most = usize::try_from(at_most).unwrap_or(usize::MAX);
    let kinds = [Kind::Gcra, Kind::Window, Kind::Quota];
    let chosen = kinds.into_iter().filter_map(|kind| {
        let clear = clearest(&gaps(measured, kind, at_most));
        let gap = clear.map(|gap| of_gap(measured, gap));
        gap.or_else(|| without_gap(measured, kind, at_most))
    });
    chosen.filter(|_| measured.clients > 0).collect()
}

/// All gaps of the candidates of a kind.
fn gaps(measured: &Measured, kind: Kind, at_most: usize) -> Vec<Gap> {
    let mut gaps = Vec::new();
    for (place, candidate) in of_kind(kind) {
        let tops = &measured.tops[place];
        let most = at_most.min(tops.len().saturating_sub(1));
        for stopped in 1..=most {
            let (least, others) = (tops[stopped - 1].0, tops[stopped].0);
            let ratio = least.saturating_mul(1000) / (others + SLACK);
            if ratio < NO_GAP || others >= candidate.largest() {
                continue;
            }
            let size = within(others, least).min(candidate.largest());
            if candidate.suits(size, measured.length()) {
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

fn of_kind(kind: Kind) -> impl Iterator<Item = (usize, Candidate)> {
    let all = CANDIDATES.into_iter().enumerate();
    all.filter(move |(_, candidate)| candidate.kind() == kind)
}

/// The widest gap behind the most clients. It has to be clear in comparison with the widest one of all: a heavy user among
/// people is no crawler.
fn clearest(gaps: &[Gap]) -> Option<Gap> {
    let widest = gaps.iter().map(|gap| gap.ratio).max()?.min(WIDE_GAP);
    let clear = cube_root(widest).max(NO_GAP);
    let clear = gaps.iter().filter(|gap| gap.ratio >= clear);
    clear.copied().max_by_key(|gap| (gap.stopped, gap.ratio))
}

/// The cube root of a number of thousandths, in thousandths.
fn cube_root(thousandths: u64) -> u64 {
    let scaled = u128::from(thousandths) * 1_000_000;
    let (mut low, mut high) = (0_u64, 10_000_000);
    while high - low > 1 {
        let middle = low.midpoint(high);
        match u128::from(middle).pow(3) <= scaled {
            true => low = middle,
            false => high = middle,
        }
    }
    low
}

/// A round size between what others need and the least that is stopped: twice the one, or the geometric mean if that is less.
fn within(others: u64, least: u64) -> u64 {
    let product = u128::from(others) * u128::from(least);
    let mean = u64::try_from(product.isqrt()).unwrap_or(u64::MAX);
    let size = (others * 2).min(mean).max(others + 1);
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

fn of_gap(measured: &Measured, gap: Gap) -> Choice {
    let candidate = CANDIDATES[gap.place];
    let least = measured.need(gap.place, gap.stopped - 1);
    let others = measured.need(gap.place, gap.stopped);
    let (least, others) = (grouped(least), grouped(others));
    let stops = match gap.stopped {
        1 => format!("it stops one client, which would need {least}"),
        stopped => format!(
            "it stops {} clients, which would need {least} or more",
            grouped(stopped as u64)
        ),
    };
    let what = in_words(candidate);
    Choice {
        place: gap.place,
        candidate,
        size: u32::try_from(gap.size).unwrap_or(u32::MAX),
        reason: format!("{what}, {stops}; all others need at most {others}"),
    }
}

fn in_words(candidate: Candidate) -> String {
    match candidate {
        Candidate::Rate { .. } => format!("counted in bursts at {}", candidate.words()),
        _ => format!("counted in {}", candidate.words()),
    }
}

/// The strictest limit of a kind that leaves room above what the first client needs that may not be denied.
fn without_gap(measured: &Measured, kind: Kind, at_most: usize) -> Option<Choice> {
    let sized = of_kind(kind).filter_map(|(place, candidate)| {
        let tops = &measured.tops[place];
        let others = measured.need(place, at_most.min(tops.len().checked_sub(1)?));
        let size = rounded_up(others + others / ROOM + 1);
        let suits = size <= candidate.largest() && candidate.suits(size, measured.length());
        suits.then_some((place, candidate, others, size))
    });
    let strictest = sized.min_by_key(|(_, candidate, _, size)| candidate.per_hour(*size));
    let (place, candidate, others, size) = strictest?;
    let (what, others) = (in_words(candidate), grouped(others));
    Some(Choice {
        place,
        candidate,
        size: u32::try_from(size).unwrap_or(u32::MAX),
        reason: format!(
            "{what}, no client stands out; this leaves a quarter above the {others} that are needed by the first client that may not be denied"
        ),
    })
}
