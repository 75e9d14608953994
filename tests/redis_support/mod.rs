//! Real Redis servers for tests: a single server, a cluster, sentinels, a proxy that fails on command, and callers.
//!
//! Servers are plain processes of `redis-server` on free ports of the loopback interface. They end when their value is dropped, and
//! at the latest with the process of the test, however that ends. All functions but those of the proxy block, so an asynchronous
//! test that waits for a failover while other tasks run needs a runtime with several threads.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(unused_imports, reason = "each test binary uses a part of it")]

mod callers;
mod cluster;
mod process;
mod proxy;
mod sentinel;
mod server;

use super::eventually;

pub(crate) use callers::{Callers, mixed};
pub(crate) use cluster::{Cluster, Node};
pub(crate) use process::{Port, Process, new_home};
pub(crate) use proxy::Proxy;
pub(crate) use sentinel::Sentinels;
pub(crate) use server::{Server, is_redis_6};
