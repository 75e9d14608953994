//! The values of a limit: a token bucket, tiers, or a limit that allows or denies everything.

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    entry::Entry,
    tiers::tiers,
};
use crate::gcra::{Gcra, GcraError};

/// The values, or `None` if there are none.
pub(super) fn limit(entry: &Entry<'_>) -> Result<Option<Limit>, LimitsError> {
    let (unlimited, blocked) = (entry.flag("unlimited")?, entry.flag("blocked")?);
    let kinds: [&[&str]; 4] = [
        if unlimited { &["unlimited"] } else { &[] },
        if blocked { &["blocked"] } else { &[] },
        &["tiers"],
        &["burst", "count", "period"],
    ];
    let has_line = entry.get("max_wait");
    let first = |kind: &&[&str]| kind.iter().find_map(|field| entry.get(field));
    let mut there = kinds.iter().filter_map(first);
    if let (Some(_), Some(other)) = (there.next(), there.next()) {
        return Err(Mistake::TwoKinds.at(other.line));
    }
    if let Some((_, wait)) = kinds[..3].iter().find_map(first).zip(has_line) {
        return Err(Mistake::NoLine.at(wait.line));
    }
    match entry.get("tiers") {
        _ if unlimited => Ok(Some(Limit::UNLIMITED)),
        _ if blocked => Ok(Some(Limit::BLOCKED)),
        Some(node) => tiers(node).map(Some),
        // Whoever says what it is not has forgotten to say what it is.
        None if entry.get("unlimited").or(entry.get("blocked")).is_some() => {
            let bucket = bucket(entry)?;
            bucket.map_or_else(|| Err(entry.missing("burst")), |limit| Ok(Some(limit)))
        }
        None => bucket(entry),
    }
}

fn bucket(entry: &Entry<'_>) -> Result<Option<Limit>, LimitsError> {
    match (
        entry.whole("burst")?,
        entry.whole("count")?,
        entry.duration("period")?,
    ) {
        (None, None, None) if entry.get("max_wait").is_none() => Ok(None),
        (None, _, _) => Err(entry.missing("burst")),
        (_, None, _) => Err(entry.missing("count")),
        (_, _, None) => Err(entry.missing("period")),
        (Some(burst), Some(count), Some(period)) => {
            let max_wait = entry.duration("max_wait")?.unwrap_or_default();
            let gcra = Gcra::new(burst, count, period);
            let gcra = gcra.and_then(|gcra| gcra.with_max_wait(max_wait));
            gcra.map(|gcra| Some(gcra.into()))
                .map_err(|error| Mistake::from(error).at(entry.line_of(field_of(error))))
        }
    }
}

/// The field that has to be changed first.
fn field_of(error: GcraError) -> &'static str {
    match error {
        GcraError::ZeroBurst => "burst",
        GcraError::ZeroCount => "count",
        GcraError::WaitTooFine | GcraError::WaitTooLong => "max_wait",
        _ => "period",
    }
}
