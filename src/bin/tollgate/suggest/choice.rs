//! Chooses limits that separate the clients that may be denied from all others.
//!
//! For each candidate, clients are sorted by what they need. If one of the first places, up to the number that may be denied,
//! needs far more than the next, a limit between the two stops those before the gap and nobody else, and leaves everyone else
//! room. The gap with the most clients before it wins if it is clear, and of all candidates the strictest of those where it is
//! nearly the widest. If one kind of limit shows a clear gap, a narrower gap is enough for the others. Without a gap, the limit is
//! a quarter above the need of the first client that must not be denied.

use super::{
    candidates::{CANDIDATES, Candidate, Kind},
    gap::{Gap, ROOM, rounded_up},
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
pub(super) fn outstanding(measured: &Measured, at_most: usize) -> Vec<u64> {
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
