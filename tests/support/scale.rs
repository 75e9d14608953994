//! The size of random runs, and their random numbers.

use std::{env, num::NonZeroU16, ops::Mul, sync::LazyLock};

/// The variable with the factor for the size of random runs. It is 1 by default, with which all tests take minutes. CI runs more
/// each night.
const SCALE: &str = "TOLLGATE_TEST_SCALE";

/// Returns a number of cases, steps or requests, multiplied by the scale.
///
/// # Panics
///
/// Panics if the scale is not a whole number from 1 to 65,535.
pub(crate) fn scaled<N: From<u16> + Mul<Output = N>>(count: N) -> N {
    static FACTOR: LazyLock<u16> = LazyLock::new(scale);
    count * N::from(*FACTOR)
}

fn scale() -> u16 {
    let Ok(text) = env::var(SCALE) else {
        return 1;
    };
    let scale: NonZeroU16 = text
        .parse()
        .unwrap_or_else(|_| panic!("set {SCALE} to a whole number from 1 to 65535, not {text:?}"));
    scale.get()
}

/// Numbers that are the same in each run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        // The first numbers of similar seeds would be similar, too.
        ((self.0 ^ (self.0 >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % n
    }
}
