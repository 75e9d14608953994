//! A process whose share is the whole limit grants no more than that locally, together with what it has seen at the store.

use tollgate::{decision::Source, transaction::OnFailure};

use super::{limit_of, problem};
use crate::{
    fleet::{Fleet, Incident},
    ledger::Bucket,
    limits::Terms,
    network::lock,
    record::{Admission, Owed},
};

/// A decision of the store is seen when its answer arrives, up to so many microseconds later.
const LATE: u64 = 100_000;

pub(super) fn check(fleet: &Fleet, bucket: &Bucket, admissions: &[Admission]) {
    if !applies(fleet, bucket) {
        return;
    }
    for process in 0..fleet.setup.processes {
        let own = admissions.iter();
        let own: Vec<_> = own
            .filter(|admission| admission.process == process)
            .collect();
        for last in (0..own.len()).filter(|last| own[*last].source == Source::Local) {
            if let Some(text) = exceeded(fleet, bucket, &own[..=last]) {
                return problem(fleet, format!("process {process}: {text}"));
            }
        }
    }
}

/// Whether nothing else is published that adds to the limit.
fn applies(fleet: &Fleet, bucket: &Bucket) -> bool {
    let (setup, named) = (&fleet.setup, limit_of(fleet, bucket));
    let is_quiet = fleet
        .incidents
        .iter()
        .all(|(_, incident)| matches!(incident, Incident::Outage | Incident::Runtime(_)));
    let is_strict = matches!(
        named.versions[0],
        Terms::Window { .. } | Terms::Rate { max_wait: 0, .. }
    );
    is_quiet
        && is_strict
        && setup.share == (1, 1)
        && setup.on_failure == OnFailure::Local
        && setup.stack.has_policy()
        && setup.ahead.iter().all(|ahead| *ahead == 0)
        && named.lease.is_none()
        && named.versions[0] == named.versions[1]
        && lock(&fleet.network).ledger.get(bucket).resets == 0
        && !fleet.record().refunds.contains_key(bucket)
}

/// Looks for a span that ends with the last admission and has too many.
fn exceeded(fleet: &Fleet, bucket: &Bucket, admissions: &[&Admission]) -> Option<String> {
    let named = limit_of(fleet, bucket);
    let (last, mut sum) = (admissions.last()?.at, 0);
    // What may have been charged counts as charged. If it was not, that much of what the store charges later is not noticed.
    let mut unnoticed = lock(&fleet.network).ledger.get(bucket).unsure_debits;
    for admission in admissions.iter().rev() {
        // A rate gives back what time may have given back already.
        if admission.kept() < admission.units && named.has_rate() {
            return None;
        }
        sum += u64::from(admission.kept());
        if admission.source == Source::Local && admission.owed != Owed::Certainly {
            unnoticed += u64::from(admission.kept());
        }
        let length = last - admission.at;
        let most = match named.versions[0] {
            Terms::Window { span, .. } if length + LATE >= span => return None,
            Terms::Window { limit, .. } => u64::from(limit),
            terms => terms.most_within(length + LATE),
        };
        if sum > most + unnoticed {
            let (span, most) = ((admission.at, last), most + unnoticed);
            return Some(format!(
                "{bucket:?} is granted {sum} in {span:?}, the last one locally; at most {most}"
            ));
        }
    }
    None
}
