//! Nothing is charged that nobody was granted, apart from unknown outcomes.

use std::collections::BTreeMap;

use tollgate::decision::Source;

use super::{limit_of, problem};
use crate::{
    fleet::{Fleet, Incident},
    ledger::{Account, Bucket},
    limits::Terms,
    network::lock,
    plan::Stack,
    record::{Admission, BadRequest, Owed},
    server::Health,
};

/// How closely the instants of decisions are known, in microseconds.
const CLOSE: u64 = 2_000;

pub(super) fn check(fleet: &Fleet) {
    let has_losses = fleet
        .incidents
        .iter()
        .any(|(_, incident)| matches!(incident, Incident::Loss(_) | Incident::Clock));
    // What was lost with its server can no longer be given back.
    if fleet.setup.stack == Stack::Memory || has_losses {
        return;
    }
    for bucket in buckets(fleet) {
        let account = lock(&fleet.network).ledger.get(&bucket);
        if account.resets == 0 && is_given_back(fleet, &bucket) {
            check_account(fleet, &bucket, account);
            check_debits(fleet, &bucket, account);
        }
    }
}

/// How long an idle lease may hold its units, if the server of its bucket answers.
const IDLE: u64 = 3_000_000;

/// Units of idle leases are returned to the servers that answer, whatever the others do.
pub(super) fn look(fleet: &Fleet) {
    let is_quiet = |(_, incident): &(u64, Incident)| *incident == Incident::Outage;
    if !fleet.setup.stack.has_lease() || !fleet.incidents.iter().all(is_quiet) {
        return;
    }
    let admitted: BTreeMap<_, _> = fleet.record().admissions.clone().into_iter().collect();
    for (bucket, admissions) in admitted {
        let last = admissions.iter().map(|admission| admission.at).max();
        let is_idle = last.is_some_and(|last| last + IDLE < fleet.now);
        let (account, health) = {
            let network = lock(&fleet.network);
            let server = network.server_of(&bucket.1);
            (network.ledger.get(&bucket), network.servers[server].health)
        };
        let granted: u64 = admissions
            .iter()
            .map(|admission| u64::from(admission.kept()))
            .sum();
        let left = account.charged.saturating_sub(account.refunded);
        if is_idle && health == Health::Up && left > granted + account.lost {
            let text = format!(
                "{bucket:?} is idle since {last:?}, granted {granted}, and still charged {left}"
            );
            problem(fleet, text);
        }
    }
}

fn buckets(fleet: &Fleet) -> Vec<Bucket> {
    let record = fleet.record();
    let buckets = record.admissions.keys().chain(record.unknown.keys());
    let buckets = buckets.chain(record.bad.keys());
    let mut buckets: Vec<_> = buckets.cloned().collect();
    buckets.sort();
    buckets.dedup();
    buckets
}

/// Whether a batch that is denied by one of several servers gives back what another one has charged. Tiers stay charged, and
/// a line takes nothing back while others wait in it.
fn is_given_back(fleet: &Fleet, bucket: &Bucket) -> bool {
    let mut versions = limit_of(fleet, bucket).versions.into_iter();
    // A process whose clock is ahead wastes leased units at the end of a period.
    let has_periods = versions.any(|terms| matches!(terms, Terms::Hourly { .. }));
    let is_skewed = fleet.setup.ahead.iter().any(|ahead| *ahead != 0);
    if has_periods && is_skewed && limit_of(fleet, bucket).lease.is_some() {
        return false;
    }
    let mut versions = limit_of(fleet, bucket).versions.into_iter();
    fleet.setup.servers == 1 || !versions.any(|terms| terms.has_tiers() || terms.has_line())
}

fn check_account(fleet: &Fleet, bucket: &Bucket, account: Account) {
    let (granted, unknown, bad) = {
        let record = fleet.record();
        let admissions = record.admissions.get(bucket).into_iter().flatten();
        // What may have been charged before it was decided locally is not charged again.
        let is_charged = |admission: &&Admission| {
            admission.owed != Owed::Never || admission.source != Source::Local
        };
        let admissions = admissions.filter(is_charged);
        let granted = admissions.map(|admission| u64::from(admission.units - admission.refunded));
        let count = |units: Option<&u64>| units.copied().unwrap_or(0);
        let unknown = count(record.unknown.get(bucket));
        let bad = record.bad.get(bucket).cloned().unwrap_or_default();
        (granted.sum::<u64>(), unknown, bad)
    };
    // A debit for local decisions is rounded up to a token.
    let most = granted + unknown + account.lost + account.paid.1 + account.refunded;
    let most = most + held(fleet, bucket) + bad_at_most(fleet, bucket, &bad);
    // A debt by GCRA is a time, which is other tokens under another version of the limit.
    let [first, second] = limit_of(fleet, bucket).versions;
    let most = if first == second {
        most
    } else {
        most + account.paid.0
    };
    if account.charged > most {
        let text = format!(
            "{bucket:?} is charged {} and refunded {}, of which {granted} were granted; lost {}, unknown {unknown}, debits {}",
            account.charged, account.refunded, account.lost, account.debits
        );
        problem(fleet, text);
    }
}

/// What the store is owed is charged to it once.
fn check_debits(fleet: &Fleet, bucket: &Bucket, account: Account) {
    let [first, second] = limit_of(fleet, bucket).versions;
    // Another version of a limit can have other tokens.
    if first != second {
        return;
    }
    let owed = {
        let record = fleet.record();
        let admissions = record.admissions.get(bucket).into_iter().flatten();
        let owed = admissions.filter(|admission| match admission.owed {
            Owed::Certainly => admission.source == Source::Local,
            Owed::Perhaps => true,
            Owed::Never => false,
        });
        let owed: u64 = owed.map(|admission| u64::from(admission.units)).sum();
        let others = [&record.unknown, &record.settled];
        let others = others.iter().filter_map(|units| units.get(bucket));
        let bad = record.bad.get(bucket).into_iter().flatten();
        let bad = bad.map(|request| u64::from(request.units));
        owed + others.sum::<u64>() + bad.sum::<u64>()
    };
    let (paid, debits) = account.paid;
    if paid > owed + debits {
        let text = format!(
            "{bucket:?} is charged {paid} in {debits} debits for local decisions on {owed}"
        );
        problem(fleet, text);
    }
}

/// The units that processes were killed with, or that they held when a period ended.
fn held(fleet: &Fleet, bucket: &Bucket) -> u64 {
    let named = limit_of(fleet, bucket);
    let Some((part, of)) = named.lease else {
        return 0;
    };
    let ends = fleet
        .incidents
        .iter()
        .filter(|(_, incident)| matches!(incident, Incident::Kill(_) | Incident::Runtime(_)));
    let has_periods = named
        .versions
        .iter()
        .any(|terms| matches!(terms, Terms::Hourly { .. }));
    let periods = fleet.setup.processes * usize::from(has_periods);
    let most = named.versions.iter().map(|terms| terms.most()).max();
    let most = u64::from(most.unwrap_or(0)) * u64::from(part) / u64::from(of);
    (ends.count() + periods) as u64 * most
}

/// Requests without an id are charged what passes without waiting, in each time in which there are such requests.
fn bad_at_most(fleet: &Fleet, bucket: &Bucket, bad: &[BadRequest]) -> u64 {
    let mut bad = bad.to_vec();
    bad.sort_by_key(|request| request.begun);
    let mut together: Vec<BadRequest> = Vec::new();
    for request in bad {
        match together
            .last_mut()
            .filter(|last| request.begun <= last.ended)
        {
            Some(last) => {
                last.ended = last.ended.max(request.ended);
                last.units += request.units;
            }
            None => together.push(request),
        }
    }
    let named = limit_of(fleet, bucket);
    let most = |request: &BadRequest| {
        let length = request.ended - request.begun + CLOSE;
        let [first, second] = named
            .versions
            .map(|terms| terms.at_once().most_within(length));
        let most = match named.versions[0] == named.versions[1] {
            true => first,
            false => first + second,
        };
        // The store and each process that decides without it may admit as much.
        let mut incidents = fleet.incidents.iter();
        let is_quiet = incidents.all(|(at, _)| *at > request.ended);
        let judges = match is_quiet {
            true => 1,
            false => 1 + fleet.setup.processes as u64,
        };
        u64::from(request.units).min(most * judges)
    };
    let units = together.iter().map(|request| u64::from(request.units));
    units.sum::<u64>().min(together.iter().map(most).sum())
}
