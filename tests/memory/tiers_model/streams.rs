//! Random tiers, and random requests of them.

use std::time::Duration;

use proptest::{
    collection::vec,
    prelude::{Just, Strategy, any, prop_oneof},
};
use tollgate::tiers::Tier;

/// One request: how much later than the one before, and of how many units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) gap: u64,
    pub(crate) least: u32,
    pub(crate) most: u32,
}

fn micros(us: std::ops::Range<u64>) -> impl Strategy<Value = Duration> {
    us.prop_map(Duration::from_micros)
}

fn tier() -> impl Strategy<Value = Tier> {
    let limit = prop_oneof![8 => 1..7_u32, 1 => 7..120_u32];
    let window = prop_oneof![12 => micros(1..40), 1 => Just(Tier::FOREVER)];
    let active = prop_oneof![12 => micros(1..40), 1 => Just(Tier::FOREVER)];
    let cooldown = prop_oneof![
        4 => Just(Duration::ZERO),
        12 => micros(1..60),
        1 => Just(Tier::FOREVER),
    ];
    (limit, window, active, cooldown, 0..6).prop_map(
        |(limit, window, active, cooldown, skippable)| {
            let tier = Tier::new(limit, window).active(active).cooldown(cooldown);
            if skippable == 0 {
                tier.skippable()
            } else {
                tier
            }
        },
    )
}

pub(crate) fn tiers() -> impl Strategy<Value = Vec<Tier>> {
    prop_oneof![15 => vec(tier(), 1..=4), 1 => vec(tier(), 5..=16)]
}

/// Mostly of one unit and soon; now and then a group, or a pause.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![4 => Just(0), 8 => 0..6_u64, 4 => 0..40_u64, 1 => 0..400_u64];
    let group = prop_oneof![
        6 => Just((1, 1)),
        3 => (1..9_u32).prop_map(|units| (units, units)),
        3 => (1..5_u32, 0..20_u32).prop_map(|(least, more)| (least, least + more)),
        1 => (1..150_u32).prop_map(|units| (units, units)),
    ];
    let step = (gap, group).prop_map(|(gap, (least, most))| Step { gap, least, most });
    vec(step, 1..80)
}

/// When a stream begins.
pub(crate) fn start() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just((1 << 52) - 100_000),
        any::<u64>().prop_map(|us| us >> 13)
    ]
}
