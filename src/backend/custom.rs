//! What you need to write a backend of your own, and nobody else does.
//!
//! A [`Batch`] has members, each with a bucket key, an algorithm and a question. A backend decides and stores them in one atomic
//! step. The contract is that of [`Backend`](super::Backend).
//!
//! Load the [`State`] of each member's bucket, let [`Outcome::decide`] judge the batch and
//! change the states, and store them again, all under one lock or in one transaction:
//!
//! ```
//! use std::{collections::HashMap, sync::Mutex};
//!
//! use tollgate::{
//!     Limit, Limiter, Limits, Transaction,
//!     backend::{Backend, BackendError, async_trait, custom::{Batch, Outcome, State}},
//!     clock::{Clock, SystemClock},
//! };
//!
//! #[derive(Debug, Default)]
//! struct MapBackend {
//!     buckets: Mutex<HashMap<String, State>>,
//!     clock: SystemClock,
//! }
//!
//! #[async_trait]
//! impl Backend for MapBackend {
//!     async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
//!         let mut buckets = self.buckets.lock().expect("no decision panics");
//!         let now = batch.now.unwrap_or_else(|| self.clock.now());
//!         let keys: Vec<_> = batch.members.iter().map(|member| member.key().to_string()).collect();
//!         let mut states: Vec<_> = keys.iter().map(|key| buckets.remove(key)).collect();
//!         let outcome = Outcome::decide(batch, now, &mut states);
//!         for (key, state) in keys.into_iter().zip(states) {
//!             buckets.extend(state.map(|state| (key, state)));
//!         }
//!         outcome
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let limits = Limits::builder().limit("uploads", Limit::per_hour(100).burst(5)).build()?;
//! let limiter = Limiter::new(limits, MapBackend::default());
//! assert!(limiter.spend(&Transaction::new("uploads", "alice")).await?.allowed());
//! # Ok::<_, Box<dyn std::error::Error>>(()) })?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! - The key of a bucket includes its algorithm: a state that is stored under `member.key().to_string()` is never one of
//!   another algorithm. A store with keys of its own must use all three fields of
//!   [`BucketKey`].
//! - A state implements serde's traits. The bucket can be removed once it is
//!   [full](Algorithm::full_at).
//! - A store whose calls block gets its own thread, and an [`OwnedBatch`] for each
//!   batch. The example `embedded_store` does this, with buckets in a file.
//! - A backend around another backend returns it by [`Backend::wrapped`](super::Backend::wrapped).
//! - The feature `testing` provides the tests that every backend must pass.

#[doc(inline)]
pub use crate::{
    algorithm::{
        Algorithm, AlgorithmKey, Ask, Figures, State, Verb, Wait,
        tiers::{history::History, parameters::Tiers, tier::Phase},
    },
    batch::{batch::Batch, member::Member, owned_batch::OwnedBatch},
    decision::outcome::{Answer, Outcome},
    transaction::{
        bucket_key::{BucketKey, LimitKey},
        operation::Operation,
    },
};
