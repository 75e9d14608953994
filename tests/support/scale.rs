//! How large random runs are.

use std::{env, num::NonZeroUsize, sync::LazyLock};

/// What multiplies them: 1 unless said otherwise, which takes a minute or two. CI runs ten times as much each night.
const SCALE: &str = "TOLLGATE_TEST_SCALE";

/// So many cases, steps or requests, times the scale.
///
/// # Panics
///
/// Panics if the scale is not a whole number above zero.
pub(crate) fn scaled(count: usize) -> usize {
    static FACTOR: LazyLock<usize> = LazyLock::new(|| match env::var(SCALE) {
        Ok(text) => {
            let factor = text.parse::<NonZeroUsize>();
            factor
                .unwrap_or_else(|_| {
                    panic!("set {SCALE} to a whole number above zero, not {text:?}")
                })
                .get()
        }
        Err(_) => 1,
    });
    count * *FACTOR
}
