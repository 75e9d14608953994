//! The size of random runs.

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
