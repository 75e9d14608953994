//! The alerts that are documented, read by Prometheus itself: `promtool` checks when each of them fires.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::{Value, json};

use super::story::STORY;
use crate::redis_support::new_home;

/// An alert, as a row of the table in `docs/operating.md` has it.
pub(crate) struct Alert {
    pub(crate) name: String,
    expression: String,
    hold: String,
}

pub(crate) fn documented() -> Vec<Alert> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operating.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("## Alerts\n").unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(Alert::read).collect()
}

impl Alert {
    fn read(row: &str) -> Self {
        let row = row.replace("\\|", "\0");
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let ["", name, expression, hold, _, ""] = cells[..] else {
            panic!("five cells: {row}");
        };
        Self {
            name: name.into(),
            expression: expression.trim_matches('`').replace('\0', "|"),
            hold: hold.into(),
        }
    }
}

/// The file of rules, in JSON, which is YAML too.
pub(crate) fn write_rules(path: &Path) {
    let rules = documented().into_iter().map(|alert| {
        let mut rule = json!({"alert": alert.name, "expr": alert.expression});
        if !alert.hold.is_empty() {
            rule["for"] = alert.hold.into();
        }
        rule
    });
    let rules: Vec<_> = rules.collect();
    let groups = json!({"groups": [{"name": "tollgate", "rules": rules}]});
    fs::write(path, groups.to_string()).unwrap();
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

#[test]
fn each_alert_fires_when_it_should_and_is_silent_before() {
    let documented: Vec<_> = documented().into_iter().map(|alert| alert.name).collect();
    assert_eq!(documented, CASES.map(|case| case.alert), "each has a case");
    let home = new_home();
    write_rules(&home.join("rules.yml"));
    let cases = json!({
        "rule_files": ["rules.yml"],
        "tests": CASES.map(|case| case.to_json()),
    });
    let tests = home.join("tests.yml");
    fs::write(&tests, cases.to_string()).unwrap();
    let output = Command::new("promtool")
        .args(["test", "rules"])
        .arg(&tests)
        .output()
        .expect("promtool is installed (Debian: `apt-get install prometheus`)");
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told);
    assert!(output.status.success(), "{told}");
    fs::remove_dir_all(home).unwrap();
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
