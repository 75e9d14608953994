//! No more permits are held than the limit and the published additions, none is lost without a reason, and in the end all
//! are free.

use std::collections::BTreeSet;

use super::{end, limit_of, problem};
use crate::{
    fleet::{Fleet, Incident},
    ledger::Bucket,
    limits::Terms,
    network::lock,
    record::Belief,
};

pub(super) fn check(fleet: &mut Fleet) {
    let beliefs = fleet.record().beliefs.clone();
    for belief in &beliefs {
        at_begin(fleet, belief, &beliefs);
        lost(fleet, belief);
    }
    let buckets: BTreeSet<Bucket> = beliefs.into_iter().map(|belief| belief.bucket).collect();
    for bucket in buckets {
        for process in 0..fleet.processes.len() {
            free(fleet, process, &bucket);
        }
    }
}

/// Returns the most permits at once of any version, and their hold.
fn terms(fleet: &Fleet, bucket: &Bucket) -> (u32, u64) {
    let versions = limit_of(fleet, bucket).versions.into_iter();
    let terms = versions.map(|terms| match terms {
        Terms::AtOnce { permits, hold } => (permits, hold),
        other => (other.most(), 0),
    });
    terms.max().unwrap_or_default()
}

/// At most the limit is held when permits are granted: by all processes from the store, and by each process from itself.
fn at_begin(fleet: &Fleet, belief: &Belief, all: &[Belief]) {
    let at = belief.from;
    let (permits, hold) = terms(fleet, &belief.bucket);
    let is_together = |other: &&Belief| {
        let is_same = other.bucket == belief.bucket && other.is_of_store() == belief.is_of_store();
        let is_here = other.is_of_store() || other.process == belief.process;
        is_same && is_here && other.from <= at && at <= other.until
    };
    let together = all.iter().filter(is_together);
    let held: u32 = together.map(|other| other.permits).sum();
    let most = match belief.is_of_store() {
        true => permits * (1 + losses(fleet, at, hold)),
        false => share(fleet, permits),
    };
    if held > most {
        let (bucket, source) = (&belief.bucket, belief.source);
        let text =
            format!("{held} permits of {bucket:?} are held at {at} by {source:?}, at most {most}");
        problem(fleet, text);
    }
}

/// How often the store has lost data not long ago: those who have lost a permit with it find out when they renew it.
fn losses(fleet: &Fleet, at: u64, hold: u64) -> u32 {
    let recent = fleet.incidents.iter().filter(|(when, incident)| {
        matches!(incident, Incident::Loss(_)) && *when <= at && at <= when + hold
    });
    u32::try_from(recent.count()).expect("there are few")
}

/// What a process may grant without the store.
fn share(fleet: &Fleet, permits: u32) -> u32 {
    let (part, of) = fleet.setup.share;
    (permits * part).div_ceil(of).max(1)
}

/// Only a pause of the process and a server that does not answer cost a permit, and only if they last as long as the hold.
fn lost(fleet: &Fleet, belief: &Belief) {
    let Some(at) = belief.lost else { return };
    let server = lock(&fleet.network).server_of(&belief.bucket.1);
    let was_silent = belief.is_of_store() && fleet.troubled_servers.contains(&server);
    let was_away = fleet.troubled_processes.contains(&belief.process);
    if fleet.setup.keeps_permits || !(was_silent || was_away) {
        problem(fleet, format!("permits are lost at {at}: {belief:?}"));
    }
}

/// All permits have come back.
fn free(fleet: &mut Fleet, process: usize, bucket: &Bucket) {
    let Some(decided) = end::ask(fleet, process, bucket) else {
        return;
    };
    let direct = end::ask_store(fleet, process, bucket, &decided);
    let version = fleet.processes[process].version;
    let all = limit_of(fleet, bucket).versions[version].most();
    // A check shows what one more would leave.
    let left = [&decided, &direct].map(|decision| decision.remaining());
    if left != [Some(all - 1); 2] {
        let text = format!(
            "{bucket:?} has {all} permits at the end, and {left:?} are left after one more"
        );
        problem(fleet, text);
    }
}
