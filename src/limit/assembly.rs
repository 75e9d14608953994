//! Assembles limits from definitions, and records those that do not fit together.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    client_override::Override, limit::Limit, limits::Limits, mistake::Reporter, name::LimitName,
    named::NamedLimit,
};
use crate::{algorithm::Algorithm, id::shortened, message::nearest};

/// Limits under construction.
#[derive(Default)]
pub(super) struct Assembly {
    pub(super) limits: Limits,
    /// The name of each number.
    numbers: HashMap<u32, Arc<str>>,
    /// Names whose definition has a mistake, so that overrides of their clients cannot be checked.
    pub(super) doubtful: HashSet<Arc<str>>,
    /// Whether files may only define names that code has declared.
    pub(super) is_closed: bool,
    /// Whether a file of defaults has a mistake that hides its names.
    pub(super) is_unsure: bool,
}

impl Assembly {
    pub(super) fn declare(&mut self, report: Reporter<'_>, given: &LimitName) {
        let report = report.of_limit(&given.name);
        given
            .mistakes()
            .for_each(|mistake| report.mistaken(mistake));
        if let Some(named) = self.limits.get(&given.name) {
            return report.mistaken(twice(named));
        }
        if let Some(number) = given.number
            && let Some(other) = self.numbers.insert(number, Arc::clone(&given.name))
        {
            let remedy = "give one of them a number that no limit has had before";
            let message = format!("it has the number {number}, which `{other}` has too");
            report.mistaken(format!("{message}: {remedy}"));
        }
        let named = NamedLimit::new(given.clone(), report.location());
        self.limits.named.insert(Arc::clone(&given.name), named);
    }

    /// Sets the default of a name, or turns it off.
    pub(super) fn define(&mut self, report: Reporter<'_>, given: &LimitName, limit: Option<Limit>) {
        let report = report.of_limit(&given.name);
        match self.limits.get(&given.name) {
            Some(named) if named.is_defined() => return report.mistaken(twice(named)),
            Some(named) => agree(report, named, given),
            None => self.declare(report, given),
        }
        let algorithm = limit.as_ref().map(Limit::algorithm);
        if given.lease.is_some() && !matches!(algorithm, None | Some(Some(Algorithm::Gcra(_)))) {
            let reason = "the store alone decides by other kinds of limit";
            let message = "lease is only for burst, count and period";
            report.mistaken(format!("{message}, because {reason}: remove it"));
        }
        limit.iter().for_each(|limit| warn(&given.name, limit));
        if let Some(named) = self.limits.named.get_mut(&given.name) {
            let named = named.edit();
            named.declared.adopt(given);
            named.location = report.location();
            named.limit = limit;
            named.is_defined = true;
        }
    }

    pub(super) fn override_in_code(
        &mut self,
        report: Reporter<'_>,
        (given, id, limit): &(LimitName, Box<str>, Limit),
    ) {
        let report = report.of_limit(&given.name).of_id(id);
        if let Some(named) = self.limits.get(&given.name) {
            agree(report, named, given);
        } else if given.number.is_some() || given.format.is_some() {
            self.declare(report, given);
        }
        if self.is_known(report, &given.name) {
            self.override_all(report, &given.name, Some(limit.clone()), &[(id, None, 0)]);
        }
    }

    /// Adds overrides for ids, each with its comment and its line.
    pub(super) fn override_all(
        &mut self,
        report: Reporter<'_>,
        name: &str,
        limit: Option<Limit>,
        ids: &[(&str, Option<&str>, u64)],
    ) {
        limit.iter().for_each(|limit| warn(name, limit));
        let named = self.limits.named.get_mut(name);
        let Some(named) = named.filter(|_| !self.doubtful.contains(name)) else {
            return;
        };
        // The ids are also checked if the limit has a mistake.
        let limit = Arc::new(limit.unwrap_or(Limit::UNLIMITED));
        for (id, comment, line) in ids {
            let report = report.of_id(id).at(*line);
            let folded = match named.canonical(id) {
                Ok(folded) => folded,
                Err(mistake) => {
                    report.mistaken(mistake);
                    continue;
                }
            };
            let folded = folded.as_str();
            let mut own = Override::new(id, folded, Arc::clone(&limit), report.location());
            own.comment = comment.map(Into::into);
            if let Some(first) = named.edit().overrides.change(folded, Some(own)) {
                let id = shortened(first.id());
                let location = &first.location;
                let source = location.file.is_some().then(|| format!(" in {location}"));
                let first = format!("for `{id}`{}", source.unwrap_or_default());
                let message = format!("it has an override already, {first}: remove one of them");
                report.mistaken(message);
            }
        }
    }

    /// Returns whether a name is known, and records the mistake if it is not.
    pub(super) fn is_known(&self, report: Reporter<'_>, name: &str) -> bool {
        let is_known = self.limits.get(name).is_some();
        if !is_known && (self.is_closed || !self.is_unsure) {
            let names = self.limits.names();
            let similar = nearest(name, &names).and_then(|near| self.limits.get(near));
            report.mistaken(match similar.map(|named| (named, named.location())) {
                Some((named, location)) if location.file.is_some() && !self.is_closed => {
                    let hint = format!("did you mean `{}`?", shortened(named.name()));
                    let remedy = "if it is misspelt, correct it there";
                    format!(
                        "no limit has this name: {hint} (it is defined in {location}: {remedy})"
                    )
                }
                _ => self.limits.unknown(name),
            });
        }
        is_known
    }
}

fn twice(named: &NamedLimit) -> String {
    let first = named.location();
    format!("it is defined twice, first in {first}: remove one of them")
}

/// Checks that a number, a format and a link equal those of a known name.
fn agree(report: Reporter<'_>, named: &NamedLimit, given: &LimitName) {
    let number = named.number();
    let format = named.format();
    let is_same = given.number.is_none_or(|given| number == Some(given));
    if !is_same || given.format.is_some_and(|given| format != given) {
        let number = number.map(|number| format!("number {number}"));
        let number = number.as_deref().unwrap_or("no number");
        let message = format!("{} has {number} and id {format} for it", named.location());
        report.mistaken(format!("{message}: write the same, or neither"));
    }
    if let Some(mistake) = given.link_mistake() {
        report.mistaken(mistake);
    }
}

/// Logs values that are allowed but probably a mistake.
fn warn(name: &str, limit: &Limit) {
    let doubts = limit.algorithm().map(|by| by.parameters().doubts());
    for (tier, doubt) in doubts.into_iter().flatten() {
        tracing::warn!(limit = name, tier, "{doubt}");
    }
}
