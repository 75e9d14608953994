//! Permits in memory against an independent model: a list of instants.

use tollgate::{
    MemoryBackend,
    testing::{cases::concurrency_history::live_through, cases::world::World},
};

use crate::support::scale::scaled;

#[tokio::test]
async fn permits_are_held_as_by_a_list_of_instants() {
    for seed in 0..4 {
        let world = World::new(MemoryBackend::new());
        live_through(&world, scaled(25_000), seed).await;
    }
}
