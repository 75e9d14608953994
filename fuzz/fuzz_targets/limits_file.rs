//! Files of limits in three languages.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::limits_file::check(input));
