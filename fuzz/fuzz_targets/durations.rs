//! Durations as Go writes them.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::durations::check(input));
