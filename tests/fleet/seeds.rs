//! Runs seeds, and shortens those that fail.

use std::{
    env,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use crate::{fleet, plan::Plan};

/// The default number of seeds in a run.
const SEEDS: u64 = 100;

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("set {variable} to a number, not {text:?}")))
}

/// Runs the seeds that the environment names, until one fails.
pub(crate) fn run() {
    let (first, count) = match number("FLEET_SEED") {
        Some(seed) => (seed, 1),
        None => (
            number("FLEET_FIRST").unwrap_or(0),
            number("FLEET_SEEDS").unwrap_or(SEEDS),
        ),
    };
    let (next, failed) = (AtomicU64::new(first), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= first + count || failed.load(Relaxed) > 0 {
                return;
            }
            let plan = Plan::of(seed);
            if env::var_os("FLEET_TRACE").is_some() {
                println!("{}", fleet::run(&plan).1.join("\n"));
            }
            if let Some(problem) = problems(&plan).first() {
                failed.fetch_add(1, Relaxed);
                report(&plan, problem);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    assert_eq!(failed.into_inner(), 0, "of {count} seeds");
}

/// Runs some seeds twice, and compares all decisions of the store.
pub(crate) fn repeat() {
    for plan in (0..12).map(Plan::of) {
        // Sorted, because simultaneous events have no order.
        let trace = || {
            let mut trace = fleet::run(&plan).1;
            trace.sort();
            trace
        };
        let (first, second) = (trace(), trace());
        assert!(!first.is_empty(), "seed {}", plan.seed);
        let mut both = first.iter().zip(&second);
        let different = both.find(|(first, second)| first != second);
        assert_eq!(different, None, "seed {}", plan.seed);
        assert_eq!(first.len(), second.len(), "seed {}", plan.seed);
    }
}

/// Runs a plan, and returns its problems. A panic is one, too.
fn problems(plan: &Plan) -> Vec<String> {
    match catch_unwind(AssertUnwindSafe(|| fleet::run(plan).0)) {
        Ok(problems) => problems,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref().copied());
            vec![format!("a panic: {}", text.unwrap_or_default())]
        }
    }
}

/// Prints a plan without the events that its problem does not need.
fn report(plan: &Plan, problem: &str) {
    let shortened = shortened(plan.clone());
    let problem = problems(&shortened)
        .first()
        .cloned()
        .unwrap_or_else(|| problem.to_owned());
    println!("seed {}: {problem}\n{:?}", plan.seed, plan.setup);
    for (at, event) in &shortened.events {
        println!("{at:>6} ms: {event:?}");
    }
    println!(
        "FLEET_SEED={} cargo test --all-features --test fleet",
        plan.seed
    );
}

/// Leaves out parts of the events, large ones first, as long as the plan fails.
fn shortened(mut plan: Plan) -> Plan {
    /// The most plans that are tried.
    const TRIES: usize = 500;
    let mut tries = 0;
    let mut part = plan.events.len().div_ceil(2);
    while part > 0 && tries < TRIES {
        let mut begin = 0;
        let mut is_shorter = false;
        while begin < plan.events.len() && tries < TRIES {
            let end = (begin + part).min(plan.events.len());
            let mut fewer = plan.clone();
            fewer.events.drain(begin..end);
            tries += 1;
            if problems(&fewer).is_empty() {
                begin = end;
            } else {
                plan = fewer;
                is_shorter = true;
            }
        }
        if !is_shorter {
            part /= 2;
        }
    }
    plan
}
