//! The values of a limit: those of an algorithm, or a limit that allows or denies everything.

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
    },
    entry::Entry,
    node::Node,
};
use crate::algorithm::{AlgorithmKey, FieldReader};

/// The kinds of limits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValuesKind {
    /// Everything or nothing passes.
    All,
    Nothing,
    By(AlgorithmKey),
}

impl ValuesKind {
    fn all() -> impl Iterator<Item = Self> {
        // The last of the algorithms is mentioned first.
        let mut keys = AlgorithmKey::ALL;
        keys.rotate_right(1);
        [Self::All, Self::Nothing]
            .into_iter()
            .chain(keys.into_iter().map(Self::By))
    }

    /// The fields that only this kind has.
    const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::All => &["unlimited"],
            Self::Nothing => &["blocked"],
            Self::By(key) => key.fields(),
        }
    }

    /// Names this kind in errors, by its main fields.
    const fn words(self) -> &'static str {
        match self {
            Self::All => "unlimited",
            Self::Nothing => "blocked",
            Self::By(key) => key.words(),
        }
    }

    /// Finds the first field that marks an entry as this kind.
    fn found<'a>(self, entry: &Entry<'a>) -> Result<Option<&'a Node<'a>>, LimitsError> {
        let is_denied = match self {
            Self::All => !entry.flag("unlimited")?,
            Self::Nothing => !entry.flag("blocked")?,
            Self::By(_) => false,
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
        let is_there = |field| entry.get(field).is_some();
        let is_started = options().iter().any(|(field, _)| is_there(field));
        return match is_started || is_there("unlimited") || is_there("blocked") {
            true => Err(entry.missing("burst")),
            false => Ok(None),
        };
    };
    refuse_options_of_others(kind, entry)?;
    Ok(Some(match kind {
        ValuesKind::All => Limit::UNLIMITED,
        ValuesKind::Nothing => Limit::BLOCKED,
        ValuesKind::By(key) => Limit::of(key.read(entry)?),
    }))
}

/// The fields that do not mark a limit, with the reason why other algorithms do not have them.
fn options() -> Vec<(&'static str, &'static str)> {
    AlgorithmKey::ALL.map(AlgorithmKey::options).concat()
}

fn refuse_options_of_others(kind: ValuesKind, entry: &Entry<'_>) -> Result<(), LimitsError> {
    let own = match kind {
        ValuesKind::By(key) => key.options(),
        ValuesKind::All | ValuesKind::Nothing => &[],
    };
    for (field, reason) in options() {
        if own.iter().any(|(own, _)| *own == field) {
            continue;
        }
        if let Some(node) = entry.get(field) {
            let mistake = Mistake::OtherKind {
                field,
                kind: kinds_with(field),
                reason,
            };
            return Err(mistake.at(node.line));
        }
    }
    Ok(())
}

/// Names the kinds that have a field which does not mark a limit.
fn kinds_with(field: &str) -> String {
    let has = |key: &AlgorithmKey| key.options().iter().any(|(own, _)| *own == field);
    let keys = AlgorithmKey::ALL.into_iter().filter(has);
    let words: Vec<_> = keys.map(AlgorithmKey::words).collect();
    words.join(", or ")
}

/// Returns the only kind of an entry.
fn only_kind(entry: &Entry<'_>) -> Result<Option<ValuesKind>, LimitsError> {
    let mut kinds = Vec::new();
    for kind in ValuesKind::all() {
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
