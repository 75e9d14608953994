//! Some seconds after the last fault, everything is as if there had been none.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tollgate::{Decision, Limiter, Transaction, decision::Source};

use super::{limit_of, problem};
use crate::{
    fleet::Fleet,
    ledger::Bucket,
    limits::{self, place_of},
    network::lock,
    plan::Stack,
};

/// How long the fleet waits for an answer, and for a row of answers.
const ANSWER: u64 = 60_000;
const ANSWERS: u64 = 200_000;

/// How many spends a lease is asked for.
const SPENDS: usize = 8;

pub(super) fn check(fleet: &mut Fleet) {
    gauges(fleet);
    tasks(fleet);
    let mut buckets: Vec<Bucket> = fleet.record().admissions.keys().cloned().collect();
    buckets.sort();
    for bucket in buckets {
        for process in 0..fleet.processes.len() {
            match limit_of(fleet, &bucket).lease {
                None => decisions(fleet, process, &bucket),
                Some(_) => leases(fleet, process, &bucket),
            }
        }
    }
}

/// No process says that it decides without the store.
fn gauges(fleet: &mut Fleet) {
    for place in 0..fleet.processes.len() {
        let Some(caller) = fleet.caller(place) else {
            continue;
        };
        let stats = fleet.processes[place].block_on(async move { caller.limiter.stats() });
        if stats.is_open == Some(true) {
            let text =
                format!("process {place} decides without the store at the end, says its gauge");
            problem(fleet, text);
        }
    }
}

/// Nothing is under way.
fn tasks(fleet: &Fleet) {
    for process in &fleet.processes {
        if process.tasks() > 0 {
            let (tasks, place) = (process.tasks(), process.place);
            problem(fleet, format!("{tasks} tasks of process {place} are left"));
        }
    }
}

/// A process decides as the store does.
fn decisions(fleet: &mut Fleet, process: usize, bucket: &Bucket) {
    if fleet.setup.stack == Stack::Memory {
        return;
    }
    let Some(decided) = ask(fleet, process, bucket) else {
        return;
    };
    let direct = ask_store(fleet, process, bucket, &decided);
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
        problem(fleet, text);
    }
}

/// Asks a process about a bucket.
pub(super) fn ask(fleet: &mut Fleet, process: usize, bucket: &Bucket) -> Option<Decision> {
    let caller = fleet.caller(process)?;
    let (answer, asked) = (Arc::new(Mutex::new(None)), bucket.clone());
    let given = Arc::clone(&answer);
    fleet.processes[process].spawn(async move {
        let name = limits::name(place_of(&asked));
        let transaction = Transaction::new(&*name, &asked.1);
        let checked = caller.limiter.check(&transaction).await;
        *given.lock().expect("nobody panics") = Some(checked);
    });
    fleet.rest(ANSWER);
    let answer = answer.lock().expect("nobody panics").take();
    match answer {
        Some(Ok(decision)) => Some(decision),
        other => {
            let text = format!("process {process} about {bucket:?} at the end: {other:?}");
            problem(fleet, text);
            None
        }
    }
}

/// Asks the store itself, at the instant of another decision.
pub(super) fn ask_store(
    fleet: &Fleet,
    process: usize,
    bucket: &Bucket,
    decided: &Decision,
) -> Decision {
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
    let checked = direct.check(&transaction).now_or_never();
    checked
        .expect("memory never waits")
        .expect("the limit is known")
}

/// A bucket that is used heavily is leased.
fn leases(fleet: &mut Fleet, process: usize, bucket: &Bucket) {
    let was_closed = fleet.processes[process].is_closed;
    let Some(caller) = fleet.caller(process).filter(|_| !was_closed) else {
        return;
    };
    let sources = Arc::new(Mutex::new(Vec::new()));
    let (seen, asked) = (Arc::clone(&sources), bucket.clone());
    fleet.processes[process].spawn(async move {
        let name = limits::name(place_of(&asked));
        for _ in 0..SPENDS {
            let transaction = Transaction::new(&*name, &asked.1);
            let spent = caller.limiter.spend(&transaction).await;
            let source = spent.ok().filter(Decision::allowed);
            let source = source.map(|decision| decision.source());
            seen.lock().expect("nobody panics").push(source);
        }
    });
    fleet.rest(ANSWERS);
    let sources = sources.lock().expect("nobody panics").clone();
    let is_leased = sources.contains(&Some(Source::Lease));
    let all_pass = sources.len() == SPENDS && sources.iter().all(Option::is_some);
    if all_pass && !is_leased {
        let text = format!("process {process} no longer leases {bucket:?}: {sources:?}");
        problem(fleet, text);
    }
}
