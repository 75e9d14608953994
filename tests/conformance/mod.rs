//! What every backend must do: written once, instantiated per backend with one line.
//!
//! ```ignore
//! conformance!(memory, MemoryBackend::new());
//! ```
//!
//! The expression may await: it is evaluated in each test. Ids are unique to each test, so a store
//! may be shared between tests and outlive them.

pub(crate) mod batch;
pub(crate) mod debt;
pub(crate) mod exceptions;
pub(crate) mod history;
pub(crate) mod limits;
pub(crate) mod map_backend;
pub(crate) mod single;
pub(crate) mod tiers;
pub(crate) mod tiers_batch;
pub(crate) mod tiers_history;
pub(crate) mod tiers_single;
pub(crate) mod world;

macro_rules! conformance {
    ($module:ident, $backend:expr) => {
        mod $module {
            use super::*;

            $crate::conformance::decisions!(decisions, $backend);
            $crate::conformance::conformance! {
                @tests giving_back, $backend;
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
                    reset_frees_a_prisoner,
                ]
                tiers_batch: [
                    many_tiers_of_many_buckets_are_one_batch,
                ]
            }
        }
    };
    (@tests $module:ident, $backend:expr; $($topic:ident: [$($test:ident),+ $(,)?])+) => {
        mod $module {
            use super::*;

            $($(
                #[tokio::test]
                async fn $test() {
                    let world = $crate::conformance::world::World::new($backend);
                    $crate::conformance::$topic::$test(world).await;
                }
            )+)+
        }
    };
}
pub(crate) use conformance;

/// The part that gives nothing back: what a store that is away leaves to the process.
macro_rules! decisions {
    ($module:ident, $backend:expr) => {
        $crate::conformance::conformance! {
            @tests $module, $backend;
            single: [
                twenty_pass_at_once_and_the_next_after_fifty_milliseconds,
                sixty_per_minute_lets_a_hundred_and_first_pass_after_a_second,
                figures_follow_the_walkthrough,
                equality_passes_and_a_microsecond_less_does_not,
                fractions_of_a_microsecond_never_drift,
                cost_zero_probes,
                cost_above_the_burst_is_an_error,
                denied_request_spends_nothing,
                idleness_saves_up_nothing,
                check_answers_what_spend_would_and_writes_nothing,
                instants_at_and_beyond_the_end_are_errors,
                next_token_is_counted_from_now,
                backends_own_clock_decides_without_another,
                simultaneous_spends_admit_the_burst,
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
                bucket_of_the_other_kind_counts_as_nothing,
                own_clock_of_a_backend_decides_on_tiers,
                simultaneous_requests_fill_each_tier_exactly,
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
}
pub(crate) use decisions;

/// What a backend must do that looks at all members of a batch, even if one of them is known to be denied.
macro_rules! figures {
    ($module:ident, $backend:expr) => {
        conformance! {
            @tests $module, $backend;
            batch: [
                batch_shows_every_member_as_it_stands,
                checked_batch_shows_what_a_spend_would_leave,
            ]
            tiers_batch: [
                denied_batch_shows_tiers_as_they_stand,
            ]
        }
    };
}
pub(crate) use figures;
