//! The app `inspect` shows limits and buckets to administrators, and to no one else.

#[path = "../../../src/bin/inspect/admin.rs"]
mod admin;
#[path = "../../../src/bin/inspect/block.rs"]
mod block;
#[path = "../../../src/shared/bound.rs"]
mod bound;
#[path = "../../../src/bin/inspect/bucket.rs"]
mod bucket;
#[path = "../../../src/shared/client.rs"]
mod client;
#[path = "../../../src/bin/inspect/refusal.rs"]
mod refusal;
#[path = "../../../src/bin/inspect/stream.rs"]
mod stream;
#[allow(dead_code, reason = "only the program reads its environment")]
#[path = "../../../src/bin/inspect/token.rs"]
mod token;

mod access;
mod blocks;
mod buckets;
mod process;
mod refusals;
mod server;
