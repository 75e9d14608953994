//! The alerts of `docs/alerts.yml`, read by Prometheus itself: `promtool` checks when each of them fires.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::json;

use super::{dashboard, story::STORY};
use crate::redis_support::new_home;

const RULES: &str = include_str!("../../../docs/alerts.yml");

/// When each alert is silent, and when it fires.
const CASES: &str = include_str!("../../data/alerts.yml");

/// The names of the alerts in the file.
fn names() -> Vec<&'static str> {
    let lines = RULES.lines().map(str::trim_start);
    lines
        .filter_map(|line| line.strip_prefix("- alert: "))
        .collect()
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
    let fires = CASES.lines().filter(|line| line.contains("exp_labels"));
    let alerts = fires.filter_map(|line| line.split("alertname: ").nth(1)?.split(',').next());
    assert_eq!(alerts.collect::<Vec<_>>(), names(), "each has a case");
    let home = new_home();
    fs::write(home.join("rules.yml"), RULES).unwrap();
    fs::write(home.join("tests.yml"), CASES).unwrap();
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

/// A case with a series that is not exported would prove nothing.
#[test]
fn cases_are_of_series_that_the_example_exports() {
    let lines = CASES.lines().filter(|line| line.contains("{series: "));
    for series in lines.filter_map(|line| line.split('\'').nth(1)) {
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
