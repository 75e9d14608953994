//! The values of a limit: those of an algorithm, or a limit that allows or denies everything.

use super::{
    super::{
        limit::Limit,
        mistake::{LimitsError, Mistake},
        notation::WORDS,
    },
    entry::Entry,
    node::Node,
};
use crate::algorithm::{AlgorithmKey, FieldReader};

/// The kinds of limits.
enum ValuesKind {
    /// A flag, and the limit that it stands for.
    Flag(&'static str, &'static Limit),
    By(AlgorithmKey),
}

impl ValuesKind {
    fn all() -> impl Iterator<Item = Self> {
        let flags = WORDS.iter().map(|(field, limit)| Self::Flag(field, limit));
        // The last of the algorithms is mentioned first.
        let mut keys = AlgorithmKey::ALL;
        keys.rotate_right(1);
        flags.chain(keys.map(Self::By))
    }

    /// Names this kind in errors, by its main fields.
    fn words(&self) -> &'static str {
        match self {
            Self::Flag(field, _) => field,
            Self::By(key) => key.words(),
        }
    }

    /// Finds the first field that marks an entry as this kind.
    fn found<'a>(&self, entry: &Entry<'a>) -> Result<Option<&'a Node<'a>>, LimitsError> {
        Ok(match self {
            Self::Flag(field, _) if entry.flag(field)? => entry.get(field),
            Self::Flag(..) => None,
            Self::By(key) => key.fields().iter().find_map(|field| entry.get(field)),
        })
    }
}

/// The values, or `None` if there are none.
pub(super) fn limit(entry: &Entry<'_>) -> Result<Option<Limit>, LimitsError> {
    let Some(kind) = only_kind(entry)? else {
        // These fields do not define a limit by themselves, so the other values were forgotten.
        let is_there = |field| entry.get(field).is_some();
        let is_started = options().iter().any(|(field, _)| is_there(field));
        return match is_started || WORDS.iter().any(|(field, _)| is_there(field)) {
            true => Err(entry.missing("burst")),
            false => Ok(None),
        };
    };
    refuse_options_of_others(&kind, entry)?;
    Ok(Some(match kind {
        ValuesKind::Flag(_, limit) => limit.clone(),
        ValuesKind::By(key) => Limit::of(key.read(entry)?),
    }))
}

/// The fields that do not mark a limit, with the reason why other algorithms do not have them.
fn options() -> Vec<(&'static str, &'static str)> {
    AlgorithmKey::ALL.map(AlgorithmKey::options).concat()
}

fn refuse_options_of_others(kind: &ValuesKind, entry: &Entry<'_>) -> Result<(), LimitsError> {
    let own = match kind {
        ValuesKind::By(key) => key.options(),
        ValuesKind::Flag(..) => &[],
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
    if let [(first, _), (_, second), ..] = &kinds[..] {
        let words: Vec<_> = kinds[1..].iter().map(|(kind, _)| kind.words()).collect();
        let mistake = Mistake::SeveralKinds(first.words(), words.join(" and with "));
        return Err(mistake.at(second.line));
    }
    Ok(kinds.pop().map(|(kind, _)| kind))
}
