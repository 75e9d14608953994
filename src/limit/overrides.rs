//! Overrides by id or by range of addresses. Versions of the limits that differ in one override share the others.

use std::{fmt, iter, mem, sync::Arc};

use ahash::RandomState;
use hashbrown::hash_table::{Entry, HashTable};

use super::{client_override::Override, ranges::RangeOverrides};
use crate::id::IdFormat;

/// The number of groups, and of parts in each. A change copies the pointers to all groups, to the parts of one group, and to
/// the overrides of one part.
const BRANCHES: usize = 64;

type Group = Arc<Vec<Part>>;
type Part = Arc<HashTable<Arc<Override>>>;

/// The overrides of one name, in small tables that clones share.
#[derive(Clone, Default)]
pub(super) struct Overrides {
    hasher: RandomState,
    /// All groups, or none as long as there are no overrides.
    groups: Arc<Vec<Group>>,
    len: usize,
    /// The position of the next override in the order.
    next: u64,
    /// The overrides of ranges, if the ids are addresses. A change copies them all.
    ranges: Option<Arc<RangeOverrides>>,
}

impl Overrides {
    pub(super) fn new(format: IdFormat) -> Self {
        Self {
            ranges: (format == IdFormat::IpAddress).then(Arc::default),
            ..Self::default()
        }
    }

    /// Returns the override of a client or, if it has none, that of the longest range with its address.
    #[inline]
    pub(super) fn get(&self, folded: &str) -> Option<&Override> {
        match self.len {
            0 => None,
            _ => self.look_up(folded),
        }
    }

    fn look_up(&self, folded: &str) -> Option<&Override> {
        let hash = self.hasher.hash_one(folded);
        let [group, part] = path(hash);
        let parts = self.groups.get(group);
        let found = parts.and_then(|parts| parts[part].find(hash, |own| *own.folded == *folded));
        match (found, &self.ranges) {
            (None, Some(ranges)) => ranges.get(folded),
            _ => found.map(|own| &**own),
        }
    }

    /// Replaces or removes the override of a client or a range. Returns the previous one.
    pub(super) fn change(&mut self, folded: &str, new: Option<Override>) -> Option<Arc<Override>> {
        let order = self.next;
        let new = new.map(|mut own| {
            own.order = order;
            Arc::new(own)
        });
        self.next = order + 1;
        self.len += usize::from(new.is_some());
        let before = match (&mut self.ranges, folded.parse()) {
            (Some(ranges), Ok(range)) => Arc::make_mut(ranges).change(range, new),
            _ => self.change_client(folded, new),
        };
        self.len -= usize::from(before.is_some());
        before
    }

    fn change_client(&mut self, folded: &str, new: Option<Arc<Override>>) -> Option<Arc<Override>> {
        let hash = self.hasher.hash_one(folded);
        let [group, part] = path(hash);
        let groups = Arc::make_mut(&mut self.groups);
        groups.resize_with(BRANCHES, || vec![Part::default(); BRANCHES].into());
        let parts = Arc::make_mut(&mut groups[group]);
        let part = Arc::make_mut(&mut parts[part]);
        let same = |own: &Arc<Override>| *own.folded == *folded;
        let entry = part.entry(hash, same, |own| self.hasher.hash_one(&*own.folded));
        match (entry, new) {
            (Entry::Occupied(mut own), Some(new)) => Some(mem::replace(own.get_mut(), new)),
            (Entry::Occupied(own), None) => Some(own.remove().0),
            (Entry::Vacant(vacant), new) => {
                new.map(|new| vacant.insert(new));
                None
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the overrides in the order in which they were added, without the parts that `other` shares.
    pub(super) fn apart_from<'a>(
        &'a self,
        other: Option<&'a Self>,
    ) -> impl ExactSizeIterator<Item = &'a Override> {
        let groups = unshared(&self.groups, other.map(|other| &**other.groups));
        let parts = groups.flat_map(|(group, other)| unshared(group, other.map(Vec::as_slice)));
        let clients = parts.flat_map(|(part, _)| part.iter());
        let others = other.map(|other| other.ranges.as_slice());
        let ranges = unshared(self.ranges.as_slice(), others);
        let ranges = ranges.flat_map(|(ranges, _)| ranges.iter());
        let mut own: Vec<_> = clients.chain(ranges).map(|own| &**own).collect();
        own.sort_unstable_by_key(|own| own.order);
        own.into_iter()
    }
}

/// Returns the index of a group, and the index of a part in it. The part's table uses other bits of the hash.
fn path(hash: u64) -> [usize; 2] {
    let bits = (hash >> 32) as usize;
    [bits % BRANCHES, bits / BRANCHES % BRANCHES]
}

/// Returns the branches that are not shared with `others`, each with the branch of `others` at the same index.
fn unshared<'a, T>(
    branches: &'a [Arc<T>],
    others: Option<&'a [Arc<T>]>,
) -> impl Iterator<Item = (&'a T, Option<&'a T>)> {
    let others = others.into_iter().flatten().map(Some);
    let pairs = iter::zip(branches, others.chain(iter::repeat(None)));
    let pairs = pairs.filter(|(own, other)| !other.is_some_and(|other| Arc::ptr_eq(own, other)));
    pairs.map(|(own, other)| (&**own, other.map(|other| &**other)))
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
    use crate::limit::{Limit, mistake::Location};

    fn add(overrides: &mut Overrides, id: u32, limit: u32) -> Option<Arc<Override>> {
        let id = id.to_string();
        let location = Location::default();
        let own = Override::new(&id, &id, Limit::per_second(limit).into(), location);
        overrides.change(&id, Some(own))
    }

    fn limit_of(overrides: &Overrides, id: u32) -> Option<&Limit> {
        overrides.get(&id.to_string()).map(Override::limit)
    }

    #[test]
    fn override_applies_to_its_own_client_only() {
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
            .apart_from(None)
            .map(|own| own.id().parse::<u32>().unwrap())
            .collect();
        assert_eq!(ids, (0..20_000).collect::<Vec<_>>());
    }

    #[test]
    fn versions_share_unchanged_overrides() {
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
        let own: Vec<_> = after.apart_from(Some(&before)).map(Override::id).collect();
        assert!(own.contains(&"7") && own.contains(&"9999") && own.len() < 50);
    }
}
