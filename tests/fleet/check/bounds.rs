//! In every span, no bucket is granted more than its limit and the additions that the guide to failures publishes.

use std::collections::BTreeMap;

use tollgate::{decision::Source, transaction::OnFailure};

use super::{limit_of, local, problem};
use crate::{
    fleet::{Fleet, Incident},
    ledger::Bucket,
    limits::Terms,
    network::lock,
    record::Admission,
};

/// How closely the instants of decisions are known, in microseconds.
const CLOSE: u64 = 2_000;

pub(super) fn check(fleet: &Fleet) {
    let admissions: BTreeMap<_, _> = fleet.record().admissions.clone().into_iter().collect();
    for (bucket, mut admissions) in admissions {
        let refunds = refunds(&admissions);
        admissions.retain(|admission| !admission.is_debit && admission.kept() > 0);
        admissions.sort_by_key(|admission| admission.at);
        for first in 0..admissions.len() {
            let from_first = &admissions[first..];
            if let Some(text) = exceeded(fleet, &bucket, from_first, &refunds) {
                return problem(fleet, text);
            }
        }
        local::check(fleet, &bucket, &admissions);
    }
}

/// The refund of a charge: when it was charged and refunded, and how much.
struct Refund {
    charged: u64,
    refunded: u64,
    units: u64,
}

fn refunds(admissions: &[Admission]) -> Vec<Refund> {
    // Also of a debit: its refund gives back what time may have given back already.
    let refunded = |admission: &&Admission| admission.kept() < admission.units;
    let refunded = admissions.iter().filter(refunded);
    let refund = |admission: &Admission| Refund {
        charged: admission.at,
        refunded: match admission.refunding {
            0 => admission.refunded_at,
            // It may still be under way.
            _ => u64::MAX,
        },
        units: (admission.units - admission.kept()).into(),
    };
    refunded.map(refund).collect()
}

/// Looks for a span that begins with the first admission and has too many.
fn exceeded(
    fleet: &Fleet,
    bucket: &Bucket,
    admissions: &[Admission],
    refunds: &[Refund],
) -> Option<String> {
    let (first, mut until, mut sum) = (admissions.first()?.at, 0, 0);
    for (last, admission) in admissions.iter().enumerate() {
        sum += u64::from(admission.kept());
        until = admission.until.max(until);
        let span = (first, until);
        let most = most(fleet, bucket, span, &admissions[..=last])?;
        // A rate gives back what time may have given back already.
        let is_within = |refund: &&Refund| refund.refunded >= span.0 && refund.charged <= span.1;
        let refunds = refunds.iter().filter(is_within).map(|refund| refund.units);
        let back: u64 = match limit_of(fleet, bucket).has_rate() {
            true => refunds.sum(),
            false => 0,
        };
        if sum > most + back {
            let most = most + back;
            let granted = admissions[..=last].iter();
            let granted: Vec<_> = granted.map(|one| (one.at, one.kept())).collect();
            return Some(format!(
                "{bucket:?} is granted {sum} in {span:?}, at most {most}: {granted:?}"
            ));
        }
    }
    None
}

/// Returns the most units that a bucket is granted in a span, or `None` without a bound.
fn most(fleet: &Fleet, bucket: &Bucket, span: (u64, u64), within: &[Admission]) -> Option<u64> {
    let length = span.1 - span.0 + CLOSE;
    let versions = versions(fleet, bucket);
    let of = |terms: &Terms| terms.most_within(length);
    let burst = versions.iter().map(of).max()?;
    // Two algorithms have two buckets. Under two versions of one algorithm, each reads the state of the other.
    let is_same = versions.iter().all(|terms| terms.is_like(versions[0]));
    let base = match is_same {
        true => {
            burst
                * if versions.iter().any(|terms| *terms != versions[0]) {
                    2
                } else {
                    1
                }
        }
        false => versions.iter().map(of).sum(),
    };
    let resets = lock(&fleet.network).ledger.get(bucket).resets;
    let local = local_additions(fleet, burst, span.1, within)?;
    Some(base + refunded_plainly(fleet, bucket) + resets * burst + faults(fleet, burst) + local)
}

/// The versions of a bucket's limit that have been in force.
fn versions(fleet: &Fleet, bucket: &Bucket) -> Vec<Terms> {
    let is_used = |version: &usize| {
        let mut all = fleet.versions.iter().flatten();
        all.any(|(_, other)| other == version)
    };
    let versions = (0..2).filter(is_used);
    versions
        .map(|version| limit_of(fleet, bucket).versions[version])
        .collect()
}

fn refunded_plainly(fleet: &Fleet, bucket: &Bucket) -> u64 {
    let record = fleet.record();
    let refunds = record.refunds.get(bucket).into_iter().flatten();
    refunds.map(|(_, units)| u64::from(*units)).sum()
}

/// What faults of the store and of clocks add.
fn faults(fleet: &Fleet, burst: u64) -> u64 {
    let of = |incident: &Incident| match incident {
        Incident::Loss(_) | Incident::Clock => burst,
        // A bucket that is replaced has used no larger part of its limit than the clients of the flood.
        Incident::Flood(place) => {
            let versions = fleet.setup.limits[*place].versions.iter();
            let least = versions.map(|terms| terms.most()).min().unwrap_or(1);
            burst.div_ceil(least.into())
        }
        Incident::Kill(_) | Incident::Runtime(_) | Incident::Outage => 0,
    };
    let skew = match fleet.setup.ahead.iter().any(|ahead| *ahead != 0) {
        true => burst,
        false => 0,
    };
    let incidents = fleet.incidents.iter();
    incidents.map(|(_, incident)| of(incident)).sum::<u64>() + skew
}

/// What processes add that have decided without the store, or `None` if they admit everything. Without any fault, that is
/// nothing for simultaneous requests of one process. Later ones, and those of another process, can find a store that has not
/// been charged for local decisions yet.
fn local_additions(fleet: &Fleet, burst: u64, end: u64, within: &[Admission]) -> Option<u64> {
    let is_faultless = fleet.incidents.iter().all(|(at, _)| *at > end);
    let is_faultless = is_faultless && are_simultaneous(within);
    let (part, of) = fleet.setup.share;
    let share = (burst * u64::from(part)).div_ceil(u64::from(of)) + 1;
    let mut sum = 0;
    for process in 0..fleet.setup.processes {
        let is_local = |admission: &Admission| {
            admission.process == process && admission.source == Source::Local
        };
        if !within.iter().any(is_local) {
            continue;
        }
        if fleet.setup.on_failure == OnFailure::Allow {
            return None;
        }
        let is_alone = within.iter().all(|admission| admission.process == process);
        if is_faultless && is_alone {
            continue;
        }
        let kills = fleet.incidents.iter();
        let kills = kills.filter(|(_, incident)| *incident == Incident::Kill(process));
        sum += share * (1 + kills.count() as u64);
    }
    Some(sum)
}

/// Whether all calls began before any of them was decided.
fn are_simultaneous(admissions: &[Admission]) -> bool {
    let last = admissions.iter().map(|admission| admission.begun).max();
    let first = admissions.iter().map(|admission| admission.at).min();
    last <= first
}
