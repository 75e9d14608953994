//! Everything that can happen to the example with a Redis, once for all tests.

use std::{
    fs,
    path::{Path, PathBuf},
    process,
    sync::LazyLock,
};

use super::scrape::{App, Scrape};
use crate::{eventually::eventually, redis_support::Server};

const REQUESTS: &str = "rate_limiting_requests_total";
const RELOADS: &str = "rate_limiting_config_reloads_total";
const STATE: &str = "rate_limiting_circuit_state";

/// The clients of the requests.
pub(crate) const ACCOUNTS: [&str; 9] = [
    "alice", "dora", "erin", "spammer", "partner", "hank", "bob", "judy", "carol",
];

/// The scrapes at the start, before Redis is killed, while it is down, after its return, and at the end.
pub(crate) struct Story {
    pub(crate) before: Scrape,
    pub(crate) down: Scrape,
    pub(crate) back: Scrape,
    pub(crate) all: Scrape,
}

pub(crate) static STORY: LazyLock<Story> = LazyLock::new(|| {
    let overrides = Overrides::new("story");
    let redis = Server::start();
    let app = App::start(&[
        ("OVERRIDES", overrides.path().to_str().unwrap()),
        ("REDIS_URL", &redis.url()),
    ]);
    Story {
        before: before(&app),
        down: down(&app, &redis),
        back: back(&app, &redis),
        all: reloaded(&app, &overrides),
    }
});

fn before(app: &App) -> Scrape {
    app.send(23, "/", "alice");
    app.send(5, "/search", "dora");
    app.send(8, "/export", "erin");
    app.send(1, "/", "spammer");
    app.send(3, "/", "partner");
    app.scrape()
}

fn down(app: &App, redis: &Server) -> Scrape {
    redis.pause();
    // Decided locally after the deadline.
    assert_eq!(app.send(1, "/", "hank"), [200]);
    redis.kill();
    let bob = app.send(25, "/", "bob");
    assert_eq!(bob, [[200; 20].as_slice(), &[429; 5]].concat());
    assert_eq!(app.send(2, "/export", "judy"), [503; 2]);
    app.scrape()
}

fn back(app: &App, redis: &Server) -> Scrape {
    redis.restart();
    eventually("the store is asked again", || {
        app.send(1, "/search", "carol");
        app.scrape().value(STATE, "") == 0.0
    });
    app.scrape()
}

fn reloaded(app: &App, overrides: &Overrides) -> Scrape {
    let steps = [
        (
            "applied",
            Some(r#"[{"requests": {"burst": 1, "count": 1, "period": "1h", "ids": ["mallory"]}}]"#),
        ),
        ("refused", Some(r#"[{"nothing": {}}]"#)),
        ("unreadable", None),
    ];
    for (outcome, text) in steps {
        overrides.become_text(text);
        app.program.signal("HUP");
        eventually(outcome, || app.scrape().value(RELOADS, outcome) > 0.0);
    }
    assert!(app.scrape().value(REQUESTS, "requests acquired") > 0.0);
    app.scrape()
}

/// A file of overrides, removed when dropped.
pub(crate) struct Overrides(PathBuf);

impl Overrides {
    pub(crate) fn new(test: &str) -> Self {
        let name = format!("tollgate-observability-{test}-{}.json", process::id());
        let overrides = Self(std::env::temp_dir().join(name));
        overrides.become_text(Some("[]"));
        overrides
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn become_text(&self, text: Option<&str>) {
        let changed = match text {
            Some(text) => {
                let temporary = self.0.with_extension("tmp");
                fs::write(&temporary, text).unwrap();
                fs::rename(&temporary, &self.0)
            }
            None => fs::remove_file(&self.0),
        };
        changed.unwrap();
    }
}

impl Drop for Overrides {
    fn drop(&mut self) {
        // It is gone already if all went well.
        let _ = fs::remove_file(&self.0);
    }
}
