//! Decides the requests of a log as a server would: by the crate's limiter, with the log's times as the clock.

use std::time::Duration;

use tollgate::{
    Decision, Limit, Limiter, Limits, MemoryBackend, Transaction, transaction::Algorithm,
};

use super::{
    plan::{Plan, PlannedRule},
    tally::Tally,
};
use crate::{clocked::Clocked, distinct, log::Record};

/// The most bytes of windows and tiers.
const HISTORY_BYTES: usize = 256 * 1024 * 1024;

/// A limiter, and what it has done.
pub(super) struct Engine {
    plan: Plan,
    limiter: Clocked,
    /// The same limits with a line to wait in, if that changes any of them.
    lined: Option<Clocked>,
    tallies: Vec<Tally>,
    /// Requests whose id is not in the format of a limit.
    misfits: u64,
    decided: u64,
}

/// A client of a limit in one request.
struct Charge {
    limit: usize,
    id: String,
    cost: u32,
}

impl Engine {
    pub(super) fn new(limits: Limits, plan: Plan, max_wait: Duration) -> Self {
        let tally = |name: &String| {
            let limit = limits.get(name).and_then(|named| named.limit.as_ref());
            Tally::new(name, limit)
        };
        let buckets = MemoryBackend::DEFAULT_MAX_BUCKETS * plan.limits.len().max(1);
        let clocked = |limits| Clocked::new(limits, buckets, HISTORY_BYTES);
        Self {
            tallies: plan.limits.iter().map(tally).collect(),
            lined: with_line(&limits, max_wait).map(clocked),
            limiter: clocked(limits),
            plan,
            misfits: 0,
            decided: 0,
        }
    }

    /// Decides one request. All of its limits are charged or none.
    pub(super) fn meet(&mut self, record: &Record) {
        let mut charges: Vec<Charge> = Vec::with_capacity(self.plan.rules.len());
        for rule in &self.plan.rules {
            let Some(id) = rule.client_of(record) else {
                continue;
            };
            match rule.format.fold(&id) {
                Ok(folded) if folded.as_str() == id => add(&mut charges, rule, id),
                Ok(folded) => add(&mut charges, rule, folded.to_string()),
                Err(_) => self.misfits += 1,
            }
        }
        if charges.is_empty() {
            return;
        }
        let names = &self.plan.limits;
        let tallies = &mut self.tallies;
        let limiter = self.limiter.at(record.at);
        let decided = decide(limiter, names, &charges, |charge, decision| {
            let hash = distinct::hash(&charge.id);
            tallies[charge.limit].count(record.at, &charge.id, hash, decision);
        });
        self.decided += u64::from(decided);
        self.misfits += u64::from(!decided);
        if let Some(lined) = &self.lined {
            decide(lined.at(record.at), names, &charges, |charge, decision| {
                tallies[charge.limit].count_in_line(decision);
            });
        }
    }

    /// What was done, and what deserves a note.
    pub(super) fn end(self) -> (Vec<Tally>, Vec<String>) {
        let mut notes = Vec::new();
        if self.misfits > 0 {
            notes.push(format!(
                "requests that met a limit which does not admit their id or cost, and did not count there: {}",
                self.misfits
            ));
        }
        if self.decided == 0 {
            notes.push("no request met a limit: check --key and the rules".to_owned());
        } else {
            let unmet = self.tallies.iter().filter(|tally| tally.requests == 0);
            notes.extend(unmet.map(|tally| {
                format!(
                    "no request met limit `{}`: check the key, paths and methods of its rules (methods are in capitals), and the format of its ids",
                    tally.name
                )
            }));
        }
        let evictions = self.limiter.evictions();
        if evictions > 0 {
            notes.push(format!(
                "there were more buckets at a time than the memory holds, and {evictions} of them were forgotten early"
            ));
        }
        if self.tallies.iter().any(|tally| !tally.is_exact()) {
            notes.push("numbers of clients above a million are estimates (0.2 %)".to_owned());
        }
        let has_line = self.lined.is_some();
        let tallies = self.tallies.into_iter();
        let tallies = tallies.map(|tally| tally.ended(has_line)).collect();
        (tallies, notes)
    }
}

/// Decides a batch, and returns whether that was possible.
fn decide(
    limiter: &Limiter,
    names: &[String],
    charges: &[Charge],
    mut told: impl FnMut(&Charge, &Decision),
) -> bool {
    let batch = charges
        .iter()
        .map(|charge| Transaction::new(&*names[charge.limit], &charge.id).cost(charge.cost));
    let batch: Vec<_> = batch.collect();
    let Some(Ok(decisions)) = limiter.try_spend_batch(&batch) else {
        return false;
    };
    let members = charges.iter().zip(decisions.members());
    members.for_each(|(charge, decision)| told(charge, decision));
    true
}

/// Adds a charge. Rules that charge the same bucket charge it once, with the sum of their costs.
fn add(charges: &mut Vec<Charge>, rule: &PlannedRule, id: String) {
    let mut others = charges.iter_mut();
    match others.find(|other| other.limit == rule.limit && other.id == id) {
        Some(same) => same.cost = same.cost.saturating_add(rule.cost),
        None => charges.push(Charge {
            limit: rule.limit,
            id,
            cost: rule.cost,
        }),
    }
}

/// The same limits, where requests of token buckets wait in line for at most this time. `None` if no limit changes.
fn with_line(limits: &Limits, wait: Duration) -> Option<Limits> {
    let mut changed = false;
    let mut lined = |limit: &Limit| match limit.algorithm() {
        Some(Algorithm::Gcra(gcra)) if gcra.max_wait().is_zero() => {
            changed = true;
            limit.clone().max_wait(wait)
        }
        _ => limit.clone(),
    };
    let mut builder = Limits::builder();
    for named in limits.iter() {
        builder = match &named.limit {
            Some(limit) => builder.limit(named.name.clone(), lined(limit)),
            None => builder.name(named.name.clone()),
        };
        for own in named.overrides() {
            builder = builder.override_for(named.name.as_str(), own.id, lined(own.limit));
        }
    }
    let limits = builder.build().ok()?;
    changed.then_some(limits)
}
