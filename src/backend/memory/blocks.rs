//! A list in blocks of the same size, which are never moved.

use std::ops::{Index, IndexMut};

/// A list that grows and shrinks by a block of `N` elements. A vector would be copied as it grows; the gaps that many
/// such copies leave in the heap take as much memory as a third of the elements.
#[derive(Debug)]
pub(super) struct Blocks<T, const N: usize> {
    /// All blocks are full, except for the last one, which has at least one element.
    blocks: Vec<Vec<T>>,
}

impl<T, const N: usize> Blocks<T, N> {
    pub(super) fn len(&self) -> usize {
        match self.blocks.split_last() {
            Some((last, full)) => N * full.len() + last.len(),
            None => 0,
        }
    }

    pub(super) fn get(&self, nth: usize) -> Option<&T> {
        self.blocks.get(nth / N)?.get(nth % N)
    }

    pub(super) fn push(&mut self, element: T) {
        match self.blocks.last_mut() {
            Some(last) if last.len() < N => last.push(element),
            _ => {
                let mut block = Vec::with_capacity(N);
                block.push(element);
                self.blocks.push(block);
            }
        }
    }

    /// Removes an element. The last one takes its place.
    pub(super) fn swap_remove(&mut self, nth: usize) -> Option<T> {
        let last = self.blocks.last_mut()?;
        let element = last.pop()?;
        if last.is_empty() {
            self.blocks.pop();
        }
        match self.len() == nth {
            true => Some(element),
            false => Some(std::mem::replace(&mut self[nth], element)),
        }
    }

    /// Exchanges two elements.
    pub(super) fn swap(&mut self, a: usize, b: usize) {
        let (low, high) = (a.min(b), a.max(b));
        match low / N == high / N {
            true => self.blocks[low / N].swap(low % N, high % N),
            false => {
                let (lower, higher) = self.blocks.split_at_mut(high / N);
                std::mem::swap(&mut lower[low / N][low % N], &mut higher[0][high % N]);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.blocks.iter().flatten()
    }
}

impl<T, const N: usize> Default for Blocks<T, N> {
    fn default() -> Self {
        Self { blocks: Vec::new() }
    }
}

impl<T, const N: usize> Index<usize> for Blocks<T, N> {
    type Output = T;

    #[inline]
    fn index(&self, nth: usize) -> &T {
        &self.blocks[nth / N][nth % N]
    }
}

impl<T, const N: usize> IndexMut<usize> for Blocks<T, N> {
    #[inline]
    fn index_mut(&mut self, nth: usize) -> &mut T {
        &mut self.blocks[nth / N][nth % N]
    }
}
