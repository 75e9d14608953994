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
