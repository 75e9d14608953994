//! Prints how long it takes to find the limit of an address among overrides of ranges, and without any.
//!
//! `ranges [number]`, a hundred thousand by default: half of them of 16 to 31 bits in IPv4, and half of 32 to 63 bits in IPv6.

use std::{
    collections::BTreeSet,
    hint::black_box,
    net::{Ipv4Addr, Ipv6Addr},
};

use rustix::time::{ClockId, clock_gettime};
use tollgate::{Limits, limit::LimitsBuilder};

const DEFAULTS: &str =
    r#"{"requests": {"id": "ipAddress", "burst": 9, "count": 9, "period": "1s"}}"#;

/// The number of addresses that are looked up in a turn, and the number of turns.
const TURN: usize = 1 << 16;
const TURNS: usize = 31;

fn main() {
    let number = std::env::args().nth(1).map_or(Ok(100_000), |n| n.parse());
    let number = number.expect("the argument is how many ranges");
    let mut random = Random(1);
    let mut ranges = BTreeSet::new();
    while ranges.len() < number {
        ranges.insert(random.range());
    }
    let ids: Vec<_> = ranges.iter().map(|range| range.text()).collect();
    let overrides = format!(
        r#"[{{"requests": {{"burst": 5, "count": 5, "period": "1s", "ids": ["{}"]}}}}]"#,
        ids.join(r#"",""#)
    );
    let recipe = Limits::builder().defaults_text("limits.json", DEFAULTS);
    let without = load(&recipe);
    let with = load(&recipe.overrides_text("overrides.json", &overrides));

    let ranges: Vec<_> = ranges.into_iter().collect();
    for (name, is_v4) in [("IPv4", true), ("IPv6", false)] {
        let ranges: Vec<_> = ranges.iter().filter(|range| range.is_v4 == is_v4).collect();
        let in_range = (0..TURN).map(|_| ranges[random.below(ranges.len())].client(&mut random));
        let in_range: Vec<_> = in_range.collect();
        let anywhere = (0..TURN).map(|_| {
            Range {
                is_v4,
                first: 0,
                len: 0,
            }
            .client(&mut random)
        });
        let anywhere: Vec<_> = anywhere.collect();
        println!(
            "{name}: {} ns in one of {number} ranges, {} ns anywhere, {} ns without ranges",
            time(&with, &in_range),
            time(&with, &anywhere),
            time(&without, &in_range)
        );
    }
}

fn load(recipe: &LimitsBuilder) -> Limits {
    recipe.build().expect("what is generated is right")
}

/// Returns the nanoseconds that finding the limit of a client takes on a processor: the median of all turns.
fn time(limits: &Limits, clients: &[String]) -> usize {
    let named = limits.get("requests").expect("it was defined");
    let turn = || {
        let begun = clock_gettime(ClockId::ThreadCPUTime);
        for id in clients {
            let _ = black_box(named.limit_of(black_box(id)));
        }
        let took = clock_gettime(ClockId::ThreadCPUTime) - begun;
        (took.tv_sec * 1_000_000_000 + took.tv_nsec) as usize / clients.len()
    };
    let mut turns: Vec<_> = (0..TURNS).map(|_| turn()).collect();
    turns.sort_unstable();
    turns[TURNS / 2]
}

/// A range of addresses, whose first one has its bits from the highest on.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    is_v4: bool,
    first: u128,
    len: u32,
}

impl Range {
    fn text(&self) -> String {
        format!("{}/{}", self.address(self.first), self.len)
    }

    /// Returns some address in the range.
    fn client(&self, random: &mut Random) -> String {
        let host = random.bits().checked_shr(self.len).unwrap_or_default();
        self.address(self.first | host)
    }

    fn address(&self, bits: u128) -> String {
        if self.is_v4 {
            Ipv4Addr::from_bits((bits >> 96) as u32).to_string()
        } else {
            // The /64 of a client.
            Ipv6Addr::from_bits(bits >> 64 << 64).to_string()
        }
    }
}

/// A sequence of numbers without a pattern.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 29
    }

    fn bits(&mut self) -> u128 {
        u128::from(self.next()) << 64 | u128::from(self.next())
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    fn range(&mut self) -> Range {
        let is_v4 = self.next() >> 40 & 1 == 0;
        let len = if is_v4 {
            16 + self.below(16) as u32
        } else {
            32 + self.below(32) as u32
        };
        // IPv6 has been given out in 2000::/3 so far.
        let bits = self.bits();
        let bits = if is_v4 { bits } else { bits >> 3 | 1 << 125 };
        Range {
            is_v4,
            first: bits >> (128 - len) << (128 - len),
            len,
        }
    }
}
