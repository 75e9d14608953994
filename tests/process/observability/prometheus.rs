//! A real Prometheus that scrapes the example, with the documented alerts.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{alerts, dashboard, scrape::App, story::Overrides};
use crate::{
    programs::Server,
    redis_support::{Port, Process, Server as Redis, comes_true, new_home},
};

/// How long anything may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often another port is tried.
const ATTEMPTS: usize = 10;

/// What it logs when it listens.
const READY: &str = "Server is ready to receive web requests";

/// A running Prometheus that scrapes one target.
struct Prometheus {
    server: Server,
    _process: Process,
    _port: Port,
}

impl Prometheus {
    fn start(target: &str) -> Self {
        let mut logs = Vec::new();
        while logs.len() < ATTEMPTS {
            match Self::try_start(target) {
                Ok(prometheus) => return prometheus,
                Err(log) => logs.push(log),
            }
        }
        panic!("Prometheus does not start:\n{}", logs.join("\n"));
    }

    /// The error is what it has logged if it does not listen.
    fn try_start(target: &str) -> Result<Self, String> {
        let (home, port) = (new_home(), Port::claim());
        alerts::write_rules(&home.join("rules.yml"));
        let config = json!({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "200ms"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "tollgate", "static_configs": [{"targets": [target]}]}],
        });
        fs::write(home.join("prometheus.yml"), config.to_string()).unwrap();
        let address = format!("127.0.0.1:{}", port.number());
        let args = [
            "--config.file=prometheus.yml".to_owned(),
            "--storage.tsdb.path=data".to_owned(),
            format!("--web.listen-address={address}"),
        ];
        let process = Process::new(home, "prometheus", &args);
        process.start();
        let mut log = String::new();
        // Somebody else may answer at that address: what counts is its own word.
        comes_true(|| {
            log = process.log();
            log.contains(READY) || log.to_ascii_lowercase().contains("level=error")
        });
        if !log.contains(READY) {
            return Err(log);
        }
        Ok(Self {
            server: Server::at(&address),
            _process: process,
            _port: port,
        })
    }

    /// What it answers by its API.
    fn api(&self, path: &str) -> Value {
        let response = self.server.get(path, "");
        let mut json = response.json();
        assert_eq!(json["status"], "success", "{path}: {json}");
        json["data"].take()
    }

    /// The values of a query, of whatever series.
    fn query(&self, query: &str) -> Vec<f64> {
        let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let data = self.api(&format!("/api/v1/query?query={query}"));
        let result = data["result"].as_array().unwrap().iter();
        let values = result.map(|series| series["value"][1].as_str().unwrap());
        values.map(|value| value.parse().unwrap()).collect()
    }

    /// The state of an alert: `pending` or `firing`, if it is either.
    fn alert(&self, name: &str) -> Option<String> {
        let data = self.api("/api/v1/alerts");
        let mut alerts = data["alerts"].as_array().unwrap().iter();
        let alert = alerts.find(|alert| alert["labels"]["alertname"] == name)?;
        Some(alert["state"].as_str().unwrap().to_owned())
    }

    fn expect_alert(&self, name: &str, states: &[&str]) {
        eventually(name, || {
            let state = self.alert(name);
            state.is_some_and(|state| states.contains(&&*state))
        });
    }
}

const NOT_TAKEN: &str = "a reload has failed";
const AWAY: &str = "the store is down";
const REFUSED: &str = "requests cannot be decided";

/// Looks again and again until something is so.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn first_event_of_each_kind_fires_its_alert() {
    let overrides = Overrides::new("prometheus");
    let redis = Redis::start();
    let variables = [("OVERRIDES", overrides.path().to_str().unwrap())];
    let app = App::start(&[&redis.url()], &variables);
    let prometheus = Prometheus::start(app.metrics_address());
    assert_eq!(app.send(1, "/", "alice"), [200]);
    let scrapes = "min(count_over_time(rate_limiting_config_reloads_total[1h]))";
    eventually("counters are scraped at 0", || {
        prometheus.query(scrapes).first() >= Some(&3.0)
    });
    let rules = prometheus.api("/api/v1/rules");
    let rules = rules["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), alerts::names().len());
    for alert in [NOT_TAKEN, AWAY, REFUSED] {
        assert_eq!(prometheus.alert(alert), None, "{alert}");
    }

    overrides.become_text(Some(r#"[{"nothing": {}}]"#));
    app.program.signal("HUP");
    prometheus.expect_alert(NOT_TAKEN, &["firing"]);

    redis.kill();
    let state = "rate_limiting_circuit_state == 1";
    eventually("the breaker opens", || {
        app.send(1, "/", "bob");
        !prometheus.query(state).is_empty()
    });
    prometheus.expect_alert(AWAY, &["pending", "firing"]);
    let opened = r#"sum(increase(rate_limiting_circuit_transitions_total{to="open"}[10m])) > 0"#;
    eventually("its first transition counts", || {
        !prometheus.query(opened).is_empty()
    });
    assert_eq!(app.send(1, "/export", "judy"), [503]);
    prometheus.expect_alert(REFUSED, &["pending", "firing"]);
    for expression in dashboard::expressions() {
        prometheus.query(&expression);
    }
}
