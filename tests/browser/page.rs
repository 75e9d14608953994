//! The simulator's page in a browser, and what it should show.

use std::time::Duration;

use serde_json::Value;
use tollgate::{
    gcra::{Gcra, Tat},
    tiers::{History, Tier, Tiers},
};

use crate::{
    browser::Browser,
    programs::{Program, Server},
};

/// The totals on the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) granted: usize,
    pub(crate) rejected: usize,
    pub(crate) by_tier: Vec<usize>,
    pub(crate) gcra_granted: usize,
    pub(crate) gcra_rejected: usize,
}

impl Totals {
    /// What the crate's arithmetic makes of requests at some instants, in milliseconds.
    pub(crate) fn of(tiers: &[[u32; 4]], gcra: [u32; 3], instants: &[u64]) -> Self {
        let secs = |seconds: u32| Duration::from_secs(seconds.into());
        let mut totals = Self {
            by_tier: vec![0; tiers.len()],
            ..Self::default()
        };
        let tiers = tiers.iter().map(|[limit, window, active, cooldown]| {
            let tier = Tier::new(*limit, secs(*window)).active(secs(*active));
            tier.cooldown(secs(*cooldown))
        });
        let tiers = Tiers::new(tiers).unwrap();
        let gcra = Gcra::new(gcra[0], gcra[1], secs(gcra[2])).unwrap();
        let (mut history, mut tat) = (History::default(), Tat::default());
        for now in instants.iter().map(|ms| ms * 1000) {
            match tiers.request(&mut history, now, 1..=1) {
                Some(grant) => {
                    totals.granted += 1;
                    totals.by_tier[grant.tier().unwrap()] += 1;
                }
                None => totals.rejected += 1,
            }
            let spent = gcra.spend(tat, now, 1);
            totals.gcra_granted += usize::from(spent.is_some());
            totals.gcra_rejected += usize::from(spent.is_none());
            tat = spent.unwrap_or(tat);
        }
        totals
    }
}

/// A browser at the page of a server of its own.
pub(crate) struct Page {
    pub(crate) browser: Browser,
    pub(crate) server: Server,
    _program: Program,
}

impl Page {
    pub(crate) fn open(query: &str) -> Self {
        let program = Program::start_at("simulator", "127.0.0.1:0");
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
        let patterns = self.server.get("/patterns", "").json();
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
        Totals {
            granted: number("granted").unwrap(),
            rejected: number("rejected").unwrap(),
            by_tier: tiers.collect(),
            gcra_granted: number("gcra-granted").unwrap(),
            gcra_rejected: number("gcra-rejected").unwrap(),
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
        let field = self.browser.find(&format!("#{id}"));
        let everything = "\u{e009}a\u{e000}";
        field.send_keys(&format!("{everything}{text}"));
    }

    pub(crate) fn field(&self, id: &str) -> Value {
        let script = format!("return document.getElementById('{id}').value");
        self.browser.run(&script)
    }
}
