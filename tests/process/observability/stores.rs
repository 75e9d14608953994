//! Buckets in a Redis that is killed and comes back.

use std::collections::BTreeSet;

use super::{
    scrape::series,
    story::{ACCOUNTS, STORY},
};

const REQUESTS: &str = "rate_limiting_requests_total";
const STORE: &str = "rate_limiting_store_duration_seconds_count";
const FALLBACK: &str = "rate_limiting_fallback_requests_total";
const TRANSITIONS: &str = "rate_limiting_circuit_transitions_total";
const STATE: &str = "rate_limiting_circuit_state";

#[test]
fn store_is_timed_while_it_answers() {
    let before = &STORY.before;
    let expected = series([
        ("requests acquired", 34.0),
        ("requests rejected", 1.0),
        ("requests cache_rejected", 2.0),
        ("requests withheld", 1.0),
        ("requests blocked", 1.0),
        ("searches acquired", 3.0),
        ("searches shadow_rejected", 2.0),
        ("exports acquired", 6.0),
        ("exports rejected", 1.0),
        ("exports cache_rejected", 1.0),
    ]);
    assert_eq!(before.counted(REQUESTS), expected);
    // 23 of alice, 5 of dora, 8 of erin and 3 of a partner, less those that the cache has denied.
    assert_eq!(before.series(STORE), series([("spend ok", 36.0)]));
    assert_eq!(before.series(STATE), series([("", 0.0)]));
    for nothing in [FALLBACK, TRANSITIONS] {
        assert_eq!(before.counted(nothing), series([]));
    }
}

#[test]
fn store_that_is_killed_opens_the_breaker() {
    let down = &STORY.down;
    assert_eq!(down.counted(TRANSITIONS), series([("open", 1.0)]));
    assert_eq!(down.series(STATE), series([("", 1.0)]));
    let fallback = series([("local", 26.0), ("refuse", 2.0)]);
    assert_eq!(down.counted(FALLBACK), fallback);
    let count = |result: &str| down.value(REQUESTS, &format!("requests {result}"));
    assert_eq!(count("fallback_acquired"), 21.0);
    assert_eq!(count("fallback_rejected"), 5.0);
    assert_eq!(count("error"), 2.0);
    assert_eq!(down.value(REQUESTS, "exports error"), 2.0);
    assert_eq!(down.value(STORE, "spend ok"), 36.0);
    let failed: f64 = down.series(STORE).values().sum::<f64>() - 36.0;
    assert!(failed >= 5.0, "{failed}: as many as open it");
    assert!(
        down.value(STORE, "spend dropped") >= 1.0,
        "after the deadline"
    );
}

#[test]
fn store_that_is_back_closes_the_breaker() {
    let back = &STORY.back;
    let transitions = series([("open", 1.0), ("closed", 1.0)]);
    assert_eq!(back.series(TRANSITIONS), transitions);
    assert_eq!(back.series(STATE), series([("", 0.0)]));
    assert!(back.value(STORE, "spend ok") > 36.0);
}

#[test]
fn labels_are_of_few_values_and_never_an_id() {
    let all = &STORY.all;
    let labels: BTreeSet<_> = all
        .samples
        .iter()
        .flat_map(|sample| sample.labels.keys())
        .collect();
    let known = [
        "action",
        "call",
        "le",
        "operation",
        "outcome",
        "policy",
        "reason",
        "result",
        "to",
    ];
    assert_eq!(labels, known.map(String::from).iter().collect());
    for label in known {
        for value in all.values(None, label) {
            let mut ids = ACCOUNTS.iter().chain(&["mallory"]);
            assert!(!ids.any(|id| value.contains(id)), "{label}={value}");
        }
    }
    let policies = all.values(None, "policy");
    assert_eq!(
        policies,
        BTreeSet::from(["exports", "requests", "searches"])
    );
}

#[test]
fn kinds_of_families_are_as_documented() {
    let kinds = STORY.all.families.iter();
    let kinds: Vec<_> = kinds.map(|(name, kind)| (&**name, &**kind)).collect();
    let expected = [
        ("rate_limiting_buckets", "gauge"),
        ("rate_limiting_circuit_state", "gauge"),
        ("rate_limiting_circuit_transitions_total", "counter"),
        ("rate_limiting_config_reloads_total", "counter"),
        ("rate_limiting_decision_duration_seconds", "histogram"),
        ("rate_limiting_evictions_total", "counter"),
        ("rate_limiting_fallback_requests_total", "counter"),
        ("rate_limiting_override_utilization", "histogram"),
        ("rate_limiting_refusals_total", "counter"),
        ("rate_limiting_requests_total", "counter"),
        ("rate_limiting_store_duration_seconds", "histogram"),
        ("rate_limiting_waiting", "gauge"),
    ];
    assert_eq!(kinds, expected);
}
