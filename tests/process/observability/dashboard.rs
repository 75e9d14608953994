//! The dashboard queries every series that the example exports, and no other.

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use super::{
    scrape::Scrape,
    story::{ACCOUNTS, STORY},
};

const PATH: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/examples/observability/dashboard.json"
);

/// The suffixes of the series that make up a histogram.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(PATH).unwrap()).unwrap()
}

/// The targets of all panels, with the panels' titles.
fn targets(dashboard: &Value) -> Vec<(&str, &Value)> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |target| (title, target))
    });
    targets.collect()
}

/// Returns the expressions of all panels, with the variables filled in as Grafana does.
pub(crate) fn expressions() -> Vec<String> {
    let dashboard = dashboard();
    let expressions = targets(&dashboard).into_iter().map(|(_, target)| {
        let expression = target["expr"].as_str().unwrap();
        let expression = expression.replace("$policy", ".+");
        expression.replace("$__rate_interval", "1m")
    });
    expressions.collect()
}

/// A selector of an expression: the name, and the conditions on its labels.
struct Selector<'a> {
    name: &'a str,
    matchers: Vec<(&'a str, &'a str)>,
}

fn selectors(expression: &str) -> Vec<Selector<'_>> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let starts = expression.match_indices("rate_limiting_");
    let selectors = starts.map(|(start, _)| {
        let rest = &expression[start..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let matchers = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let matchers = matchers.map_or("", |(matchers, _)| matchers).split(", ");
        let matchers = matchers.filter_map(|matcher| {
            let (label, value) = matcher.split_once('=')?;
            Some((label, value.trim_start_matches('~').trim_matches('"')))
        });
        Selector {
            name,
            matchers: matchers.collect(),
        }
    });
    selectors.collect()
}

/// The labels that an expression sums by.
fn sums(expression: &str) -> impl Iterator<Item = &str> {
    let groups = expression.split("by (").skip(1);
    groups.flat_map(|group| group.split(')').next().unwrap_or(group).split(", "))
}

fn labels(scrape: &Scrape, name: &str) -> BTreeSet<String> {
    let samples = scrape.samples.iter().filter(|sample| sample.name == name);
    samples
        .flat_map(|sample| sample.labels.keys().cloned())
        .collect()
}

fn family(name: &str) -> &str {
    let part = PARTS.iter().find_map(|part| name.strip_suffix(part));
    part.unwrap_or(name)
}

#[test]
fn queries_are_for_series_and_labels_that_there_are() {
    let dashboard = dashboard();
    for (title, target) in targets(&dashboard) {
        let expression = target["expr"].as_str().unwrap();
        let selectors = selectors(expression);
        assert!(!selectors.is_empty(), "{title}");
        for Selector { name, matchers } in &selectors {
            let known = labels(&STORY.all, name);
            assert!(
                STORY.all.samples.iter().any(|sample| sample.name == *name),
                "{title}: {name}"
            );
            for (label, values) in matchers.iter().filter(|(_, values)| *values != "$policy") {
                let seen = STORY.all.values(Some(name), label);
                let mut values = values.split('|');
                assert!(
                    values.all(|value| seen.contains(value)),
                    "{title}: {label} of {seen:?}"
                );
            }
            let legend = target["legendFormat"].as_str().unwrap();
            let shown = legend
                .split("{{")
                .skip(1)
                .filter_map(|rest| rest.split("}}").next());
            let asked = matchers.iter().map(|(label, _)| *label);
            for label in asked.chain(sums(expression)).chain(shown) {
                assert!(known.contains(label), "{title}: {label} of {known:?}");
            }
        }
    }
}

#[test]
fn each_family_has_a_panel() {
    let dashboard = dashboard();
    let used: BTreeSet<_> = targets(&dashboard)
        .into_iter()
        .flat_map(|(_, target)| selectors(target["expr"].as_str().unwrap()))
        .map(|selector| family(selector.name).to_owned())
        .collect();
    let exported: BTreeSet<_> = STORY.all.families.keys().cloned().collect();
    assert_eq!(used, exported);
}

#[test]
fn panels_have_the_source_that_is_chosen() {
    let dashboard = dashboard();
    let source = "${datasource}";
    for (title, target) in targets(&dashboard) {
        assert_eq!(target["datasource"]["uid"], source, "{title}");
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<_> = variables.iter().map(|variable| &variable["name"]).collect();
    assert_eq!(names, ["datasource", "policy"]);
    assert_eq!(variables[1]["datasource"]["uid"], source);
}

#[test]
fn documentation_names_each_family() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operating.md");
    let text = fs::read_to_string(path).unwrap();
    for family in STORY.all.families.keys() {
        assert!(text.contains(&format!("`{family}`")), "{family}");
    }
    assert!(
        !ACCOUNTS
            .iter()
            .any(|account| text.contains(&format!("\"{account}\"")))
    );
    // Whatever it or an alert asks Prometheus for is there. The example has no concurrency limit.
    let alerts = include_str!("../../../docs/alerts.yml");
    for Selector { name, .. } in [&*text, alerts].into_iter().flat_map(selectors) {
        let is_there = STORY.all.families.contains_key(family(name));
        assert!(is_there || name == "rate_limiting_permits", "{name}");
    }
}
