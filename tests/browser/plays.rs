//! What the page counts is what the arithmetic grants.

use crate::page::{Page, Totals};

struct Preset {
    name: &'static str,
    tiers: &'static [[u32; 4]],
    gcra: [u32; 3],
}

const PRESETS: [Preset; 4] = [
    Preset {
        name: "Simple",
        tiers: &[[5, 1, 1, 0]],
        gcra: [5, 5, 1],
    },
    Preset {
        name: "Penalties",
        tiers: &[[5, 1, 1, 0], [50, 5, 5, 15]],
        gcra: [50, 5, 1],
    },
    Preset {
        name: "Punishment",
        tiers: &[[5, 1, 1, 0], [1, 15, 15, 0]],
        gcra: [5, 5, 1],
    },
    Preset {
        name: "Batch",
        tiers: &[[50, 15, 15, 30]],
        gcra: [50, 50, 45],
    },
];

#[test]
fn every_pattern_on_every_preset_is_granted_what_the_arithmetic_grants() {
    let page = Page::open("");
    for (nth, Preset { name, tiers, gcra }) in PRESETS.iter().enumerate() {
        let link = format!(".presets a:nth-child({})", nth + 1);
        page.browser.click(&link);
        page.browser.wait_for(&format!("{link}[aria-current]"));
        for pattern in ["steady", "busy", "bursts", "nightly"] {
            page.play(pattern, "all");
            let expected = Totals::of(tiers, *gcra, &page.pattern(pattern));
            assert_eq!(page.totals(), expected, "{name}, {pattern}");
            assert!(expected.granted > 0, "{name}, {pattern}");
            // Four a second are all granted, but by a batch's limit.
            let is_polite = pattern == "steady" && *name != "Batch";
            assert_eq!(expected.rejected == 0, is_polite, "{name}, {pattern}");
        }
    }
}

#[test]
fn known_plays_have_known_totals_at_any_speed() {
    let page = Page::open("?tiers=5,1,1,0,50,5,5,15&gcra=50,5,1");
    page.play("bursts", "all");
    let burst = page.totals();
    // The upper tier is active up to 5.4 s and from 20.48 s to 25.48 s: for all of a burst, or a part of it.
    let bursts = [12, 6 + 5, 5, 5, 5 + 6, 7 + 5, 5];
    assert_eq!(burst.granted, bursts.iter().sum::<usize>());
    assert_eq!(burst.rejected, 7 * 12 - burst.granted);

    page.go("?tiers=50,15,15,30");
    page.play("nightly", "all");
    let nights = page.totals();
    assert_eq!((nights.granted, nights.rejected), (100, 20));

    page.go("?tiers=5,1,1,0,1,15,15,0");
    page.play("bursts", "all");
    let prison = page.totals();
    // One of them all locks the client out, for fifteen seconds each time.
    assert_eq!(prison.by_tier, [10, 2]);

    page.play("bursts", "20");
    assert_eq!(page.totals(), prison);
}
