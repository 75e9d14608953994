//! Prints how long a file of overrides takes to load, and what the overrides cost a decision.
//!
//! `overrides [number]`, a million by default. Decisions with and without overrides take turns, so that a busy moment
//! affects both. None of the clients has an override.

use std::{
    fmt::Write,
    hint::black_box,
    time::{Duration, Instant},
};

use tollgate::{Limiter, Limits, MemoryBackend, Transaction, limit::LimitsBuilder};
use tollgate_peers::client;

const DEFAULTS: &str =
    r#"{"requests": {"id": "ipAddress", "burst": 1000, "count": 1000, "period": "1s"}}"#;

/// The number of decisions in a turn, and the number of turns of each side.
const TURN: u32 = 50_000;
const TURNS: usize = 101;

fn main() {
    let overrides = std::env::args().nth(1).map_or(Ok(1_000_000), |n| n.parse());
    let overrides: u32 = overrides.expect("the argument is how many overrides");
    let recipe = Limits::builder().defaults_text("limits.json", DEFAULTS);
    let without = load(&recipe);
    let mut with = without.clone();
    for (name, file, text) in texts(overrides) {
        let begun = Instant::now();
        with = load(&recipe.clone().overrides_text(file, &text));
        let took = begun.elapsed().as_millis();
        println!(
            "{name}: {overrides} overrides, {} MB, loaded in {took} ms",
            text.len() / 1_000_000
        );
    }
    for clients in [1, 1 << 10, 1 << 16, 1 << 20] {
        compare(&with, &without, overrides, clients);
    }
}

fn load(recipe: &LimitsBuilder) -> Limits {
    recipe.build().expect("what is generated is right")
}

/// The same overrides in each language and form.
fn texts(overrides: u32) -> [(&'static str, &'static str, String); 4] {
    let mut yaml = "- requests:\n    burst: 9\n    count: 9\n    period: 1s\n    ids:\n".to_owned();
    let mut keyed = String::new();
    let mut ids = Vec::new();
    for n in 0..overrides {
        let id = client(n);
        let lines = writeln!(yaml, "      - {id}")
            .and_then(|()| writeln!(keyed, "requests:{id}: {{burst: 9, count: 9, period: 1s}}"));
        lines.expect("there is memory");
        ids.push(format!(r#""{id}""#));
    }
    let ids = ids.join(",\n");
    let json =
        format!(r#"[{{"requests": {{"burst": 9, "count": 9, "period": "1s", "ids": [{ids}]}}}}]"#);
    let toml = format!("[[requests]]\nburst = 9\ncount = 9\nperiod = \"1s\"\nids = [{ids}]\n");
    [
        ("YAML, list", "overrides.yml", yaml),
        ("YAML, keyed", "overrides.yml", keyed),
        ("JSON", "overrides.json", json),
        ("TOML", "overrides.toml", toml),
    ]
}

/// Times decisions on this many clients in random order, with overrides and without.
fn compare(with: &Limits, without: &Limits, overrides: u32, clients: u32) {
    let ids: Vec<_> = (0..clients)
        .map(|n| client(overrides + n).to_string())
        .collect();
    let limiters = [with, without].map(|limits| {
        let limiter = Limiter::new(limits.clone(), MemoryBackend::with_max_buckets(4_000_000));
        ids.iter().for_each(|id| spend(&limiter, id));
        limiter
    });
    let mut state = 1_u64;
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..TURNS {
        for (limiter, times) in limiters.iter().zip(&mut times) {
            times.push(turn(limiter, &ids, &mut state));
        }
    }
    let [with, without] = times.map(|mut times| {
        times.sort_unstable();
        times[TURNS / 2].as_nanos() / u128::from(TURN)
    });
    println!("{clients} clients: {with} ns with overrides, {without} ns without");
}

fn turn(limiter: &Limiter, ids: &[String], state: &mut u64) -> Duration {
    let begun = Instant::now();
    for _ in 0..TURN {
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let client = (*state >> 33) as usize & (ids.len() - 1);
        spend(limiter, &ids[client]);
    }
    begun.elapsed()
}

fn spend(limiter: &Limiter, id: &str) {
    let spent = limiter.try_spend(&Transaction::new("requests", id));
    let _ = black_box(
        spent
            .expect("memory never waits")
            .expect("the id is an address"),
    );
}
