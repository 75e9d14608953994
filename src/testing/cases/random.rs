/// Small random numbers, the same in each run.
pub struct Random(pub u64);

impl Random {
    /// A number below `n`, by SplitMix64.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    /// A place among so many.
    pub(super) fn place(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).unwrap()
    }

    pub fn cost(&mut self, below: u64) -> u32 {
        u32::try_from(self.below(below)).unwrap()
    }
}
