//! The types for backends of your own. Only authors of backends need them.
//!
//! A [`Batch`] has members, each with a bucket key, an algorithm and a question. A backend decides and stores them in one atomic
//! step. The contract is that of [`Backend`](super::Backend).
//!
//! Load the [`State`] of each bucket by the batch's [keys](Batch::keys), let [`Batch::decide`] judge the batch, and store the
//! [changes](BucketChange) that it returns, all under one lock or in one transaction:
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
//!         let keys: Vec<_> = batch.keys().map(|key| key.to_string()).collect();
//!         let states = keys.iter().map(|key| buckets.get(key).cloned());
//!         let (outcome, changes) = batch.decide(now, states);
//!         for change in changes {
//!             let key = &keys[change.index];
//!             match change.state {
//!                 Some(state) => buckets.insert(key.clone(), state),
//!                 None => buckets.remove(key),
//!             };
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
//! - **Keys.** The key of a bucket includes its algorithm: a state that is stored under `key.to_string()` is never one of
//!   another algorithm. A store hashes ids that [are secret](Member::is_secret).
//! - **Same key twice.** Only [renewals](Operation::Renew) have several members with one bucket. Load the bucket for each of them;
//!   its change comes once.
//! - **Bytes.** The format of [`State::to_bytes`] is stable, so later versions can read it.
//! - **Expiry.** A bucket can be removed once it is [full](BucketChange::full_after), by the store's own clock. If a batch brings
//!   its own time, the two clocks run apart, so keep such a bucket somewhat longer.
//! - **Empty batches.** A batch without members is decided like any other, at any time.
//! - **Blocking stores.** A store whose calls block gets its own thread, and an [`OwnedBatch`] for each batch. The example
//!   `embedded_store` does this, with buckets in a file.
//! - **Failures.** Return [`BackendError::not_done`](super::BackendError::not_done) if the store has certainly changed nothing,
//!   [`unavailable`](super::BackendError::unavailable) if it may have, and [`undecidable`](super::BackendError::undecidable) for a
//!   stored value that is not a bucket. A `FailurePolicy` counts decisions that fail together as one failure.
//! - **Wrappers.** A backend around another backend returns it by [`Backend::wrapped`](super::Backend::wrapped).
//! - **Tests.** The feature `testing` provides the tests that every backend must pass. Each test runs on a runtime of its own, so a
//!   pool of connections belongs to one test.

#[doc(inline)]
pub use crate::{
    algorithm::{AlgorithmKey, State, StateError},
    backend::decide::BucketChange,
    batch::batch::{Batch, OwnedBatch},
    batch::member::Member,
    decision::outcome::{Answer, Outcome},
    transaction::{bucket_key::BucketKey, operation::Operation},
};
