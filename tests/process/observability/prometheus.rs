//! A real Prometheus that scrapes the example, with the documented alerts.

use std::{
    env, fs,
    io::ErrorKind,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{alerts, dashboard, scrape::App, story::Overrides};
use crate::{programs::Server, redis_support::Server as Redis};

/// Runs until its input ends, which it does when the test lets go of it, or ends.
const WATCHER: &str = r#"
home=$1
shift
cd "$home" || exit
trap '' HUP INT TERM
prometheus "$@" >log 2>&1 &
pid=$!
cat >/dev/null
kill -s KILL "$pid"
wait "$pid"
cd / && rm -rf "$home"
"#;

/// How long anything may take before the test gives up on it.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running Prometheus that scrapes one target.
struct Prometheus {
    server: Server,
    home: PathBuf,
    watcher: Child,
}

impl Prometheus {
    fn start(target: &str) -> Self {
        const ATTEMPTS: usize = 10;
        let found = Command::new("prometheus").arg("--version").output();
        found.expect("prometheus is installed (Debian: `apt-get install prometheus`)");
        let mut attempts = (0..ATTEMPTS).filter_map(|_| Self::try_start(target));
        attempts
            .next()
            .expect("a port stays free until it is taken")
    }

    fn try_start(target: &str) -> Option<Self> {
        let home = new_home();
        alerts::write_rules(&home.join("rules.yml"));
        let config = json!({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "200ms"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "tollgate", "static_configs": [{"targets": [target]}]}],
        });
        fs::write(home.join("prometheus.yml"), config.to_string()).unwrap();
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = port.local_addr().unwrap().to_string();
        drop(port);
        let watcher = Command::new("sh")
            .args(["-c", WATCHER, "watcher"])
            .arg(&home)
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let prometheus = Self {
            server: Server::at(&address),
            home,
            watcher,
        };
        let mut is_taken = false;
        eventually("Prometheus is ready", || {
            is_taken = prometheus.log().contains("address already in use");
            let listens = TcpStream::connect(&address).is_ok();
            is_taken || listens && prometheus.server.get("/-/ready", "").status == 200
        });
        (!is_taken).then_some(prometheus)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.home.join("log")).unwrap_or_default()
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

impl Drop for Prometheus {
    fn drop(&mut self) {
        // To wait for the shell closes its input first.
        let _ = self.watcher.wait();
    }
}

/// Makes a directory that nobody else uses.
pub(crate) fn new_home() -> PathBuf {
    static HOMES: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = HOMES.fetch_add(1, Ordering::Relaxed);
        let name = format!("tollgate-prometheus-{}-{number}", process::id());
        let home = env::temp_dir().join(name);
        match fs::create_dir(&home) {
            Ok(()) => return home,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => panic!("{}: {error}", home.display()),
        }
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
    assert_eq!(rules.len(), alerts::documented().len());
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
