//! Each time for which a process decides without the store has a line at its beginning and one at its end.

use tollgate::decision::Source;

use super::problem;
use crate::{fleet::Fleet, process::Process, record::Decided};

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
