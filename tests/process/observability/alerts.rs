//! The alerts of `docs/alerts.yml`, read by Prometheus itself: `promtool` checks when each of them fires.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::{Value, json};

use super::{dashboard, story::STORY};
use crate::redis_support::new_home;

const RULES: &str = include_str!("../../../docs/alerts.yml");

/// The names of the alerts in the file.
fn names() -> Vec<&'static str> {
    let lines = RULES.lines().map(str::trim_start);
    lines
        .filter_map(|line| line.strip_prefix("- alert: "))
        .collect()
}

/// What happens, a sample each 15 seconds, when the alert must be silent, and when it must fire, with which labels.
struct Case {
    alert: &'static str,
    series: &'static [(&'static str, &'static str)],
    silent: &'static [&'static str],
    fires: &'static str,
    policy: Option<&'static str>,
}

const CASES: [Case; 9] = [
    Case {
        alert: "the store is down",
        series: &[("rate_limiting_circuit_state", "0x20 1x20")],
        silent: &["5m", "6m"],
        fires: "7m",
        policy: None,
    },
    Case {
        alert: "the store is flapping",
        series: &[(
            r#"rate_limiting_circuit_transitions_total{to="open"}"#,
            "0x20 1+1x6 7x80",
        )],
        silent: &["5m", "20m"],
        fires: "8m",
        policy: None,
    },
    Case {
        alert: "requests cannot be decided",
        series: &[(
            r#"rate_limiting_requests_total{policy="exports", result="error"}"#,
            "0x20 1+1x60",
        )],
        silent: &["5m", "9m"],
        fires: "11m",
        policy: None,
    },
    Case {
        alert: "Redis is slow",
        series: &[
            (
                r#"rate_limiting_store_duration_seconds_bucket{call="spend", result="ok", le="0.01"}"#,
                "0+1x100",
            ),
            (
                r#"rate_limiting_store_duration_seconds_bucket{call="spend", result="ok", le="0.025"}"#,
                "0+10x100",
            ),
            (
                r#"rate_limiting_store_duration_seconds_bucket{call="spend", result="ok", le="+Inf"}"#,
                "0+10x100",
            ),
        ],
        silent: &["9m"],
        fires: "15m",
        policy: None,
    },
    Case {
        alert: "calls to Redis fail",
        series: &[
            (
                r#"rate_limiting_store_duration_seconds_count{call="spend", result="ok"}"#,
                "0+10x100",
            ),
            (
                r#"rate_limiting_store_duration_seconds_count{call="spend", result="dropped"}"#,
                "0x20 1+1x80",
            ),
        ],
        silent: &["5m", "9m"],
        fires: "12m",
        policy: None,
    },
    Case {
        alert: "a limit refuses many requests",
        series: &[
            (
                r#"rate_limiting_requests_total{policy="requests", result="acquired"}"#,
                "0+8x100",
            ),
            (
                r#"rate_limiting_requests_total{policy="requests", result="cache_rejected"}"#,
                "0x20 1+1x80",
            ),
            (
                r#"rate_limiting_requests_total{policy="searches", result="acquired"}"#,
                "0+8x100",
            ),
        ],
        silent: &["5m", "14m"],
        fires: "20m",
        policy: Some("requests"),
    },
    Case {
        alert: "buckets are evicted",
        series: &[("rate_limiting_evictions_total", "0x20 1+1x80")],
        silent: &["5m", "14m"],
        fires: "16m",
        policy: None,
    },
    Case {
        alert: "a reload has failed",
        series: &[
            (
                r#"rate_limiting_config_reloads_total{outcome="refused"}"#,
                "0x20 1x100",
            ),
            (
                r#"rate_limiting_config_reloads_total{outcome="applied"}"#,
                "0+1x120",
            ),
        ],
        silent: &["5m", "20m"],
        fires: "6m",
        policy: None,
    },
    Case {
        alert: "an override is nearly used up",
        series: &[
            (
                r#"rate_limiting_override_utilization_bucket{policy="requests", le="0.9"}"#,
                "0x600",
            ),
            (
                r#"rate_limiting_override_utilization_bucket{policy="requests", le="1"}"#,
                "0+1x600",
            ),
            (
                r#"rate_limiting_override_utilization_bucket{policy="requests", le="+Inf"}"#,
                "0+1x600",
            ),
        ],
        silent: &["50m"],
        fires: "2h",
        policy: Some("requests"),
    },
];

impl Case {
    fn to_json(&self) -> Value {
        let series = self.series.iter();
        let series = series.map(|(series, values)| json!({"series": series, "values": values}));
        let labels = self
            .policy
            .map(|policy| ("policy".to_owned(), policy.into()));
        let labels: serde_json::Map<_, Value> = labels.into_iter().collect();
        let test = |time: &&str, alerts| json!({"eval_time": time, "alertname": self.alert, "exp_alerts": alerts});
        let silent = self.silent.iter().map(|time| test(time, json!([])));
        let fires = test(&self.fires, json!([{ "exp_labels": labels }]));
        json!({
            "interval": "15s",
            "input_series": series.collect::<Vec<_>>(),
            "alert_rule_test": silent.chain([fires]).collect::<Vec<_>>(),
        })
    }
}

/// Runs Prometheus's tool in a folder, and expects that it finds no mistake.
#[track_caller]
fn promtool(home: &Path, args: [&str; 3]) {
    let output = Command::new("promtool")
        .args(args)
        .current_dir(home)
        .output()
        .expect("promtool is installed (Debian: `apt-get install prometheus`)");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
}

#[test]
fn each_alert_fires_when_it_should_and_is_silent_before() {
    assert_eq!(names(), CASES.map(|case| case.alert), "each has a case");
    let home = new_home();
    fs::write(home.join("rules.yml"), RULES).unwrap();
    let cases = json!({
        "rule_files": ["rules.yml"],
        "tests": CASES.map(|case| case.to_json()),
    });
    fs::write(home.join("tests.yml"), cases.to_string()).unwrap();
    promtool(&home, ["test", "rules", "tests.yml"]);
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn prometheus_reads_what_the_dashboard_asks_for() {
    let home = new_home();
    let rules = dashboard::expressions().into_iter().enumerate();
    let rules = rules.map(|(i, expr)| json!({"record": format!("panel_{i}"), "expr": expr}));
    let groups = json!({"groups": [{"name": "panels", "rules": rules.collect::<Vec<_>>()}]});
    fs::write(home.join("panels.yml"), groups.to_string()).unwrap();
    promtool(&home, ["check", "rules", "panels.yml"]);
    fs::remove_dir_all(home).unwrap();
}

#[test]
fn guide_has_a_remedy_for_each_alert() {
    let guide = include_str!("../../../docs/operating.md");
    let (_, rest) = guide.split_once("## Alerts\n").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let documented: Vec<_> = rows
        .skip(1)
        .filter_map(|row| row.split(" |").next())
        .collect();
    assert_eq!(documented, names());
}

/// A series that nobody exports would be no proof.
#[test]
fn cases_are_of_series_that_the_example_exports() {
    for (series, _) in CASES.iter().flat_map(|case| case.series) {
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split(", ");
        let labels = labels.filter_map(|label| label.split_once('='));
        let labels: BTreeSet<_> = labels
            .map(|(label, value)| (label, value.trim_matches('"')))
            .collect();
        let mut exported = STORY
            .all
            .samples
            .iter()
            .filter(|sample| sample.name == name);
        let found = exported.any(|sample| {
            let own = sample.labels.iter();
            own.map(|(label, value)| (&**label, &**value))
                .eq(labels.iter().copied())
        });
        assert!(found, "{series}");
    }
}
