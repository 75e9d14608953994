//! What must hold, checked from outside.

mod accounts;
mod bounds;
mod end;
mod local;
mod log;
mod permits;

use crate::{fleet::Fleet, ledger::Bucket, limits::Named};

/// Checks a fleet after all faults have ended.
pub(crate) fn check(fleet: &mut Fleet) {
    fleet.record().close();
    bounds::check(fleet);
    accounts::check(fleet);
    log::check(fleet);
    permits::check(fleet);
    end::check(fleet);
}

/// Checks what a process shows while something happens.
pub(crate) fn look(fleet: &mut Fleet, process: usize) {
    log::look(fleet, process);
    accounts::look(fleet);
}

/// Returns the limit of a bucket.
fn limit_of<'a>(fleet: &'a Fleet, bucket: &Bucket) -> &'a Named {
    &fleet.setup.limits[bucket.0 as usize - 1]
}

fn problem(fleet: &Fleet, problem: String) {
    fleet.record().problem(problem);
}
