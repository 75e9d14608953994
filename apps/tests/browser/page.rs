//! The simulator's page in a browser, and the expected figures.

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction,
    clock::{ManualClock, Timestamp},
    quota::Per,
    tiers::Tier,
};

use crate::{
    browser::Browser,
    programs::{Program, Server},
};

/// A configuration: four numbers for each tier, three for GCRA, and two each for the window, the quota and the concurrency
/// limit.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) tiers: &'static [[u32; 4]],
    pub(crate) gcra: [u32; 3],
    pub(crate) window: [u32; 2],
    pub(crate) quota: [u32; 2],
    pub(crate) concurrent: [u32; 2],
}

/// The totals on the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) granted: usize,
    pub(crate) rejected: usize,
    pub(crate) by_tier: Vec<usize>,
    /// The numbers of requests that each limit without tiers has granted and rejected.
    pub(crate) plain: BTreeMap<&'static str, [usize; 2]>,
}

/// The limits without tiers.
const PLAIN: [&str; 4] = ["gcra", "window", "quota", "concurrent"];

impl Totals {
    /// Computes the crate's decisions on requests at some instants, in milliseconds.
    pub(crate) fn of(config: &Config, instants: &[u64]) -> Self {
        let [burst, count, period] = config.gcra;
        let [most, window] = config.window;
        let [quota, per] = config.quota;
        let [at_once, work] = config.concurrent;
        let limits = [
            ("gcra", Limit::new(burst, count, secs(period)).unwrap()),
            ("window", Limit::window(most, secs(window))),
            ("quota", Limit::quota(quota, Per::first_use(secs(per)))),
            // A permit comes back when the work ends.
            ("concurrent", Limit::concurrent(at_once).hold(secs(work))),
        ];
        let mut totals = Self::of_tiers(config.tiers, instants);
        for (name, limit) in limits {
            let decisions = decided(limit, instants);
            let granted = decisions.iter().filter(|one| one.allowed()).count();
            let rejected = instants.len() - granted;
            totals.plain.insert(name, [granted, rejected]);
        }
        totals
    }

    fn of_tiers(tiers: &[[u32; 4]], instants: &[u64]) -> Self {
        let mut totals = Self {
            by_tier: vec![0; tiers.len()],
            ..Self::default()
        };
        let tiers = tiers.iter().map(|[limit, window, active, cooldown]| {
            let tier = Tier::new(*limit, secs(*window)).active(secs(*active));
            tier.cooldown(secs(*cooldown))
        });
        for decision in decided(Limit::tiers(tiers).unwrap(), instants) {
            match decision.tier() {
                Some(tier) => {
                    totals.granted += 1;
                    totals.by_tier[tier] += 1;
                }
                None => totals.rejected += 1,
            }
        }
        totals
    }
}

/// Returns the decisions of the crate at instants in milliseconds.
fn decided(limit: Limit, instants: &[u64]) -> Vec<Decision> {
    let limits = Limits::builder().limit("l", limit).build().unwrap();
    let clock = ManualClock::default();
    let limiter = Limiter::new(limits, MemoryBackend::new()).with_clock(clock.clone());
    let decisions = instants.iter().map(|ms| {
        clock.set(Timestamp::from_micros(ms * 1000));
        let decision = limiter.try_spend(&Transaction::new("l", "a"));
        decision.expect("memory never waits").unwrap()
    });
    decisions.collect()
}

fn secs(seconds: u32) -> Duration {
    Duration::from_secs(seconds.into())
}

/// A browser at the page of a server of its own.
pub(crate) struct Page {
    pub(crate) browser: Browser,
    pub(crate) server: Server,
    _program: Program,
}

impl Page {
    pub(crate) fn open(query: &str) -> Self {
        let program = Program::start_anywhere("simulator");
        let page = Self {
            browser: Browser::start(),
            server: program.next_server(),
            _program: program,
        };
        page.go(query);
        page
    }

    /// Loads the page anew, with a configuration that is fit to simulate.
    pub(crate) fn go(&self, query: &str) {
        let url = format!("{}/{query}", self.server.url());
        self.browser.open(&url);
        self.browser.wait_for("body[data-state=idle]");
    }

    pub(crate) fn choose(&self, name: &str, value: &str) {
        let choice = format!("input[name={name}][value='{value}']");
        self.browser.click(&choice);
    }

    /// Plays a pattern with some speed, and waits until it is over.
    pub(crate) fn play(&self, pattern: &str, speed: &str) {
        self.choose("speed", speed);
        self.browser
            .click(&format!("#pattern option[value='{pattern}']"));
        self.browser.click("#play");
        let asked = self.pattern(pattern).len();
        let over = "!['starting', 'playing'].includes(document.body.dataset.state)";
        self.browser.wait_until(over);
        let summary = self.browser.text("#last");
        let played = format!("Played {asked} requests:");
        assert!(summary.starts_with(&played), "{summary}");
    }

    pub(crate) fn pattern(&self, id: &str) -> Vec<u64> {
        let patterns = self.server.get("/patterns", &[]).json();
        let mut patterns = patterns.as_array().unwrap().iter();
        let pattern = patterns.find(|pattern| pattern["id"] == id).unwrap();
        let instants = pattern["at"].as_array().unwrap();
        instants.iter().map(|ms| ms.as_u64().unwrap()).collect()
    }

    pub(crate) fn totals(&self) -> Totals {
        let ids = self
            .browser
            .run("return Object.fromEntries([...document.querySelectorAll('[id]')].map((one) => [one.id, one.textContent]))");
        let number = |id: &str| ids[id].as_str()?.parse().ok();
        let tiers = (0..4).map_while(|tier| number(&format!("granted-tier-{tier}")));
        let plain = PLAIN.map(|name| {
            let totals = ["granted", "rejected"].map(|total| number(&format!("{name}-{total}")));
            (name, totals.map(Option::unwrap))
        });
        Totals {
            granted: number("granted").unwrap(),
            rejected: number("rejected").unwrap(),
            by_tier: tiers.collect(),
            plain: plain.into(),
        }
    }

    /// The query of the page's address.
    pub(crate) fn query(&self) -> String {
        let url = self.browser.url();
        url.query().unwrap_or_default().to_owned()
    }

    /// Makes one request, as assistive technology does it: a slow machine cannot hold the button.
    pub(crate) fn ask(&self) {
        self.browser.run("ask.click()");
    }

    /// Writes into a field, as if it had been typed.
    pub(crate) fn fill(&self, id: &str, text: &str) {
        let everything = "\u{e009}a\u{e000}";
        let keys = format!("{everything}{text}");
        self.browser.type_into(&format!("#{id}"), &keys);
    }

    pub(crate) fn field(&self, id: &str) -> Value {
        let script = format!("return document.getElementById('{id}').value");
        self.browser.run(&script)
    }
}
