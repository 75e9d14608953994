//! The requests of a limit over time, as SVG.

use std::fmt::Write;

use crate::{
    output::{grouped, instant},
    replay::Timeline,
};

const WIDTH: u64 = 960;
const HEIGHT: u64 = 160;

/// The requests of a limit over time: allowed ones, and denied ones on top of them.
pub(super) fn timeline(timeline: &Timeline) -> String {
    let slots = &timeline.slots;
    let most = slots.iter().map(|slot| slot.allowed + slot.denied).max();
    let (Some(most @ 1..), count @ 1..) = (most, slots.len() as u64) else {
        return String::new();
    };
    let mut bars = String::new();
    for (place, slot) in slots.iter().enumerate() {
        let x = place as u64 * WIDTH / count;
        let width = ((place as u64 + 1) * WIDTH / count - x).max(1);
        let denied = scaled(slot.denied, most);
        let allowed = scaled(slot.allowed, most);
        for (class, y, height) in [
            ("allowed", HEIGHT - allowed, allowed),
            ("denied", HEIGHT.saturating_sub(allowed + denied), denied),
        ] {
            if height > 0 {
                let _ = write!(
                    bars,
                    "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
                );
            }
        }
    }
    let end = timeline
        .start
        .saturating_add(timeline.slot_us.saturating_mul(count));
    format!(
        "<figure><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Requests over time\">{bars}</svg>\
         <figcaption><span>{}</span><span>up to {} requests in {} s, denied ones in red</span><span>{}</span></figcaption></figure>\n",
        instant(timeline.start),
        grouped(most),
        grouped(timeline.slot_us / 1_000_000),
        instant(end),
    )
}

/// The height of a bar. What is there can be seen.
fn scaled(number: u64, most: u64) -> u64 {
    let height = u128::from(number) * u128::from(HEIGHT) / u128::from(most);
    let height = u64::try_from(height).unwrap_or(HEIGHT);
    height.max(u64::from(number > 0))
}
