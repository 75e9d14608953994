//! Rules that are charged by how requests end, over a real server with concurrent clients, on memory and on Redis.

#![allow(clippy::unwrap_used, reason = "a test panics to fail")]

mod abandoned;
mod by_hand;
mod edges;
mod modes;
mod refused;
mod reloaded;
mod stack;
mod upgrades;

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
                super::$case(crate::charging::stack::redis().await).await;
            })+
        }
    };
}
pub(crate) use on_each_backend;
