//! Buckets in memory: each metric is what was sent.

use super::scrape::{App, series};

#[test]
fn every_figure_is_what_was_sent() {
    let app = App::start(&[], &[]);
    let before = app.scrape();
    assert_eq!(before.counted("rate_limiting_requests_total"), series([]));

    let alice = app.send(23, "/", "alice");
    assert_eq!(alice, [[200; 20].as_slice(), &[429; 3]].concat());
    assert_eq!(app.send(5, "/search", "dora"), [200; 5], "in shadow mode");
    let erin = app.send(8, "/export", "erin");
    assert_eq!(erin, [200, 200, 200, 200, 200, 200, 429, 429]);
    assert_eq!(app.send(4, "/", "spammer"), [429; 4]);
    assert_eq!(app.send(30, "/", "partner"), [200; 30]);
    let missing = app.server.get("/", "").status;
    assert!((400..500).contains(&missing) && missing != 429);

    let after = app.scrape();
    assert_eq!(
        after.counted("rate_limiting_requests_total"),
        series([
            ("requests acquired", 61.0),
            ("requests rejected", 3.0),
            ("requests withheld", 2.0),
            ("requests blocked", 4.0),
            ("searches acquired", 3.0),
            ("searches shadow_rejected", 2.0),
            ("exports acquired", 6.0),
            ("exports rejected", 2.0),
        ])
    );
    assert_eq!(after.series("rate_limiting_buckets"), series([("", 6.0)]));
    assert_eq!(
        after.series("rate_limiting_evictions_total"),
        series([("", 0.0)])
    );
    // No backend decides of who is blocked.
    let decided = after.series("rate_limiting_decision_duration_seconds_count");
    assert_eq!(decided, series([("spend", 66.0)]));

    let used = after.series("rate_limiting_override_utilization_count");
    assert_eq!(used, series([("requests", 30.0)]));
    let sum = after.value("rate_limiting_override_utilization_sum", "requests");
    assert!((sum - 4.65).abs() < 1e-6, "{sum}: 1 % to 30 % of 100");
    // By `le` and policy.
    let tenth = after.value("rate_limiting_override_utilization_bucket", "0.1 requests");
    assert_eq!(tenth, 10.0);
}

#[test]
fn kinds_of_families_are_as_documented() {
    let app = App::start(&[], &[]);
    app.send(1, "/", "partner");
    let kinds: Vec<_> = app.scrape().families.into_iter().collect();
    let expected = [
        ("rate_limiting_buckets", "gauge"),
        ("rate_limiting_circuit_transitions_total", "counter"),
        ("rate_limiting_config_reloads_total", "counter"),
        ("rate_limiting_decision_duration_seconds", "histogram"),
        ("rate_limiting_evictions_total", "counter"),
        ("rate_limiting_fallback_requests_total", "counter"),
        ("rate_limiting_override_utilization", "histogram"),
        ("rate_limiting_refusals_total", "counter"),
        ("rate_limiting_requests_total", "counter"),
        ("rate_limiting_waiting", "gauge"),
    ];
    assert_eq!(
        kinds,
        expected.map(|(name, kind)| (name.into(), kind.into()))
    );
}
