//! Overrides by id. Versions that differ in one override share the rest.

use std::{fmt, mem, sync::Arc};

use ahash::RandomState;
use hashbrown::hash_table::{Entry, HashTable};

use super::{limit::Limit, mistake::Origin};

/// The limit that one client has instead of the default.
/// [`LimitsBuilder::override_for`](super::LimitsBuilder::override_for) adds one.
#[derive(Clone, Debug)]
pub struct Override {
    folded: Box<str>,
    /// The id as written, if it differs from the folded one.
    written: Option<Box<str>>,
    limit: Arc<Limit>,
    pub(super) comment: Option<Box<str>>,
    pub(super) origin: Origin,
    /// Its place in the order of all.
    order: u64,
}

impl Override {
    pub(super) fn new(id: &str, folded: &str, limit: Arc<Limit>, origin: Origin) -> Self {
        Self {
            folded: folded.into(),
            written: (folded != id).then(|| id.into()),
            limit,
            comment: None,
            origin,
            order: 0,
        }
    }

    /// The id as it was written.
    #[must_use]
    pub fn id(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.folded)
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The comment in the file.
    #[must_use]
    pub fn comment(&self) -> Option<&str> {
        self.comment.as_deref()
    }
}

/// The number of parts. A change copies the pointers to all parts, and those in one of them.
const PARTS: usize = 512;

type Part = Arc<HashTable<Arc<Override>>>;

/// The overrides of one name, in small tables that clones share.
#[derive(Clone, Default)]
pub(super) struct Overrides {
    hasher: RandomState,
    /// None of them, or all.
    parts: Arc<Vec<Part>>,
    len: usize,
    /// The order of the next one.
    next: u64,
}

impl Overrides {
    #[inline]
    pub(super) fn get(&self, folded: &str) -> Option<&Override> {
        match self.len {
            0 => None,
            _ => self.look_up(folded),
        }
    }

    fn look_up(&self, folded: &str) -> Option<&Override> {
        let hash = self.hasher.hash_one(folded);
        let found = self.parts[part(hash)].find(hash, |own| *own.folded == *folded);
        found.map(|own| &**own)
    }

    /// Replaces or removes the override of a client. Returns the one before.
    pub(super) fn change(&mut self, folded: &str, new: Option<Override>) -> Option<Arc<Override>> {
        let hash = self.hasher.hash_one(folded);
        let parts = Arc::make_mut(&mut self.parts);
        parts.resize(PARTS, Part::default());
        let part = Arc::make_mut(&mut parts[part(hash)]);
        let order = self.next;
        let new = new.map(|own| Arc::new(Override { order, ..own }));
        (self.next, self.len) = (order + 1, self.len + usize::from(new.is_some()));
        let same = |own: &Arc<Override>| *own.folded == *folded;
        let entry = part.entry(hash, same, |own| self.hasher.hash_one(&*own.folded));
        let before = match (entry, new) {
            (Entry::Occupied(mut own), Some(new)) => Some(mem::replace(own.get_mut(), new)),
            (Entry::Occupied(own), None) => Some(own.remove().0),
            (Entry::Vacant(place), new) => {
                new.map(|new| place.insert(new));
                None
            }
        };
        self.len -= usize::from(before.is_some());
        before
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns all overrides, in the order in which they were added.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Override> {
        let all = self.parts.iter().flat_map(|part| part.iter());
        let mut all: Vec<_> = all.map(|own| &**own).collect();
        all.sort_unstable_by_key(|own| own.order);
        all.into_iter()
    }
}

/// Tables use the other bits.
fn part(hash: u64) -> usize {
    (hash >> 32) as usize % PARTS
}

/// Prints the number of overrides only, because there can be many.
impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} overrides", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(overrides: &mut Overrides, id: u32, limit: u32) -> Option<Arc<Override>> {
        let (id, origin) = (id.to_string(), Origin::default());
        let own = Override::new(&id, &id, Limit::per_second(limit).into(), origin);
        overrides.change(&id, Some(own))
    }

    fn limit_of(overrides: &Overrides, id: u32) -> Option<&Limit> {
        overrides.get(&id.to_string()).map(Override::limit)
    }

    #[test]
    fn every_override_is_found_and_nobody_elses() {
        let mut overrides = Overrides::default();
        for i in 0..20_000 {
            assert_eq!(limit_of(&overrides, i), None);
            assert!(add(&mut overrides, i, i + 1).is_none());
        }
        for i in 0..20_000 {
            assert_eq!(limit_of(&overrides, i), Some(&Limit::per_second(i + 1)));
            assert_eq!(limit_of(&overrides, i + 20_000), None);
        }
        let ids: Vec<_> = overrides
            .iter()
            .map(|own| own.id().parse::<u32>().unwrap())
            .collect();
        assert_eq!(ids, (0..20_000).collect::<Vec<_>>());
    }

    #[test]
    fn versions_differ_in_what_was_changed_and_share_the_rest() {
        let mut before = Overrides::default();
        for i in 0..5_000 {
            add(&mut before, i, 1);
        }
        let mut after = before.clone();
        assert!(add(&mut after, 7, 2).is_some());
        assert!(add(&mut after, 9_999, 3).is_none());
        assert!(after.change("8", None).is_some());
        assert!(after.change("8", None).is_none());
        assert_eq!((before.len(), after.len()), (5_000, 5_000));
        for (id, was, is) in [
            (7, Some(1), Some(2)),
            (8, Some(1), None),
            (9, Some(1), Some(1)),
            (9_999, None, Some(3)),
        ] {
            assert_eq!(limit_of(&before, id), was.map(Limit::per_second).as_ref());
            assert_eq!(limit_of(&after, id), is.map(Limit::per_second).as_ref());
        }
        let parts = before.parts.iter().zip(after.parts.iter());
        let copied = parts.filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
        assert!((1..=3).contains(&copied), "{copied}");
    }
}
