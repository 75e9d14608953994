//! The example service, driven from outside as a process. Its behaviour is documented in its
//! interface's description, sentence by sentence.

#![cfg(all(unix, feature = "redis", feature = "reload", feature = "yaml"))]

mod decisions;
mod files;
mod lifecycle;
mod permits;
mod process;
mod refusals;
mod tiers;
