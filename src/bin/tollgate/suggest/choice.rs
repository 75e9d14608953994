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
use crate::output::grouped;

/// A recommended candidate and its size.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The place of the candidate.
    pub(crate) place: usize,
    pub(crate) candidate: Candidate,
    pub(crate) size: u32,
    pub(crate) reason: String,
}

/// Chooses a limit of each kind that denies at most this many clients.
pub(super) fn choose(measured: &Measured, at_most: u64) -> Vec<Choice> {
    if measured.clients == 0 {
        return Vec::new();
    }
    let at_most = usize::try_from(at_most).unwrap_or(usize::MAX);
    let kinds = [Kind::Gcra, Kind::Window, Kind::Quota];
    let gaps = kinds.map(|kind| Gap::clearest(measured, kind, at_most));
    let best = gaps.iter().flatten().max_by_key(|gap| gap.rank());
    let chosen = kinds.into_iter().zip(gaps).filter_map(|(kind, own)| {
        let same = best
            .filter(|best| own.is_none_or(|own| own.yields_to(best)))
            .and_then(|best| best.same(measured, kind));
        let gap = same.or(own).map(|gap| of_gap(measured, gap));
        gap.or_else(|| without_gap(measured, kind, at_most))
    });
    chosen.collect()
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
    let sized = kind.candidates().filter_map(|(place, candidate)| {
        let tops = &measured.tops[place];
        let others = measured.need(place, at_most.min(tops.len().checked_sub(1)?));
        let size = rounded_up(others + others / ROOM + 1);
        let suits = size <= candidate.largest(measured.length());
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
