//! Rules that are charged by how requests end, over a real server with concurrent clients, on memory and on Redis.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod abandoned;
mod by_hand;
mod edges;
mod modes;
#[path = "../redis_support/mod.rs"]
mod redis_support;
mod reloaded;
mod stack;

/// Every case on each backend.
macro_rules! on_each_backend {
    ($($case:ident),+ $(,)?) => {
        mod memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(tollgate::MemoryBackend::new()).await;
            })+
        }

        mod redis {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(crate::stack::redis().await).await;
            })+
        }
    };
}
pub(crate) use on_each_backend;
