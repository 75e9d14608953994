//! Burst tiers.

use std::{collections::BTreeMap, time::Duration};

use crate::{decision::Decision, limit::Limit, tiers::Tier, transaction::Transaction};
use serde::Deserialize;

use super::world::World;

#[derive(Deserialize)]
struct File {
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
struct Scenario {
    name: String,
    tiers: Vec<(u32, [Option<u64>; 3], bool)>,
    events: Vec<Event>,
}

/// The time; the fewest and the most units; the granted units; the tiers that granted them; the time until the request
/// would be granted; the phases before.
#[derive(Deserialize)]
struct Event(
    u64,
    u32,
    u32,
    u32,
    BTreeMap<usize, u32>,
    Option<u64>,
    #[allow(dead_code, reason = "no backend tells them")] Vec<String>,
);

impl Scenario {
    /// A millisecond of the scenarios is a microsecond here: each is the smallest unit of time.
    fn limit(&self) -> Limit {
        let span = |ticks: Option<u64>| ticks.map_or(Tier::FOREVER, Duration::from_micros);
        let tiers = self
            .tiers
            .iter()
            .map(|(limit, [window, active, cooldown], skippable)| {
                let tier = Tier::new(*limit, span(*window));
                let tier = tier.active(span(*active)).cooldown(span(*cooldown));
                if *skippable { tier.skippable() } else { tier }
            });
        Limit::tiers(tiers).unwrap()
    }
}

/// A backend must grant the same as Charon's own simulator.
pub async fn charons_scenarios_play_out(world: World) {
    let file: File = serde_json::from_str(include_str!("../charon.json")).unwrap();
    let start = world.now();
    for scenario in file.scenarios {
        let limiter = world.limiter([("tiers", scenario.limit())]);
        let id = world.id(&scenario.name);
        for Event(time, least, most, granted, split, retry_after, _) in scenario.events {
            world.set(start + time);
            let request = Transaction::new("tiers", &id).cost(most).min_cost(least);
            let decision = limiter.spend(&request).await.unwrap();
            let place = format!("{} at {time}", scenario.name);
            assert_eq!(decision.allowed(), granted > 0, "{place}");
            assert_eq!(decision.granted(), granted, "{place}");
            assert_eq!(
                decision.split().collect::<BTreeMap<_, _>>(),
                split,
                "{place}"
            );
            let wait = retry_after.map_or(Decision::NEVER, Duration::from_micros);
            assert_eq!(decision.retry_after(), wait, "{place}");
        }
    }
}
