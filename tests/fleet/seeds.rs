//! Runs seeds, and shortens those that fail.

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use crate::{fleet, plan::Plan};

/// Seeds of a run, if nobody says otherwise.
const SEEDS: u64 = 260;

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("set {variable} to a number, not {text:?}")))
}

/// Runs the seeds that the environment names.
pub(crate) fn run() {
    let (first, count) = match number("FLEET_SEED") {
        Some(seed) => (seed, 1),
        None => (
            number("FLEET_FIRST").unwrap_or(0),
            number("FLEET_SEEDS").unwrap_or(SEEDS),
        ),
    };
    let goes_on = env::var("FLEET_ALL").is_ok();
    let (next, failed) = (AtomicU64::new(first), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= first + count || (failed.load(Relaxed) > 0 && !goes_on) {
                return;
            }
            let plan = Plan::of(seed);
            let problems = problems(&plan);
            if let Some(problem) = problems.first() {
                failed.fetch_add(1, Relaxed);
                match goes_on {
                    true => println!("{seed}: {:?}: {problem}", plan.setup.stack),
                    false => report(&plan, problem),
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner();
    assert_eq!(failed, 0, "of {count} seeds");
}

/// Runs a plan. A panic is a problem as well.
fn problems(plan: &Plan) -> Vec<String> {
    match catch_unwind(AssertUnwindSafe(|| fleet::run(plan))) {
        Ok(problems) => problems,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            vec![format!("a panic: {}", text.unwrap_or_default())]
        }
    }
}

/// Prints a plan, without the events that are not needed for its problem.
fn report(plan: &Plan, problem: &str) {
    let shortened = shortened(plan.clone());
    let problem = problems(&shortened)
        .first()
        .cloned()
        .unwrap_or_else(|| problem.to_owned());
    let mut text = format!("seed {}: {problem}\n{:?}\n", plan.seed, shortened.setup);
    for (at, event) in &shortened.events {
        text += &format!("{at:>9} us: {event:?}\n");
    }
    println!(
        "{text}FLEET_SEED={} cargo test --all-features --test fleet",
        plan.seed
    );
}

/// The most plans that are tried in order to shorten one.
const TRIES: usize = 1000;

fn shortened(mut plan: Plan) -> Plan {
    let mut tries = 0;
    let mut part = plan.events.len().div_ceil(2);
    while part > 0 && tries < TRIES {
        let mut begin = 0;
        let mut found = false;
        while begin < plan.events.len() && tries < TRIES {
            let end = (begin + part).min(plan.events.len());
            let mut fewer = plan.clone();
            fewer.events.drain(begin..end);
            tries += 1;
            match problems(&fewer).is_empty() {
                true => begin = end,
                false => (plan, found) = (fewer, true),
            }
        }
        if !found || part > plan.events.len() {
            part /= 2;
        }
    }
    plan
}
