//! Finds the entries of a list by their hashes.

use super::{blocks::Blocks, queue::narrow};

/// Chains of the entries `0..len` whose hashes end alike. The entries and their hashes are stored elsewhere.
#[derive(Debug, Default)]
pub(super) struct HashChains {
    /// The first entry of each chain. The number of chains is a power of two.
    heads: Vec<u32>,
    /// The entry that follows each entry in its chain.
    next: Blocks<u32, 128>,
}

/// The end of a chain.
const END: u32 = u32::MAX;
const LEAST_CHAINS: usize = 8;

impl HashChains {
    /// Returns the entry among those with a similar hash that `matches`.
    #[inline]
    pub(super) fn find(&self, hash: u64, matches: impl Fn(usize) -> bool) -> Option<usize> {
        let mut entry = *self.heads.get(self.chain(hash))?;
        while entry != END {
            if matches(entry as usize) {
                return Some(entry as usize);
            }
            entry = self.next[entry as usize];
        }
        None
    }

    /// Adds the next entry. `hash_of` returns the hash of each entry, this one included.
    pub(super) fn push(&mut self, hash_of: impl Fn(usize) -> u64) {
        let entry = self.next.len();
        self.next.push(END);
        if entry >= self.heads.len() {
            let chains = (2 * self.heads.len()).max(LEAST_CHAINS);
            return self.rebuild(chains, hash_of);
        }
        self.link(entry, hash_of(entry));
    }

    /// Removes an entry, before the list of the entries does. The last one takes its number.
    pub(super) fn swap_remove(&mut self, entry: usize, hash_of: impl Fn(usize) -> u64) {
        let last = self.next.len() - 1;
        let after = self.next[entry];
        *self.place_of(entry, hash_of(entry)) = after;
        if entry < last {
            *self.place_of(last, hash_of(last)) = narrow(entry);
        }
        self.next.swap_remove(entry);
        // A third of the chains is enough for a while, so that a list of a steady length is not rebuilt time and again.
        if self.heads.len() > LEAST_CHAINS && 8 * last < 3 * self.heads.len() {
            let moved = |nth| hash_of(if nth == entry { last } else { nth });
            self.rebuild(self.heads.len() / 2, moved);
        }
    }

    /// Exchanges the numbers of two different entries, before the list of the entries does.
    pub(super) fn swap(&mut self, a: usize, b: usize, hash_of: impl Fn(usize) -> u64) {
        let (hash_a, hash_b) = (hash_of(a), hash_of(b));
        for (entry, hash) in [(a, hash_a), (b, hash_b)] {
            *self.place_of(entry, hash) = self.next[entry];
        }
        self.link(b, hash_a);
        self.link(a, hash_b);
    }

    #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash do")]
    #[inline]
    fn chain(&self, hash: u64) -> usize {
        hash as usize & self.heads.len().wrapping_sub(1)
    }

    fn link(&mut self, entry: usize, hash: u64) {
        let chain = self.chain(hash);
        self.next[entry] = std::mem::replace(&mut self.heads[chain], narrow(entry));
    }

    /// Returns the head or the link that refers to an entry.
    fn place_of(&mut self, entry: usize, hash: u64) -> &mut u32 {
        let chain = self.chain(hash);
        let (sought, mut before) = (narrow(entry), self.heads[chain]);
        if before == sought {
            return &mut self.heads[chain];
        }
        while self.next[before as usize] != sought {
            before = self.next[before as usize];
        }
        &mut self.next[before as usize]
    }

    fn rebuild(&mut self, chains: usize, hash_of: impl Fn(usize) -> u64) {
        self.heads = vec![END; chains];
        for entry in 0..self.next.len() {
            self.link(entry, hash_of(entry));
        }
    }
}
