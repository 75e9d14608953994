//! Each time for which a process decides without the store has a line at its beginning and one at its end.

use tollgate::decision::Source;

use super::problem;
use crate::{fleet::Fleet, network::lock, process::Process, record::Decided, server::Health};

/// So many decisions without the store, over so many microseconds and without a longer gap, are noticed.
const COUNT: u32 = 4;
const LONG: u64 = 1_000_000;
const GAP: u64 = 600_000;

pub(super) fn check(fleet: &Fleet) {
    if !fleet.setup.stack.has_policy() {
        return;
    }
    for process in &fleet.processes {
        let lines = process.lines.lock().expect("nobody panics").clone();
        let last = lines.iter().rfind(|(_, text)| begins(text) || ends(text));
        if let Some((at, text)) = last.filter(|(_, text)| begins(text)) {
            let place = process.place;
            return problem(
                fleet,
                format!("the last line of process {place} is {text}, at {at}"),
            );
        }
        // The log is quiet for ten seconds after an outage, and a simulation takes no longer.
        let is_said = lines.iter().any(|(_, text)| begins(text));
        if let Some(period) = silent_period(fleet, process).filter(|_| !is_said) {
            let place = process.place;
            let text = format!(
                "process {place} decides without the store in {period:?}, and logs nothing"
            );
            return problem(fleet, text);
        }
    }
}

/// A process that decides without the store says so, in its log and by its gauge.
pub(super) fn look(fleet: &mut Fleet, place: usize) {
    let Some(caller) = fleet
        .caller(place)
        .filter(|_| fleet.setup.stack.has_policy())
    else {
        return;
    };
    let Some(period) = lasting_period(fleet, place) else {
        return;
    };
    let stats = fleet.processes[place].block_on(async move { caller.limiter.stats() });
    let lines = fleet.processes[place]
        .lines
        .lock()
        .expect("nobody panics")
        .clone();
    let is_said = lines.iter().any(|(_, text)| begins(text));
    if stats.is_open != Some(true) || !is_said {
        let gauge = stats.is_open;
        let text = format!(
            "process {place} decides without the store in {period:?}; its gauge is {gauge:?}, and its log {lines:?}"
        );
        problem(fleet, text);
    }
}

fn begins(line: &str) -> bool {
    line.contains("without it") || line.contains("without the store")
}

fn ends(line: &str) -> bool {
    line.contains("answers again") || line.contains("decides again")
}

/// Returns a period for which a process has decided everything about the buckets of a server without it.
fn silent_period(fleet: &Fleet, process: &Process) -> Option<(u64, u64)> {
    let record = fleet.record();
    let own = record.decided.iter();
    let mut own = own.filter(|((place, _), _)| *place == process.place);
    own.find_map(|(_, decided)| silent(process, decided))
}

/// Returns such a period that has not ended, because the server is still a replica.
fn lasting_period(fleet: &Fleet, place: usize) -> Option<(u64, u64)> {
    let (record, started) = (fleet.record(), fleet.processes[place].started);
    let network = lock(&fleet.network);
    let is_away = |server: usize| network.servers[server].health == Health::Replica;
    let away = (0..fleet.setup.servers).filter(|server| is_away(*server));
    let mut periods = away.filter_map(|server| {
        let decided = record.decided.get(&(place, server))?.iter().rev();
        let decided =
            decided.take_while(|(at, by)| *at >= started && *by != Decided::By(Source::Store));
        let is_without = |by: &Decided| matches!(by, Decided::By(Source::Local) | Decided::Nobody);
        let decided = decided.filter(|(_, by)| is_without(by));
        let (last, first) = decided.fold((0, 0), |(last, _), (at, _)| (last.max(*at), *at));
        Some((first, last))
    });
    periods.find(|(first, last)| last - first > LONG)
}

/// Returns such a period of one server.
fn silent(process: &Process, decided: &[(u64, Decided)]) -> Option<(u64, u64)> {
    let (mut begun, mut count, mut last) = (None, 0, 0);
    for (at, by) in decided.iter().filter(|(at, _)| *at >= process.started) {
        match by {
            Decided::By(Source::Local) | Decided::Nobody => {
                if *at > last + GAP {
                    (begun, count) = (None, 0);
                }
                let since = *begun.get_or_insert(*at);
                (count, last) = (count + 1, *at);
                if count >= COUNT && at - since > LONG {
                    return Some((since, *at));
                }
            }
            Decided::By(Source::Store) => (begun, count) = (None, 0),
            Decided::By(_) => {}
        }
    }
    None
}
