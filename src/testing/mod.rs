//! The conformance suite: tests that every [`Backend`] must pass, for a backend of your own.
//!
//! Add `tollgate` to the dev-dependencies with the feature `testing`. The tests bring their own asynchronous runtime.
//!
//! ```toml
//! [dev-dependencies]
//! tollgate = { version = "0.1", features = ["testing"] }
//! ```
//!
//! Then one line generates the tests, in a module with the name that you choose:
//!
//! ```
//! # mod backend {
//! #     #[derive(Debug, Default)]
//! #     pub struct MyBackend(tollgate::MemoryBackend);
//! #
//! #     #[tollgate::backend::async_trait]
//! #     impl tollgate::backend::Backend for MyBackend {
//! #         async fn apply(
//! #             &self,
//! #             batch: &tollgate::backend::custom::Batch<'_>,
//! #         ) -> Result<tollgate::backend::custom::Outcome, tollgate::backend::BackendError> {
//! #             self.0.apply(batch).await
//! #         }
//! #     }
//! # }
//! // In `tests/conformance.rs`.
//! use backend::MyBackend;
//!
//! tollgate::testing::conformance!(my_backend, MyBackend::default());
//! # fn main() {}
//! ```
//!
//! `cargo test` names each case that fails, as in `my_backend::decisions::denied_batch_changes_nothing`. The output names the rule
//! that the backend breaks, and lists the preceding operations with their answers. The source of a case is the function with this
//! name in the crate's folder `src/testing`.
//!
//! The expression is evaluated anew in each test, on a tokio runtime, and may await, as in `connect(URL).await`. The ids are
//! different in each test and each run, so a store may be shared by the tests and outlive them. Most cases set
//! [`Batch::now`](crate::backend::custom::Batch::now), to instants in January 2026; one case lets the backend's own clock decide.
//! The runtime ends with its test, so the expression must create the pool of connections.
//!
//! # Wrappers
//!
//! A wrapper around another backend may answer differently where its documentation says so. Its tests can leave such a part out:
//!
//! ```
//! use tollgate::{MemoryBackend, backend::DenyCache};
//!
//! tollgate::testing::conformance!(
//!     my_wrapper,
//!     DenyCache::new(MemoryBackend::new()),
//!     without: [figures],
//! );
//! # fn main() {}
//! ```
//!
//! | part | to leave it out |
//! |---|---|
//! | each decision on one bucket and on batches; simultaneous decisions | not possible |
//! | refunds, resets, debts and blocks | `without: [refunds]`: a wrapper that cannot reach its store |
//! | figures of all members of a denied batch | `without: [figures]`: a wrapper that answers from remembered denials |
//! | random histories, compared with exact models | either |
//!
//! `without: [figures, refunds]` leaves out both.

#[doc(hidden)]
#[allow(missing_docs, clippy::missing_panics_doc)]
pub mod cases;
#[doc(hidden)]
#[allow(missing_docs)]
pub mod driver;
#[doc(hidden)]
#[allow(missing_docs, clippy::missing_panics_doc)]
pub mod history;
mod model;
#[doc(hidden)]
#[allow(missing_docs, clippy::missing_panics_doc)]
pub mod random;
#[cfg(feature = "zones")]
mod zone;

use std::{collections::HashMap, future::Future, rc::Rc};

use parking_lot::Mutex;

#[doc(inline)]
pub use crate::__tollgate_conformance as conformance;
#[cfg(feature = "redis")]
#[doc(hidden)]
pub use crate::backend::redis::simulated::SimulatedCluster;
use crate::{
    algorithm::State,
    backend::{Backend, BackendError, async_trait},
    batch::Batch,
    clock::{Clock, SystemClock},
    decision::Outcome,
    random::simulated,
};

/// The simplest backend, a map, as on the page for [authors](crate::backend::custom). Other backends are compared with it.
#[derive(Debug, Default)]
pub(crate) struct MapBackend {
    buckets: Mutex<HashMap<String, State>>,
    clock: SystemClock,
}

#[async_trait]
impl Backend for MapBackend {
    async fn apply(&self, batch: &Batch<'_>) -> Result<Outcome, BackendError> {
        let mut buckets = self.buckets.lock();
        let now = batch.now.unwrap_or_else(|| self.clock.now());
        let keys: Vec<_> = batch.keys().map(|key| key.to_string()).collect();
        let states = keys.iter().map(|key| buckets.get(key).cloned());
        let (outcome, changes) = batch.decide(now, states);
        for change in changes {
            let key = &keys[change.index];
            match change.state {
                Some(state) => buckets.insert(key.clone(), state),
                None => buckets.remove(key),
            };
        }
        outcome
    }
}

/// Runs a test on a runtime of its own, with threads that decide simultaneously.
///
/// # Panics
///
/// If the test does, or if there is no memory or thread for the runtime.
#[doc(hidden)]
pub fn block_on<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build();
    runtime.expect("a runtime can be made").block_on(test)
}

/// Runs a function on this thread as a process with this clock, in microseconds since the Unix epoch. All random numbers of
/// this crate follow from the seed.
///
/// Every [`SystemClock`](crate::clock::SystemClock) shows the time of the process as long as the function runs. A simulation of
/// several processes runs them in turn on one thread.
#[doc(hidden)]
pub fn simulate<T>(now: Rc<dyn Fn() -> u64>, seed: u64, function: impl FnOnce() -> T) -> T {
    simulated::run(now, seed, function)
}

/// Generates a module of tests that run the [conformance suite](crate::testing) on a backend: `conformance!(name, backend)`.
///
/// # Panics
///
/// A test panics if an answer of the backend is wrong.
#[doc(hidden)]
#[macro_export]
macro_rules! __tollgate_conformance {
    ($module:ident, $backend:expr $(,)?) => {
        $crate::__tollgate_conformance! {
            @module $module, $backend; [decisions refunds figures histories]
        }
    };
    ($module:ident, $backend:expr, without: [figures] $(,)?) => {
        $crate::__tollgate_conformance! { @module $module, $backend; [decisions refunds] }
    };
    ($module:ident, $backend:expr, without: [refunds] $(,)?) => {
        $crate::__tollgate_conformance! { @module $module, $backend; [decisions figures] }
    };
    ($module:ident, $backend:expr, without: [figures, refunds] $(,)?) => {
        $crate::__tollgate_conformance! { @module $module, $backend; [decisions] }
    };
    (@module $module:ident, $backend:expr; [$($part:ident)+]) => {
        #[cfg(test)]
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            $($crate::__tollgate_conformance! { @$part $backend })+
        }
    };
    (@tests $module:ident, $backend:expr; $($topic:ident: [$($test:ident),+ $(,)?])+) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            $($(
                #[test]
                fn $test() {
                    $crate::testing::block_on(async {
                        let driver = $crate::testing::driver::Driver::new($backend);
                        let _report = driver.report(stringify!($test));
                        $crate::testing::$topic::$test(driver).await;
                    });
                }
            )+)+
        }
    };
    (@decisions $backend:expr) => {
        $crate::__tollgate_conformance! { @tests decisions, $backend; cases: [
            answers_are_in_the_order_of_the_members,
            denied_batch_changes_nothing,
            check_changes_nothing,
            members_without_a_vote_deny_nobody,
            simultaneous_spends_admit_the_limit,
            simultaneous_batches_are_charged_whole_or_not_at_all,
            limits_algorithms_and_ids_have_buckets_of_their_own,
            own_clock_decides_without_another,
            instants_at_and_beyond_the_end_are_errors,
            clock_that_steps_back_frees_nobody,
            equality_passes_and_a_microsecond_less_does_not,
            callers_wait_in_line_in_their_order,
            empty_batch_is_decided,
        ] }
    };
    (@refunds $backend:expr) => {
        $crate::__tollgate_conformance! { @tests refunds, $backend; cases: [
            refund_gives_back_up_to_full,
            charge_gives_back_and_renews_its_own_permits_only,
            renewals_of_one_bucket_are_decided_in_order,
            reset_makes_as_new,
            debt_is_paid_before_anything_passes,
        ] }
    };
    (@figures $backend:expr) => {
        $crate::__tollgate_conformance! { @tests figures, $backend; cases: [
            denied_batch_shows_all_members_as_they_stand,
        ] }
    };
    (@histories $backend:expr) => {
        $crate::__tollgate_conformance! { @tests histories, $backend; history: [
            random_histories_of_each_algorithm_are_those_of_its_model,
            random_batches_are_decided_as_by_the_models,
        ] }
    };
}

#[cfg(test)]
mod tests;
