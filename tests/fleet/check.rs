//! What must hold, checked from outside.

use std::collections::BTreeSet;

use tollgate::{Transaction, decision::Source};

use crate::{
    fleet::Fleet,
    plan::Bucket,
    process::name,
    record::{Charge, Denial, Record},
    terms::{Kind, Terms},
};

/// Checks a fleet after the last fault has ended.
pub(crate) async fn check(fleet: &mut Fleet) {
    for process in &mut fleet.processes {
        process.ended().await;
    }
    if fleet.setup().calm {
        fleet.rest(500).await;
        free_permits(fleet).await;
    }
    recovery(fleet).await;
    // Permits come back as soon as the store answers, unless nobody knows of them any more.
    if !fleet.plan.leaves_permits_behind() {
        free_permits(fleet).await;
    }
    logs(fleet);
    fleet.rest(21_000).await;
    free_permits(fleet).await;
    returned_units(fleet).await;
    let mut problems = Vec::new();
    let record = fleet.record();
    for (bucket, charges) in &record.charges {
        problems.extend(bounds(fleet, &record, bucket, charges));
    }
    if fleet.setup().calm {
        let mut denials = record.denials.iter();
        let wrong = denials.find(|denial| is_wrong(fleet, &record, denial));
        problems.extend(wrong.map(|denial| format!("it is wrong: {denial:?}")));
        problems.extend(unreturned(fleet, &record));
    }
    drop(record);
    fleet.record().problems.extend(problems);
}

/// In any interval, a bucket is granted at most its limit by the store, and at most its share of it by each process. Together,
/// that is twice the limit, rounded up for each process.
fn bounds(fleet: &Fleet, record: &Record, bucket: &Bucket, charges: &[Charge]) -> Option<String> {
    let processes = (0..fleet.setup().processes).map(Some);
    [None].into_iter().chain(processes).find_map(|process| {
        let decided = charges.iter().filter(|charge| match process {
            Some(process) => charge.source == Source::Local && charge.process == process,
            None => charge.source != Source::Local,
        });
        let charges: Vec<_> = decided.collect();
        let most = |interval| {
            let most = granted_at_most(fleet, record, (bucket, process), interval);
            let terms = fleet.setup().limits[bucket.0].terms;
            let back = refunds(terms, record, (bucket, &charges), interval);
            let tried = process.map_or_else(|| trials(terms, record, bucket, interval), |_| 0);
            most + back + tried
        };
        exceeded(&charges, most).map(|excess| match process {
            Some(process) => format!("{bucket:?} is granted by process {process}: {excess}"),
            None => format!("{bucket:?} is granted by the store: {excess}"),
        })
    })
}

/// Looks for an interval in which too much was granted.
fn exceeded(charges: &[&Charge], most: impl Fn((u64, u64)) -> u64) -> Option<String> {
    let counts = |charge: &&&Charge| !charge.is_debit && charge.refunded.is_none();
    let mut counted: Vec<_> = charges.iter().filter(counts).collect();
    counted.sort_by_key(|charge| charge.ended);
    let begins: BTreeSet<_> = counted.iter().map(|charge| charge.begun).collect();
    for from in begins {
        let mut sum = 0;
        for charge in counted.iter().filter(|charge| charge.begun >= from) {
            sum += u64::from(charge.units);
            let most = most((from, charge.ended));
            if sum > most {
                let until = charge.ended;
                return Some(format!("{sum} from {from} to {until}, at most {most}"));
            }
        }
    }
    None
}

fn is_within((from, until): (u64, u64)) -> impl Fn(u64) -> bool {
    move |at| (from..=until).contains(&at)
}

/// The most that the store grants, or a process without it. What makes a bucket empty adds the units granted before.
fn granted_at_most(
    fleet: &Fleet,
    record: &Record,
    (bucket, process): (&Bucket, Option<usize>),
    interval: (u64, u64),
) -> u64 {
    let setup = fleet.setup();
    let mut terms = setup.limits[bucket.0].terms;
    let mut clock = &fleet.network.clock;
    if process.is_some() {
        terms = terms.share(setup.processes);
        clock = &fleet.clock;
    }
    let fresh_starts = |interval| match process {
        None => losses(record, bucket, interval),
        Some(process) => {
            let of_process = record.restarts.iter().filter(|(_, of)| *of == process);
            of_process
                .filter(|(at, _)| is_within(interval)(*at))
                .count() as u64
        }
    };
    let first = record.first[bucket];
    let span = clock.span(first, interval, fresh_starts((first, interval.1)));
    terms.within(&span) + fresh_starts(interval) * terms.at_an_instant()
}

/// How often a bucket of the store can have become empty between two instants, because the store has lost it or it was reset.
fn losses(record: &Record, bucket: &Bucket, (from, until): (u64, u64)) -> u64 {
    let losses = record.data_losses.iter();
    let losses = losses.filter(|at| is_within((from, until))(**at));
    let resets = record
        .resets
        .iter()
        .filter(|(other, (begun, ended))| other == bucket && *begun <= until && *ended >= from);
    (losses.count() + resets.count()) as u64
}

/// What came back in an interval although it was charged before. That lets others pass if it is of a rate, because time gives
/// tokens back as well, or if the store has lost the charge in between, or the bucket was reset.
fn refunds(
    terms: Terms,
    record: &Record,
    (bucket, charges): (&Bucket, &[&Charge]),
    (from, _): (u64, u64),
) -> u64 {
    let was_lost = |charge: &Charge, until| losses(record, bucket, (charge.begun, until)) > 0;
    let is_stale = |charge: &&Charge| charge.refunded.is_some_and(|at| was_lost(charge, at));
    // A refund of a charge that the store has lost gives back units of another one. The refund of that gives back those of a third.
    let gives_back_others = charges.iter().any(is_stale);
    let came_back = |charge: &&&Charge| {
        let was_before = terms.is_rate() && charge.begun < from;
        let came_back = charge.refunded.is_some_and(|at| at >= from);
        came_back && (was_before || gives_back_others)
    };
    let back = charges.iter().filter(came_back);
    back.map(|charge| u64::from(charge.units)).sum()
}

/// The units that batches over several slots may have given back in an interval, after an earlier charge. Like refunds, they let
/// other requests pass.
fn trials(terms: Terms, record: &Record, bucket: &Bucket, (from, _): (u64, u64)) -> u64 {
    let trials = record.trials.iter().filter(|trial| trial.bucket == *bucket);
    let back = trials.filter(|trial| {
        let was_before = terms.is_rate() && trial.begun < from;
        let may_come_back = trial.until >= from;
        let was_lost = losses(record, bucket, (trial.begun, trial.until)) > 0;
        may_come_back && (was_before || was_lost)
    });
    back.map(|trial| u64::from(trial.units)).sum()
}

/// Whether a client was denied although it had not used that much, while nothing failed.
fn is_wrong(fleet: &Fleet, record: &Record, denial: &Denial) -> bool {
    let named = fleet.setup().limits[denial.bucket.0];
    let charges = record.charges.get(&denial.bucket).into_iter().flatten();
    let charges = charges.map(|charge| (charge.begun, charge.ended, charge.units));
    // The temporary charge of another batch counts until it is refunded, or for good if that fails.
    let trials = record.trials.iter().filter(|trial| {
        let is_other = trial.bucket == denial.bucket && trial.call != denial.call;
        is_other && (named.terms.has_tiers() || trial.until >= denial.begun)
    });
    let trials = trials.map(|trial| (trial.begun, denial.ended, trial.units));
    let charges: Vec<_> = charges.chain(trials).collect();
    // What could have been charged between an instant and the denial.
    let since = |from: u64| {
        let charges = charges.iter();
        let charges = charges.filter(|(begun, ended, _)| *ended >= from && *begun <= denial.ended);
        charges.map(|(.., units)| u64::from(*units)).sum::<u64>()
    };
    let (cost, all) = (u64::from(denial.cost), since(0));
    let most = u64::from(named.terms.most);
    match named.terms.kind {
        // A part of the burst is elsewhere.
        Kind::Rate { .. } if named.leased => false,
        Kind::Rate { count, period } => !charges.iter().any(|(begun, ended, _)| {
            let back = denial.begun.saturating_sub(*ended) * u64::from(count);
            most * period + back < (since(*begun) + cost) * period
        }),
        Kind::Window { span } => since(denial.begun.saturating_sub(span)) + cost <= most,
        _ => all + cost <= most,
    }
}

/// While nothing fails, a bucket is charged what was granted, and batches that were denied have given everything back.
fn unreturned(fleet: &Fleet, record: &Record) -> Option<String> {
    record.charges.iter().find_map(|(bucket, charges)| {
        let named = fleet.setup().limits[bucket.0];
        if named.leased || named.terms.has_tiers() {
            return None;
        }
        let kept = charges.iter().filter(|charge| charge.refunded.is_none());
        let granted: i64 = kept.map(|charge| i64::from(charge.units)).sum();
        let charged = fleet.network.charged(bucket.0 + 1, &bucket.1);
        let problem = format!("{bucket:?} is charged {charged} units, and {granted} were granted");
        (charged != granted).then_some(problem)
    })
}

/// Two seconds after the store has returned, it decides again, and everybody sees that.
async fn recovery(fleet: &Fleet) {
    for round in 0..25 {
        fleet.rest(200).await;
        for process in &fleet.processes {
            let id = format!("{}-{round}", process.caller.process);
            let by = process.beat(&id).await;
            let is_open = process.caller.limiter.stats().is_open == Some(true);
            if round >= 10 && (by != Some(Source::Store) || is_open) {
                let problem = format!("{id} is decided by {by:?} at the end, open: {is_open}");
                fleet.record().problem(problem);
            }
        }
    }
}

/// A process logs once that it begins to decide without the store, and once that it ends.
fn logs(fleet: &Fleet) {
    let count = |text| fleet.log.count(text);
    let (begins, ends) = (count("deciding without it"), count("answers again"));
    let restarts = fleet.record().restarts.len();
    // Those that were killed could not log the end.
    if ends > begins || ends + restarts < begins {
        let problem = format!("{begins} outages are logged, and {ends} ends");
        fleet.record().problem(problem);
    }
}

/// All permits are free, once all work has ended and the hold is over.
async fn free_permits(fleet: &Fleet) {
    // A permit counts for longer if the clock has been set back.
    if fleet.network.clock.was_set(0, u64::MAX) {
        return;
    }
    for (place, named) in fleet.setup().limits.iter().enumerate() {
        if !named.terms.is_at_once() {
            continue;
        }
        for id in ["busy", "rare"] {
            let name = name(place);
            let bucket = Transaction::new(name.as_str(), id);
            let seen = fleet.processes[0].caller.limiter.peek(&bucket).await;
            let left = seen.ok().and_then(|seen| seen.remaining());
            if left != Some(named.terms.most) {
                let problem = format!("{left:?} permits of {name}, {id} are free at the end");
                fleet.record().problem(problem);
            }
        }
    }
}

/// What processes have charged ahead is back once they have closed.
async fn returned_units(fleet: &Fleet) {
    let setup = fleet.setup();
    for process in &fleet.processes {
        let closed = process.caller.limiter.close().await;
        if let Err(error) = closed {
            fleet
                .record()
                .problem(format!("a process cannot be closed: {error:?}"));
        }
    }
    if !setup.calm {
        return;
    }
    let processes = u32::try_from(setup.processes).unwrap();
    let charges = fleet.record().charges.clone();
    for (bucket, charges) in charges {
        let named = setup.limits[bucket.0];
        if !named.leased {
            continue;
        }
        let burst = named.terms.most;
        let part = (burst / 5).min((burst - 1) / (2 * processes));
        let used: u32 = charges.iter().map(|charge| charge.units).sum();
        let name = name(bucket.0);
        let seen = Transaction::new(name.as_str(), &bucket.1);
        let seen = fleet.processes[0].caller.limiter.peek(&seen).await;
        let left = seen.unwrap().remaining().unwrap();
        if left + used < burst - part * processes {
            let problem = format!("{bucket:?} has {left} left, and {used} were used");
            fleet.record().problem(problem);
        }
    }
}
