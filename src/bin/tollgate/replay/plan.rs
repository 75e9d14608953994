//! The rules, ready for requests.

use tollgate::{Limits, id::IdFormat, limit::NamedLimit, rule::Paths, transaction::Algorithm};

use crate::{
    key::{Key, PlannedKey},
    log::{Record, Wanted},
    rules::FileRule,
};

/// The rules that requests may meet.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) rules: Vec<PlannedRule>,
    /// The names of the limits that requests may meet.
    pub(super) limits: Vec<String>,
}

pub(super) struct PlannedRule {
    /// The limit's place in [`Plan::limits`].
    pub(super) limit: usize,
    pub(super) format: IdFormat,
    pub(super) cost: u32,
    key: PlannedKey,
    paths: Option<Paths>,
    methods: Vec<String>,
}

impl Plan {
    /// Plans rules for known limits, and adds what they need of a line to `wanted`. Also returns notes on the limits that a log
    /// tells nothing about.
    pub(super) fn new(
        limits: &Limits,
        rules: Vec<FileRule>,
        wanted: &mut Wanted,
    ) -> (Self, Vec<String>) {
        let mut notes = Vec::new();
        let mut plan = Self::default();
        for rule in rules {
            let Some(named) = limits.get(&rule.limit) else {
                continue;
            };
            match is_concurrent(named) {
                true => notes.push(format!(
                    "limit `{}` counts what runs at once, which a log does not tell: it is left out",
                    rule.limit
                )),
                false => plan.add(rule, named.name.format(), wanted),
            }
        }
        (plan, notes)
    }

    fn add(&mut self, rule: FileRule, format: IdFormat, wanted: &mut Wanted) {
        let known = self.limits.iter().position(|name| *name == rule.limit);
        let limit = known.unwrap_or_else(|| {
            self.limits.push(rule.limit.clone());
            self.limits.len() - 1
        });
        // The ids of such a limit are ranges.
        let key = match (&rule.key, format) {
            (Key::Ip, IdFormat::Ipv6Range) => &Key::Range,
            (key, _) => key,
        };
        wanted.request |= rule.paths.is_some() || !rule.methods.is_empty();
        self.rules.push(PlannedRule {
            limit,
            format,
            cost: rule.cost,
            key: key.plan(wanted),
            paths: rule.paths,
            methods: rule.methods,
        });
    }
}

fn is_concurrent(named: &NamedLimit) -> bool {
    let own = named.overrides().map(|own| own.limit);
    let mut all = named.limit.iter().chain(own);
    all.any(|limit| matches!(limit.algorithm(), Some(Algorithm::Concurrency(_))))
}

impl PlannedRule {
    /// The id of the client that meets the rule with a request, if the rule applies to it.
    pub(super) fn client_of(&self, record: &Record) -> Option<String> {
        let is_method = self.methods.is_empty() || self.methods.contains(&record.method);
        let is_path = |paths: &Paths| paths.cover(&record.path);
        let applies = is_method && self.paths.as_ref().is_none_or(is_path);
        applies.then(|| self.key.id(record))?
    }
}
