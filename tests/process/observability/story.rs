//! Everything that can happen to the example with a Redis, once for all tests.

use std::{fs, sync::LazyLock};

use super::scrape::{App, Scrape};
use crate::{
    eventually::eventually,
    programs::{file, replace},
    redis_support::Server,
};

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
    let overrides = file("overrides.json", "[]");
    let redis = Server::start();
    let app = App::start(&[("OVERRIDES", &*overrides), ("REDIS_URL", &redis.url())]);
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

fn reloaded(app: &App, overrides: &str) -> Scrape {
    let reload = |outcome: &str| {
        app.program.signal("HUP");
        eventually(outcome, || app.scrape().value(RELOADS, outcome) > 0.0);
    };
    replace(
        overrides,
        r#"[{"requests": {"burst": 1, "count": 1, "period": "1h", "ids": ["mallory"]}}]"#,
    );
    reload("applied");
    replace(overrides, r#"[{"nothing": {}}]"#);
    reload("refused");
    fs::remove_file(overrides).unwrap();
    reload("unreadable");
    assert!(app.scrape().value(REQUESTS, "requests acquired") > 0.0);
    app.scrape()
}
