use std::{fmt, hash::Hash, sync::Arc};

use ahash::RandomState;
use indexmap::{IndexMap, map::Entry};

use super::limit::Limit;

/// The limit that one client has instead of the default.
/// [`LimitsBuilder::override_for`](super::LimitsBuilder::override_for) adds one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Override<'a> {
    /// The id as it was written.
    pub id: &'a str,
    /// The id in its canonical form.
    pub folded: &'a str,
    /// The limit.
    pub limit: &'a Limit,
    /// The comment in the file.
    pub comment: Option<&'a str>,
}

/// The overrides of one name, by folded id, in the order in which they were added.
#[derive(Clone, Default)]
pub(super) struct Overrides {
    map: IndexMap<Box<str>, StoredOverride, RandomState>,
    filter: Filter,
}

#[derive(Clone)]
pub(super) struct StoredOverride {
    limit: Arc<Limit>,
    /// The id as written, if it differs from the folded one.
    written: Option<Box<str>>,
    comment: Option<Box<str>>,
}

impl Overrides {
    /// Returns the limit of a client with an override.
    #[inline(always)]
    pub(super) fn limit_of(&self, folded: &str) -> Option<&Limit> {
        match self.map.is_empty() {
            true => None,
            false => self.look_up(folded),
        }
    }

    fn look_up(&self, folded: &str) -> Option<&Limit> {
        if !self.filter.may_hold(self.hash(folded)) {
            return None;
        }
        self.map.get(folded).map(|stored| &*stored.limit)
    }

    pub(super) fn get(&self, folded: &str) -> Option<Override<'_>> {
        let (folded, stored) = self.map.get_key_value(folded)?;
        Some(stored.show(folded))
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Override<'_>> {
        self.map.iter().map(|(folded, stored)| stored.show(folded))
    }

    /// Adds an override, or returns the existing one of the client.
    pub(super) fn add(
        &mut self,
        id: &str,
        folded: &str,
        limit: Arc<Limit>,
        comment: Option<&str>,
    ) -> Result<(), Override<'_>> {
        let hash = self.hash(folded);
        match self.map.entry(folded.into()) {
            Entry::Occupied(_) => {}
            Entry::Vacant(entry) => {
                entry.insert(StoredOverride {
                    limit,
                    written: (folded != id).then(|| id.into()),
                    comment: comment.map(Into::into),
                });
                self.filter.add(hash);
                if self.filter.is_small_for(self.map.len()) {
                    self.filter = Filter::of(self.map.keys().map(|id| self.hash(id)));
                }
                return Ok(());
            }
        }
        self.get(folded).map_or(Ok(()), Err)
    }

    fn hash(&self, folded: impl Hash) -> u64 {
        self.map.hasher().hash_one(folded)
    }
}

/// Prints the number of overrides only, because there can be many, and their ids can be personal data.
impl fmt::Debug for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overrides")
            .field("len", &self.map.len())
            .finish_non_exhaustive()
    }
}

impl StoredOverride {
    fn show<'a>(&'a self, folded: &'a str) -> Override<'a> {
        Override {
            id: self.written.as_deref().unwrap_or(folded),
            folded,
            limit: &self.limit,
            comment: self.comment.as_deref(),
        }
    }
}

/// A Bloom filter in front of the map. It has 8 to 16 bits for each override, and sets two of them in one word. Most
/// ids have no override, and looking such an id up in a big map would touch several cache lines.
#[derive(Clone, Default)]
struct Filter(Box<[u64]>);

impl Filter {
    /// The least number of bits for each id.
    const BITS: usize = 8;

    /// Creates a filter with room for twice as many ids as these.
    fn of(hashes: impl ExactSizeIterator<Item = u64>) -> Self {
        let words = (2 * hashes.len() * Self::BITS)
            .div_ceil(64)
            .next_power_of_two();
        let mut filter = Self(vec![0; words].into());
        hashes.for_each(|hash| filter.add(hash));
        filter
    }

    fn is_small_for(&self, ids: usize) -> bool {
        self.0.len() * 64 < ids * Self::BITS
    }

    fn add(&mut self, hash: u64) {
        if let Some(i) = self.index(hash) {
            self.0[i] |= bits(hash);
        }
    }

    #[inline]
    fn may_hold(&self, hash: u64) -> bool {
        self.index(hash)
            .is_none_or(|i| self.0[i] & bits(hash) == bits(hash))
    }

    #[inline]
    fn index(&self, hash: u64) -> Option<usize> {
        let mask = self.0.len().checked_sub(1)?;
        Some((hash >> 12) as usize & mask)
    }
}

#[inline]
fn bits(hash: u64) -> u64 {
    1 << (hash & 63) | 1 << (hash >> 6 & 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_override_is_found_and_nobody_elses() {
        let mut overrides = Overrides::default();
        for i in 0..5_000_u32 {
            assert_eq!(overrides.limit_of(&i.to_string()), None);
            let (id, limit) = (i.to_string(), Limit::per_second(i + 1));
            overrides.add(&id, &id, limit.into(), None).unwrap();
        }
        for i in 0..5_000 {
            let limit = overrides.limit_of(&i.to_string());
            assert_eq!(limit, Some(&Limit::per_second(i + 1)));
        }
        let others = (5_000..15_000).map(|i: u32| i.to_string());
        let hashes = others.map(|id| overrides.hash(id.as_str()));
        let passed = hashes
            .filter(|hash| overrides.filter.may_hold(*hash))
            .count();
        assert!(passed < 1_000, "{passed} of 10,000 pass the filter");
    }
}
