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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_is_like_a_vector_and_has_no_empty_block() {
        let (mut blocks, mut vector) = (Blocks::<u32, 4>::default(), Vec::new());
        for (round, element) in (0..200_u32).enumerate() {
            // It grows to a dozen, and then shrinks again.
            if round % 40 < 26 {
                blocks.push(element);
                vector.push(element);
            } else if !vector.is_empty() {
                let nth = round * 7 % vector.len();
                assert_eq!(blocks.swap_remove(nth), Some(vector.swap_remove(nth)));
            }
            if let Some(last) = vector.len().checked_sub(1) {
                let nth = round * 5 % vector.len();
                blocks.swap(nth, last);
                vector.swap(nth, last);
            }
            assert!(blocks.iter().eq(&vector) && blocks.len() == vector.len());
            assert_eq!(blocks.blocks.len(), vector.len().div_ceil(4));
            assert_eq!(blocks.get(vector.len()), None);
        }
        assert_eq!(Blocks::<u32, 4>::default().swap_remove(0), None);
    }
}
