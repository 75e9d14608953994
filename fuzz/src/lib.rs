//! What has to hold whatever is read. Each module checks one input, and panics if it does not hold.
//!
//! The fuzz targets give it inputs of their making, and `tests/corpus.rs` the ones in `corpus`. All
//! of them go through what users have: the public API.

pub mod client_ip;
pub mod durations;
pub mod id_format;
pub mod limits_file;
