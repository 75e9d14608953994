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
            if env::var_os("FLEET_TRACE").is_some() {
                print!("{}", text(&plan));
                let (_, trace) = fleet::trace(&plan);
                trace.iter().for_each(|line| println!("{line}"));
            }
            let problems = problems(&plan);
            if let Some(problem) = problems.first() {
                failed.fetch_add(1, Relaxed);
                match goes_on {
                    true => println!("{seed}: {:?} {:?}: {problem}", plan.theme, plan.setup.stack),
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

/// The number of seeds that are run twice.
const REPEATED: usize = 12;

/// Runs some seeds twice, on two threads at the same time, and compares all decisions of the store.
///
/// Seeds that replace runtimes are left out. The wheel of a new runtime's timers begins at a real instant, and so do the turns
/// of timers that are due in the same millisecond.
pub(crate) fn repeat() {
    let plans = (0..).map(Plan::of).filter(|plan| !plan.ends_runtimes());
    for plan in plans.take(REPEATED) {
        let (seed, run) = (plan.seed, || fleet::trace(&plan));
        let (first, second) = thread::scope(|scope| {
            let second = scope.spawn(run);
            (run(), second.join().expect("no seed panics"))
        });
        let mut both = first.1.iter().zip(&second.1);
        let different = both.find(|(first, second)| first != second);
        assert_eq!(different, None, "seed {seed}");
        assert_eq!(first.1.len(), second.1.len(), "seed {seed}");
        assert_eq!(first.0, second.0, "seed {seed}");
    }
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
    let (seed, text) = (plan.seed, text(&shortened));
    println!(
        "seed {seed}: {problem}\n{text}FLEET_SEED={seed} cargo test --all-features --test fleet"
    );
}

/// Returns a line for the setup of a plan, and one for each event.
fn text(plan: &Plan) -> String {
    let mut text = format!("{:?}: {:?}\n", plan.theme, plan.setup);
    for (at, event) in &plan.events {
        text += &format!("{at:>9} us: {event:?}\n");
    }
    text
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
