//! The example service, driven from outside as a process. What it must do is written in its
//! interface's description, sentence by sentence.

#![cfg(all(unix, feature = "yaml"))]

mod decisions;
mod lifecycle;
mod process;
mod refusals;
