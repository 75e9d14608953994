//! Clients behind proxies.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tollgate_fuzz::client_ip::check(input));
