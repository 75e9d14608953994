//! The values of a limit: a token bucket, a window, a quota, tiers, or a limit that allows or denies everything.

use arrayvec::ArrayVec;

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    entry::Entry,
    node::Node,
    quota::quota,
    tiers::tiers,
};
use crate::{
    gcra::{Gcra, GcraError},
    window::{Window, WindowError},
};

/// The kinds of limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuesKind {
    Unlimited,
    Blocked,
    Tiers,
    Bucket,
    Window,
    Quota,
}

impl ValuesKind {
    const ALL: [Self; 6] = [
        Self::Unlimited,
        Self::Blocked,
        Self::Tiers,
        Self::Bucket,
        Self::Window,
        Self::Quota,
    ];

    /// The fields that only this kind has.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Unlimited => &["unlimited"],
            Self::Blocked => &["blocked"],
            Self::Tiers => &["tiers"],
            Self::Bucket => &["burst", "count", "period"],
            Self::Window => &["limit", "window"],
            Self::Quota => &["quota", "per", "utc_offset"],
        }
    }

    /// Names this kind in errors, by its main fields.
    const fn words(self) -> &'static str {
        match self {
            Self::Unlimited => "unlimited",
            Self::Blocked => "blocked",
            Self::Tiers => "tiers",
            Self::Bucket => "burst, count and period",
            Self::Window => "limit and window",
            Self::Quota => "quota and per",
        }
    }

    /// Finds the first field that marks an entry as this kind.
    fn found<'a>(self, entry: &Entry<'a>) -> Result<Option<&'a Node<'a>>, LimitsError> {
        let is_denied = match self {
            Self::Unlimited => !entry.flag("unlimited")?,
            Self::Blocked => !entry.flag("blocked")?,
            _ => false,
        };
        let mut fields = self.fields().iter();
        let found = fields.find_map(|field| entry.get(field));
        Ok(found.filter(|_| !is_denied))
    }
}

/// The values, or `None` if there are none.
pub(super) fn limit(entry: &Entry<'_>) -> Result<Option<Limit>, LimitsError> {
    let Some(kind) = only_kind(entry)? else {
        // These fields do not define a limit by themselves, so the other values were forgotten.
        let is_started = ["unlimited", "blocked", "max_wait"];
        return match is_started.iter().any(|field| entry.get(field).is_some()) {
            true => Err(entry.missing("burst")),
            false => Ok(None),
        };
    };
    if let Some(wait) = entry.get("max_wait").filter(|_| kind != ValuesKind::Bucket) {
        return Err(Mistake::NoLine.at(wait.line));
    }
    let limit = match kind {
        ValuesKind::Unlimited => Ok(Limit::UNLIMITED),
        ValuesKind::Blocked => Ok(Limit::BLOCKED),
        ValuesKind::Tiers => tiers(entry),
        ValuesKind::Bucket => bucket(entry),
        ValuesKind::Window => window(entry),
        ValuesKind::Quota => quota(entry),
    };
    limit.map(Some)
}

/// Returns the only kind of an entry.
fn only_kind(entry: &Entry<'_>) -> Result<Option<ValuesKind>, LimitsError> {
    let mut kinds = ArrayVec::<_, { ValuesKind::ALL.len() }>::new();
    for kind in ValuesKind::ALL {
        let node = kind.found(entry)?;
        kinds.extend(node.map(|node| (kind, node)));
    }
    match kinds[..] {
        [] => Ok(None),
        [(kind, _)] => Ok(Some(kind)),
        [(first, _), ref others @ ..] => {
            let words: Vec<_> = others.iter().map(|(kind, _)| kind.words()).collect();
            let mistake = Mistake::SeveralKinds(first.words(), words.join(" and with "));
            Err(mistake.at(others[0].1.line))
        }
    }
}

fn bucket(entry: &Entry<'_>) -> Result<Limit, LimitsError> {
    let burst = entry.whole("burst")?;
    let count = entry.whole("count")?;
    let period = entry.duration("period")?;
    let burst = burst.ok_or_else(|| entry.missing("burst"))?;
    let count = count.ok_or_else(|| entry.missing("count"))?;
    let period = period.ok_or_else(|| entry.missing("period"))?;
    let max_wait = entry.duration("max_wait")?.unwrap_or_default();
    let gcra = Gcra::new(burst, count, period);
    let gcra = gcra.and_then(|gcra| gcra.with_max_wait(max_wait));
    gcra.map(Limit::from)
        .map_err(|error| Mistake::from(error).at(entry.line_of(field_of_bucket(error))))
}

/// The field that has to be changed first.
fn field_of_bucket(error: GcraError) -> &'static str {
    match error {
        GcraError::ZeroBurst => "burst",
        GcraError::ZeroCount => "count",
        GcraError::WaitTooFine | GcraError::WaitTooLong => "max_wait",
        _ => "period",
    }
}

fn window(entry: &Entry<'_>) -> Result<Limit, LimitsError> {
    let limit = entry.whole("limit")?;
    let window = entry.duration("window")?;
    let limit = limit.ok_or_else(|| entry.missing("limit"))?;
    let window = window.ok_or_else(|| entry.missing("window"))?;
    let window = Window::new(limit, window);
    window
        .map(Limit::from)
        .map_err(|error| Mistake::from(error).at(entry.line_of(field_of_window(error))))
}

/// The field that has to be changed first.
fn field_of_window(error: WindowError) -> &'static str {
    match error {
        WindowError::ZeroLimit | WindowError::TooManyToRemember(_) => "limit",
        _ => "window",
    }
}
