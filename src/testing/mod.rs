//! The conformance suite: what every [`Backend`](crate::backend::Backend) must do, as tests for a backend of your own.
//!
//! Add `tollgate` to the dev-dependencies with the feature `testing`. The tests bring their own asynchronous runtime.
//!
//! ```toml
//! [dev-dependencies]
//! tollgate = { version = "0.1", features = ["testing"] }
//! ```
//!
//! Then one line generates more than a hundred tests, in a module with the name that you choose:
//!
//! ```
//! # mod backend {
//! #     #[derive(Debug, Default)]
//! #     pub struct MyBackend(tollgate::testing::MapBackend);
//! #
//! #     #[tollgate::backend::async_trait]
//! #     impl tollgate::backend::Backend for MyBackend {
//! #         async fn apply(
//! #             &self,
//! #             batch: &tollgate::transaction::Batch<'_>,
//! #         ) -> Result<tollgate::decision::Outcome, tollgate::backend::BackendError> {
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
//! `cargo test` names each case that fails, as in `my_backend::decisions::denied_request_spends_nothing`. The source of a
//! case is a function with this name in `tollgate::testing`; it shows what was called and what must be answered.
//!
//! The expression is evaluated anew in each test, on a tokio runtime, and may await: `connect(URL).await` is a backend too.
//! The ids are different in each test and each run, so a store may be shared by the tests and outlive them. Most cases set
//! [`Batch::now`](crate::transaction::Batch::now); the `own_clock` case lets the backend's own clock decide.
//!
//! # Wrappers
//!
//! A wrapper around another backend may answer differently where its documentation says so. Its tests leave such a part
//! out:
//!
//! ```
//! use tollgate::{backend::DenyCache, testing::MapBackend};
//!
//! tollgate::testing::conformance!(
//!     my_wrapper,
//!     DenyCache::new(MapBackend::default()),
//!     without: [figures],
//! );
//! # fn main() {}
//! ```
//!
//! | part | to leave it out |
//! |---|---|
//! | each decision on one bucket and on batches; simultaneous decisions | not possible |
//! | refunds, resets and debts | `without: [refunds]`: a wrapper that cannot reach its store |
//! | figures of all members of a denied batch | `without: [figures]`: a wrapper that answers from remembered denials |
//! | random histories, compared with [`MapBackend`] | either |
//!
//! `without: [figures, refunds]` leaves out both.

#[doc(hidden)]
pub mod cases;
mod map_backend;

use std::{future::Future, rc::Rc};

pub use self::map_backend::MapBackend;
#[doc(inline)]
pub use crate::__tollgate_conformance as conformance;
use crate::simulated;

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
/// Every [`SystemClock`](crate::clock::SystemClock) shows the time of the process as long as the function runs. A simulation
/// of several processes in one thread runs them by turns.
#[doc(hidden)]
pub fn simulate<T>(now: Rc<dyn Fn() -> u64>, seed: u64, function: impl FnOnce() -> T) -> T {
    simulated::run(now, seed, function)
}

/// Generates a module of tests that run the [conformance suite](crate::testing) on a backend: `conformance!(name, backend)`.
///
/// # Panics
///
/// A test panics, and so fails, if the backend answers differently than it must.
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
                        let world = $crate::testing::cases::world::World::new($backend);
                        $crate::testing::cases::$topic::$test(world).await;
                    });
                }
            )+)+
        }
    };
    (@refunds $backend:expr) => {
        $crate::__tollgate_conformance! {
            @tests refunds, $backend;
            single: [
                missing_bucket_is_full,
                clock_that_steps_back_frees_nobody,
            ]
            debt: [
                refund_gives_back_up_to_full,
                refund_is_exact_in_fractions,
                refund_depends_on_the_mode,
                debit_goes_into_debt_and_heals,
                debt_stops_at_its_bound,
                receipt_of_a_debit_that_saturates_gives_back_what_was_taken,
                receipt_of_a_debit_that_takes_nothing_gives_nothing_back,
                reset_makes_full,
            ]
            batch: [
                batch_refunds_and_resets_each_member,
                two_thousand_members_are_one_batch,
            ]
            exceptions: [
                observed_bucket_neither_votes_nor_is_charged,
                blocked_client_denies_its_batch_and_takes_nothing,
            ]
            limits: [
                fraction_of_a_larger_count_is_cut,
            ]
            tiers_single: [
                peek_shows_tiers_as_they_are,
                reset_frees_a_prisoner,
            ]
            tiers_batch: [
                many_tiers_of_many_buckets_are_one_batch,
            ]
            windows: [
                cost_above_a_window_or_a_quota_is_an_error,
                cost_zero_probes_a_window,
                refund_of_a_window_removes_the_latest_units,
                receipt_of_a_window_gives_back_its_own_units_only,
                debit_of_a_window_has_room_for_4096_units,
            ]
            concurrency: [
                permits_count_until_their_hold_is_over,
                renewal_moves_permits_to_now,
                refund_by_receipt_lets_the_next_one_start,
                renewal_is_of_all_permits_of_a_receipt_or_of_none,
                renewals_are_independent_of_each_other,
                permits_and_rates_are_taken_together_or_not_at_all,
                permits_that_do_not_vote_are_skipped_or_only_looked_at,
                lower_limit_takes_nothing_away_and_lets_nothing_start,
                reset_gives_all_permits_back,
            ]
            quotas: [
                first_use_starts_the_period,
                debit_of_a_quota_is_owed_until_the_period_ends,
                refund_across_the_end_of_a_period_gives_nothing_back,
            ]
            algorithms: [
                reset_fills_the_bucket_of_the_algorithm_in_force,
                receipt_of_another_algorithm_gives_nothing_back,
            ]
            waiting: [
                plain_refund_gives_nothing_back_into_a_line,
                last_in_line_gives_its_slot_back,
                line_next_to_a_window_and_a_quota_in_one_batch,
                receipt_gives_back_in_parts_within_a_line,
                debt_on_a_limit_with_a_line_is_a_line,
                line_is_started_as_promised_after_a_reset,
                line_that_was_removed_is_refunded_as_usual,
            ]
        }
    };
    (@decisions $backend:expr) => {
        $crate::__tollgate_conformance! {
            @tests decisions, $backend;
            single: [
                twenty_pass_at_once_and_the_next_after_fifty_milliseconds,
                sixty_per_minute_lets_a_hundred_and_first_pass_after_a_second,
                figures_follow_the_walkthrough,
                equality_passes_and_a_microsecond_less_does_not,
                fractions_of_a_microsecond_never_drift,
                cost_zero_probes,
                cost_above_the_burst_is_an_error,
                denied_request_spends_nothing,
                check_answers_what_spend_would_and_writes_nothing,
                instants_at_and_beyond_the_end_are_errors,
                next_token_is_counted_from_now,
                backends_own_clock_decides_without_another,
                simultaneous_spends_admit_the_limit,
            ]
            debt: [
                tat_far_ahead_is_never_clamped,
            ]
            batch: [
                check_only_votes_and_is_never_charged,
                spend_only_never_votes_and_is_skipped_whole,
                debit_never_votes,
                denied_batch_writes_nothing_for_anyone,
                strictest_is_denied_then_waits_longer_then_has_fewer,
                strictest_compares_fractions_exactly,
                batch_without_a_vote_is_not_limited,
                duplicates_are_errors_at_any_size,
                empty_batch_is_allowed,
            ]
            exceptions: [
                limit_in_shadow_mode_is_charged_and_refuses_nobody,
            ]
            limits: [
                off_limits_are_dropped,
                unknown_limits_and_empty_ids_are_errors,
                ids_and_limits_do_not_mix,
                renamed_limit_keeps_its_buckets,
                changed_limit_keeps_the_tat,
            ]
            tiers: [
                charons_scenarios_play_out,
            ]
            tiers_single: [
                group_gets_what_there_is_and_at_least_its_least,
                check_grants_what_a_spend_would_and_enters_nothing,
                what_tiers_cannot_do_is_refused,
                groups_of_nothing_and_groups_without_tiers_are_refused,
                cost_above_all_limits_is_denied_for_ever,
                clock_that_steps_back_frees_no_prisoner,
                prisoner_stays_one_when_the_limit_changes,
                units_are_kept_when_a_window_begins_to_slide,
                simultaneous_requests_fill_each_tier_exactly,
            ]
            windows: [
                window_admits_its_limit_and_the_next_exactly_a_window_later,
                window_tells_when_there_is_more,
                window_counts_later_units_when_the_clock_steps_back,
            ]
            concurrency: [
                only_receipts_say_which_permits_are_meant,
                only_permits_are_renewed,
            ]
            quotas: [
                quota_comes_back_when_its_period_ends,
                leap_day_belongs_to_its_month,
                clock_that_steps_back_gives_no_second_quota,
                batches_of_all_algorithms_pass_or_fail_as_one,
            ]
            algorithms: [
                limit_whose_algorithm_changes_starts_fresh_and_finds_its_old_bucket_later,
                two_versions_of_a_limit_admit_their_own_limits_and_no_more,
                override_of_another_algorithm_has_its_own_bucket,
            ]
            waiting: [
                callers_wait_in_the_order_in_which_they_came,
                fractions_of_a_delay_are_rounded_up,
                caller_that_does_not_wait_is_denied,
                only_members_that_vote_and_spend_wait,
                batch_waits_for_its_longest_delay,
                denied_batch_takes_no_place_in_line,
                check_shows_the_delay_that_a_spend_would_get,
                cost_zero_waits_for_a_line_to_pass,
                limit_in_shadow_mode_delays_nobody,
                simultaneous_callers_get_one_place_each,
            ]
            tiers_batch: [
                tiers_are_untouched_when_another_denies,
                nothing_is_charged_when_tiers_deny,
                mixed_batch_that_passes_takes_from_all,
                check_only_tiers_vote_and_are_not_entered,
                spend_only_tiers_never_vote_and_are_skipped_whole,
                strictest_is_found_across_kinds,
            ]
        }
    };
    (@figures $backend:expr) => {
        $crate::__tollgate_conformance! {
            @tests figures, $backend;
            single: [
                peek_shows_the_bucket_as_it_is,
            ]
            batch: [
                batch_shows_every_member_as_it_stands,
                checked_batch_shows_what_a_spend_would_leave,
            ]
            tiers_batch: [
                denied_batch_shows_tiers_as_they_stand,
            ]
            windows: [
                window_in_a_denied_batch_shows_how_it_stands,
            ]
        }
    };
    (@histories $backend:expr) => {
        $crate::__tollgate_conformance! {
            @tests histories, $backend;
            history: [
                random_histories_are_decided_as_by_a_map,
            ]
            tiers_history: [
                random_tiers_are_decided_as_by_a_map,
            ]
            windows_history: [
                random_windows_and_quotas_are_decided_as_by_a_map,
            ]
            concurrency_history: [
                random_permits_are_held_as_by_a_list_of_instants,
            ]
            waiting_history: [
                random_lines_are_kept_as_by_a_map,
            ]
        }
    };
}

#[cfg(test)]
mod tests {
    /// A case that runs on no backend would never fail.
    #[test]
    fn each_case_is_in_the_suite() {
        let suite = include_str!("mod.rs");
        let cases = [
            include_str!("cases/algorithms.rs"),
            include_str!("cases/batch.rs"),
            include_str!("cases/concurrency.rs"),
            include_str!("cases/concurrency_history.rs"),
            include_str!("cases/debt.rs"),
            include_str!("cases/exceptions.rs"),
            include_str!("cases/history.rs"),
            include_str!("cases/limits.rs"),
            include_str!("cases/quotas.rs"),
            include_str!("cases/single.rs"),
            include_str!("cases/tiers.rs"),
            include_str!("cases/tiers_batch.rs"),
            include_str!("cases/tiers_history.rs"),
            include_str!("cases/tiers_single.rs"),
            include_str!("cases/waiting.rs"),
            include_str!("cases/waiting_history.rs"),
            include_str!("cases/windows.rs"),
            include_str!("cases/windows_history.rs"),
        ];
        let functions = cases.iter().flat_map(|case| case.split("pub async fn "));
        let names = functions.filter_map(|text| text.split_once('('));
        let names = names.filter(|(_, rest)| rest.trim_start().starts_with("world: World"));
        let names: Vec<_> = names.map(|(name, _)| name).collect();
        assert!(names.len() > 60, "{names:?}");
        for name in names {
            assert!(suite.contains(&format!("  {name},")), "{name}");
        }
    }
}
