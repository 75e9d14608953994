//! What must hold, checked from outside.

use std::{collections::HashMap, sync::Arc};

use tollgate::{Decision, Limiter, Transaction, decision::Source, transaction::OnFailure};

use crate::{
    fleet::{Fleet, Incident},
    ledger::Bucket,
    limits::{self, Named, Terms},
    network::lock,
    plan::Stack,
    record::{Admission, Decided},
};

/// Checks a fleet after all faults have ended.
pub(crate) fn check(fleet: &mut Fleet) {
    fleet.record().close();
    bounds(fleet);
    charges(fleet);
    logs(fleet);
    stats(fleet);
    tasks(fleet);
    exact(fleet);
    leases(fleet);
}

/// The place of a bucket's limit.
fn place_of(bucket: &Bucket) -> usize {
    bucket.0 as usize - 1
}

fn problem(fleet: &Fleet, problem: String) {
    fleet.record().problem(problem);
}

/// In every span, no bucket was granted more than its limit and the published additions.
fn bounds(fleet: &Fleet) {
    let admissions: HashMap<Bucket, Vec<Admission>> = fleet.record().admissions.clone();
    for (bucket, mut admissions) in admissions {
        let refunds: Vec<_> = admissions
            .iter()
            .filter(|admission| admission.refunded > 0 && !admission.is_debit)
            .map(|admission| (admission.at, admission.refunded_at, admission.refunded))
            .collect();
        admissions.retain(|admission| !admission.is_debit && admission.units > admission.refunded);
        admissions.sort_by_key(|admission| admission.at);
        for first in 0..admissions.len() {
            let mut sum = 0;
            for last in first..admissions.len() {
                sum += u64::from(admissions[last].units - admissions[last].refunded);
                let span = (admissions[first].at, admissions[last].at);
                let most = most(fleet, &bucket, span, &admissions[first..=last]);
                // A rate gives back what time may have given back already.
                let is_within = |(at, back, _): &&(u64, u64, u32)| *back >= span.0 && *at <= span.1;
                let back = refunds.iter().filter(is_within);
                let back: u64 = back.map(|(_, _, units)| u64::from(*units)).sum();
                let is_rate = is_rate(fleet, &bucket);
                let most = most.map(|most| most + back * u64::from(is_rate));
                if most.is_some_and(|most| sum > most) {
                    let text =
                        format!("{bucket:?} was granted {sum} in {span:?}, at most {most:?}");
                    return problem(fleet, text);
                }
            }
        }
        own_bounds(fleet, &bucket, &admissions);
    }
}

fn is_rate(fleet: &Fleet, bucket: &Bucket) -> bool {
    let versions = fleet.setup.limits[place_of(bucket)].versions;
    let is_rate = |terms: &Terms| matches!(terms, Terms::Rate { .. });
    versions.iter().any(is_rate)
}

/// Returns the most units that a bucket is granted in a span, or `None` without a bound.
fn most(fleet: &Fleet, bucket: &Bucket, span: (u64, u64), within: &[Admission]) -> Option<u64> {
    let (from, until) = span;
    let named = &fleet.setup.limits[place_of(bucket)];
    // The instants of a batch over several servers are known less closely.
    let length = until - from
        + if fleet.setup.servers > 1 {
            100_000
        } else {
            2_000
        };
    let used = |version: usize| {
        let versions = fleet.versions.iter();
        versions.flatten().any(|(_, other)| *other == version)
    };
    let mut versions: Vec<Terms> = Vec::new();
    for version in (0..2).filter(|version| used(*version)) {
        versions.push(named.versions[version]);
    }
    let of = |terms: &Terms| terms.most_within(length);
    // Two algorithms have two buckets. Under two versions of one algorithm, a state of one is read by the other.
    let same = versions.iter().all(|terms| terms.is_like(versions[0]));
    let mut most: u64 = match same {
        true => {
            let changes = u64::from(versions.len() > 1 && versions[0] != versions[1]);
            let one = versions.iter().map(of).max()?;
            one * (1 + changes)
        }
        false => versions.iter().map(of).sum(),
    };
    let burst = versions.iter().map(of).max()?;
    let record = fleet.record();
    let refunds = record.refunds.get(bucket).into_iter().flatten();
    most += refunds.map(|(_, units)| u64::from(*units)).sum::<u64>();
    let account = lock(&fleet.network).ledger.get(bucket);
    most += account.resets * burst;
    for (_, incident) in &fleet.incidents {
        most += match incident {
            Incident::Loss(_) | Incident::Clock => burst,
            // A bucket that is replaced had used no more than the clients of the flood.
            Incident::Flood => 1,
            Incident::Kill(_) | Incident::Runtime(_) | Incident::Outage => 0,
        };
    }
    if fleet.setup.ahead.iter().any(|ahead| *ahead != 0) {
        most += burst;
    }
    let locals = |process: usize| {
        let own = |admission: &&Admission| admission.process == process;
        let mut own = within.iter().filter(own);
        own.any(|admission| admission.source == Source::Local)
    };
    let (part, of) = fleet.setup.share;
    for process in 0..fleet.setup.processes {
        let kills = fleet.incidents.iter();
        let kills = kills.filter(|(_, incident)| *incident == Incident::Kill(process));
        // Without any fault, the store decides, however many ask.
        let is_faultless = fleet.incidents.iter().all(|(at, _)| *at > until);
        if locals(process) && !is_faultless {
            if fleet.setup.on_failure == OnFailure::Allow {
                return None;
            }
            let share = (burst * u64::from(part)).div_ceil(u64::from(of)) + 1;
            most += share * (1 + kills.count() as u64);
        }
    }
    Some(most)
}

/// A process whose share is the whole limit grants no more than that locally, together with what it has seen at the store.
fn own_bounds(fleet: &Fleet, bucket: &Bucket, admissions: &[Admission]) {
    let named = &fleet.setup.limits[place_of(bucket)];
    let is_quiet = fleet
        .incidents
        .iter()
        .all(|(_, incident)| matches!(incident, Incident::Outage | Incident::Runtime(_)));
    let account = lock(&fleet.network).ledger.get(bucket);
    let has_refunds = fleet.record().refunds.contains_key(bucket);
    let has_skew = fleet.setup.ahead.iter().any(|ahead| *ahead != 0);
    let is_changed = named.versions[0] != named.versions[1];
    let terms = named.versions[0];
    let is_strict = matches!(
        terms,
        Terms::Window { .. } | Terms::Rate { max_wait: 0, .. }
    );
    let applies = fleet.setup.share == (1, 1)
        && fleet.setup.on_failure == OnFailure::Local
        && fleet.setup.stack.has_policy()
        && is_strict
        && named.lease.is_none();
    if !is_quiet || account.resets > 0 || has_refunds || is_changed || has_skew || !applies {
        return;
    }
    for process in 0..fleet.setup.processes {
        let own: Vec<_> = admissions
            .iter()
            .filter(|admission| admission.process == process)
            .collect();
        for last in (0..own.len()).filter(|last| own[*last].source == Source::Local) {
            let mut sum = 0;
            for first in (0..=last).rev() {
                sum += u64::from(own[first].units - own[first].refunded);
                if own[first].refunded > 0 && is_rate(fleet, bucket) {
                    break;
                }
                let length = own[last].at - own[first].at;
                // A decision of the store is seen when its answer arrives.
                let most = match terms {
                    Terms::Window { span, .. } if length + 100_000 >= span => break,
                    Terms::Window { limit, .. } => u64::from(limit),
                    terms => terms.most_within(length + 100_000),
                };
                if sum > most {
                    let span = (own[first].at, own[last].at);
                    let text = format!(
                        "process {process} granted {bucket:?} {sum} in {span:?}, the last one locally; at most {most}"
                    );
                    return problem(fleet, text);
                }
            }
        }
    }
}

/// Nothing is charged that nobody was granted, apart from unknown outcomes.
fn charges(fleet: &Fleet) {
    if fleet.setup.stack == Stack::Memory {
        return;
    }
    let (accounts, killed) = {
        let record = fleet.record();
        let mut buckets: Vec<Bucket> = record.admissions.keys().cloned().collect();
        buckets.extend(record.unknown.keys().cloned());
        buckets.sort();
        buckets.dedup();
        let network = lock(&fleet.network);
        let accounts = buckets.into_iter().map(|bucket| {
            let account = network.ledger.get(&bucket);
            (bucket, account)
        });
        let kills = fleet
            .incidents
            .iter()
            .filter(|(_, incident)| matches!(incident, Incident::Kill(_) | Incident::Runtime(_)));
        (accounts.collect::<Vec<_>>(), kills.count() as u64)
    };
    let has_losses = fleet
        .incidents
        .iter()
        .any(|(_, incident)| matches!(incident, Incident::Loss(_) | Incident::Clock));
    for (bucket, account) in accounts {
        let named = &fleet.setup.limits[place_of(&bucket)];
        // What was lost with its server can no longer be given back.
        if account.resets > 0 || has_losses {
            continue;
        }
        // Of a batch over several servers, tiers stay charged if another member is denied in a race.
        let has_tiers = named.versions.iter().any(|terms| terms.has_tiers());
        // Neither does a line give back in the middle.
        let has_line = named.versions.iter().any(|terms| terms.has_line());
        if (has_tiers || has_line) && fleet.setup.servers > 1 {
            continue;
        }
        let record = fleet.record();
        let admissions = record.admissions.get(&bucket).into_iter().flatten();
        let granted: u64 = admissions
            .map(|admission| u64::from(admission.units - admission.refunded))
            .sum();
        let refunds = record.refunds.get(&bucket).into_iter().flatten();
        let refunded: u64 = refunds.map(|(_, units)| u64::from(*units)).sum();
        let unknown = record.unknown.get(&bucket).copied().unwrap_or_default();
        drop(record);
        let held = match named.lease {
            // Each process can also lose what it holds when a period ends.
            Some(_) => {
                let hourly = named
                    .versions
                    .iter()
                    .any(|terms| matches!(terms, Terms::Hourly { .. }));
                (killed + u64::from(hourly) * fleet.setup.processes as u64)
                    * u64::from(named.versions[0].most().max(named.versions[1].most()))
                    / 5
            }
            None => 0,
        };
        let bad = fleet.record().bad.get(&bucket).copied().unwrap_or_default();
        let most = granted
            + account.lost
            + unknown
            + held
            + account.debits
            + bad_at_most(fleet, named, bad);
        if account.charged > most + account.refunded {
            let text = format!(
                "{bucket:?} is charged {}, {} of it refunded, and {granted} were granted; lost {}, unknown {unknown}, \
                 debits {}, refunded without receipt {refunded}",
                account.charged, account.refunded, account.lost, account.debits
            );
            return problem(fleet, text);
        }
    }
}

/// Requests without an id are charged what passes without waiting.
fn bad_at_most(fleet: &Fleet, named: &Named, bad: u64) -> u64 {
    let at_once = named
        .versions
        .iter()
        .map(|terms| terms.at_once().most_within(fleet.setup.end));
    bad.min(at_once.max().unwrap_or(0))
}

/// Each time for which a process decides without the store has a line at its beginning and one at its end.
fn logs(fleet: &Fleet) {
    if !fleet.setup.stack.has_policy() {
        return;
    }
    for process in &fleet.processes {
        let decided = fleet
            .record()
            .decided
            .get(&process.place)
            .cloned()
            .unwrap_or_default();
        let lines = process.lines.lock().expect("nobody panics").clone();
        let begins = |text: &str| text.contains("without it") || text.contains("without the store");
        let ends = |text: &str| text.contains("answers again") || text.contains("decides again");
        // Ten seconds are quiet after a line, and a simulation takes no longer.
        let mut begun: Option<u64> = None;
        let (mut count, mut last_at) = (0, 0);
        for (at, by) in decided {
            match by {
                Decided::By(Source::Local) | Decided::Nobody => {
                    // A period without the store is dense.
                    if at > last_at + 300_000 {
                        (begun, count) = (None, 0);
                    }
                    let since = *begun.get_or_insert(at);
                    (count, last_at) = (count + 1, at);
                    let is_said = lines.iter().any(|(_, text)| begins(text));
                    if count >= 6 && at - since > 1_000_000 && !is_said {
                        let text = format!(
                            "process {} decides without the store from {since} to {at}, and logs nothing",
                            process.place
                        );
                        return problem(fleet, text);
                    }
                }
                Decided::By(Source::Store) => (begun, count) = (None, 0),
                Decided::By(_) => {}
            }
        }
        let last = lines.iter().rfind(|(_, text)| begins(text) || ends(text));
        if let Some((at, text)) = last
            && begins(text)
        {
            let text = format!(
                "the last line of process {} is {text}, at {at}",
                process.place
            );
            return problem(fleet, text);
        }
    }
}

/// Gauges are true.
fn stats(fleet: &Fleet) {
    for process in &fleet.processes {
        let Some(limiter) = &process.limiter else {
            continue;
        };
        if limiter.stats().is_open == Some(true) {
            let text = format!("a breaker of process {} is open at the end", process.place);
            return problem(fleet, text);
        }
    }
}

/// No task is left.
fn tasks(fleet: &Fleet) {
    for process in &fleet.processes {
        let tasks = process.tasks();
        if tasks > 0 {
            let text = format!("{tasks} tasks of process {} are left", process.place);
            return problem(fleet, text);
        }
    }
}

/// Every process decides as the store does.
fn exact(fleet: &mut Fleet) {
    if fleet.setup.stack == Stack::Memory {
        return;
    }
    let mut buckets: Vec<Bucket> = fleet.record().admissions.keys().cloned().collect();
    buckets.sort();
    for bucket in buckets {
        let named = fleet.setup.limits[place_of(&bucket)].clone();
        if named.lease.is_some() {
            continue;
        }
        for process in 0..fleet.processes.len() {
            let Some(decided) = ask(fleet, process, &bucket) else {
                continue;
            };
            let direct = direct(fleet, process, &bucket, &decided);
            let figures = |decision: &Decision| {
                let after = decision.next_after();
                (decision.allowed(), decision.remaining(), after)
            };
            if figures(&decided) != figures(&direct) {
                let text = format!(
                    "process {process} about {bucket:?} at the end: {:?} from {:?}, and the store {:?}",
                    figures(&decided),
                    decided.source(),
                    figures(&direct)
                );
                return problem(fleet, text);
            }
        }
    }
}

/// Asks a process about a bucket.
fn ask(fleet: &mut Fleet, process: usize, bucket: &Bucket) -> Option<Decision> {
    let caller = fleet.caller(process)?;
    let (answer, bucket) = (Arc::new(std::sync::Mutex::new(None)), bucket.clone());
    let given = Arc::clone(&answer);
    fleet.processes[process].spawn(async move {
        let name = limits::name(place_of(&bucket));
        let checked = caller
            .limiter
            .check(&Transaction::new(&*name, &bucket.1))
            .await;
        *given.lock().expect("nobody panics") = Some(checked);
    });
    fleet.run_until(fleet.now + 60_000, 5_000);
    let answer = answer.lock().expect("nobody panics").take();
    match answer {
        Some(Ok(decision)) => Some(decision),
        other => {
            problem(
                fleet,
                format!("process {process} does not answer at the end: {other:?}"),
            );
            None
        }
    }
}

/// Asks the store itself, at the instant of another decision.
fn direct(fleet: &Fleet, process: usize, bucket: &Bucket, decided: &Decision) -> Decision {
    let version = fleet.processes[process].version;
    let memory = {
        let network = lock(&fleet.network);
        let server = network.server_of(&bucket.1);
        Arc::clone(&network.servers[server].memory)
    };
    let limits = limits::of_version(&fleet.setup.limits, version, fleet.setup.on_failure);
    let direct = Limiter::new(limits, memory);
    let direct = direct.with_clock(decided.decided_at().unwrap_or_default());
    let name = limits::name(place_of(bucket));
    let transaction = Transaction::new(&*name, &bucket.1);
    let checked = futures_util::FutureExt::now_or_never(direct.check(&transaction));
    checked
        .expect("memory never waits")
        .expect("the limit is known")
}

/// A limit that is used heavily is leased.
fn leases(fleet: &mut Fleet) {
    if !fleet.setup.stack.has_lease() {
        return;
    }
    for process in 0..fleet.processes.len() {
        for place in 0..fleet.setup.limits.len() {
            if fleet.setup.limits[place].lease.is_none() {
                continue;
            }
            let mut ids: Vec<Bucket> = fleet.record().admissions.keys().cloned().collect();
            ids.retain(|bucket| place_of(bucket) == place);
            ids.sort();
            for (_, id) in ids {
                lease(fleet, process, place, &id);
            }
        }
    }
}

fn lease(fleet: &mut Fleet, process: usize, place: usize, id: &str) {
    let was_closed = fleet.processes[process].is_closed;
    let Some(caller) = fleet.caller(process).filter(|_| !was_closed) else {
        return;
    };
    let sources = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (seen, id) = (Arc::clone(&sources), id.to_owned());
    fleet.processes[process].spawn(async move {
        let name = limits::name(place);
        for _ in 0..8 {
            let spent = caller.limiter.spend(&Transaction::new(&*name, &id)).await;
            let source = spent
                .ok()
                .filter(Decision::allowed)
                .map(|spent| spent.source());
            seen.lock().expect("nobody panics").push(source);
        }
    });
    fleet.run_until(fleet.now + 200_000, 5_000);
    let sources = sources.lock().expect("nobody panics").clone();
    if sources.len() == 8
        && sources.iter().all(Option::is_some)
        && !sources.contains(&Some(Source::Lease))
    {
        problem(
            fleet,
            format!("process {process} no longer leases limit {place}: {sources:?}"),
        );
    }
}
