use crate::transaction::Fingerprint;

/// Returns a function for random numbers below `n`, the same in each run.
pub(super) fn random_numbers() -> impl FnMut(u64) -> u64 {
    let mut state = 1_u64;
    move |n| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % n
    }
}

/// Returns well-spread fingerprints, the same in each run.
pub(super) fn print(n: u64) -> Fingerprint {
    let mix = |n: u64| {
        let n = (n ^ n >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (n ^ n >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    Fingerprint {
        low: mix(2 * n + 1),
        high: mix(2 * n + 2),
    }
}
