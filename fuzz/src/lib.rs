//! Properties that must hold for any input. Each module checks one kind of input, and panics if a property does not hold.
//!
//! The fuzz targets generate inputs, and `tests/corpus.rs` takes those in `corpus`. All checks use the public API.

pub mod client_ip;
pub mod durations;
pub mod id_format;
pub mod limits_file;
